"""Builds the site in target/site from the repository's Markdown pages, and checks its links. `cargo xtask site` runs it.

The pages are written for GitHub. This gives each heading the anchor that GitHub gives it, and points a link that leaves
the site to the file in the repository.
"""

import html
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "target/site-source"
PAGES = WORK / "pages"
OUT = ROOT / "target/site"
REPOSITORY = "https://github.com/teamwire/teamwire"
SITE = "https://teamwire.github.io/teamwire/"

# The navigation: each page's title, and its file.
NAVIGATION = {
    "Start": {
        "What teamwire is": "README.md",
        "Step by step": "docs/step-by-step.md",
        "Concepts": "docs/concepts.md",
        "Upgrade and remove": "docs/upgrading.md",
        "Support": ".github/SUPPORT.md",
    },
    "Use": {
        "Team file": "docs/team-file.md",
        "Console": "docs/console.md",
        "Notifications": "docs/notifications.md",
        "The work": "docs/work.md",
        "Hosts": "docs/hosts.md",
        "Programs: the line protocol": "docs/line-protocol.md",
        "Clients": "client/README.md",
    },
    "Agents": {
        "Overview": "docs/agents/README.md",
        "Claude Code": "docs/agents/claude.md",
        "Codex": "docs/agents/codex.md",
        "Gemini CLI": "docs/agents/gemini.md",
        "opencode": "docs/agents/opencode.md",
        "Your own session": "docs/agents/setup.md",
        "MCP tools": "docs/mcp.md",
    },
    "Operate": {
        "Operations": "docs/operations.md",
        "Security": "SECURITY.md",
        "Redis": "docs/redis.md",
        "Containers": "docs/containers.md",
        "Kubernetes": "docs/kubernetes.md",
        "Scale": "docs/scale.md",
    },
    "Reference": {
        "Commands": "docs/cli.md",
        "Configuration": "src/config/default.toml",
        "Protocol": "docs/protocol.md",
        "Limits": "docs/limits.md",
        "Stability": "docs/stability.md",
        "Changelog": "CHANGELOG.md",
    },
    "Internals": {
        "Architecture": "ARCHITECTURE.md",
        "Delivery": "docs/internals/delivery.md",
        "Storage": "docs/internals/storage.md",
        "Testing": "docs/testing.md",
        "Proof": "docs/proof.md",
        "Benchmarks": "docs/benchmarks.md",
        "Benchmark results": "docs/benchmarks/results.md",
        "Contributing": "CONTRIBUTING.md",
        "Code of conduct": ".github/CODE_OF_CONDUCT.md",
        "Releases": "docs/releasing.md",
        "Prose": "docs/prose.md",
    },
    "Decisions": {"Overview": "docs/decisions/README.md"},
}

# Where a file outside docs/ goes.
PLACES = {"README.md": "index.md", "client/README.md": "clients.md", "src/config/default.toml": "configuration.md"}

CONFIGURATION = """# Configuration

Every configuration key of a coordinator, with its default. `teamwire serve --config FILE` reads such a file, and a
[schema](config.schema.json) describes it to editors.

```toml
{}```
"""

FENCE = re.compile(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"""(\]\(|^\[[^\]]+\]: +|\b(?:src|href|srcset)=")([^)\s"]+)""", re.MULTILINE)


def main():
    """Builds and checks."""
    navigation = {group: dict(pages) for group, pages in NAVIGATION.items()}
    for path in sorted((ROOT / "docs/decisions").glob("0*.md")):
        title = path.read_text().split("\n", 1)[0].removeprefix("# ")
        navigation["Decisions"][title] = str(path.relative_to(ROOT))
    files = [file for pages in navigation.values() for file in pages.values()]
    listed = {ROOT / file for file in files}
    if missing := [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")) if path not in listed]:
        failed(f"no navigation entry for {', '.join(missing)}", "add it to NAVIGATION in xtask/site/build.py")

    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("*.md"))
    shutil.copy(ROOT / "xtask/site/extra.css", PAGES)
    reference = tag() or "main"
    problems = []
    for file in files:
        page = PAGES / place(file)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(convert(file, set(files), reference, problems))
    write_configuration(navigation)
    report(problems)

    build = [pathlib.Path(sys.executable).with_name("zensical"), "build", "--clean", "--strict"]
    if subprocess.run(build, cwd=WORK).returncode:
        failed("zensical failed", "read its output above")
    shutil.rmtree(OUT, ignore_errors=True)
    (WORK / "built").rename(OUT)
    # Beside its page, the source of each: agents read it more easily.
    for file in files:
        (OUT / place(file)).parent.mkdir(parents=True, exist_ok=True)
        text = re.sub(r" \{ #\S+ \}$", "", (PAGES / place(file)).read_text(), flags=re.MULTILINE)
        (OUT / place(file)).write_text(text)
    (OUT / "llms.txt").write_text(summary(navigation))
    checked = check(OUT, problems)
    report(problems)
    print(f"site: {len(files)} pages, {checked} links: {OUT}/index.html")


def failed(what, advice):
    """Ends this program."""
    sys.exit(f"site: {what}\nsite: next: {advice}")


def report(problems):
    """Fails if there are problems."""
    if problems:
        failed("\n".join(["links that lead nowhere:", *sorted(set(problems))]), "correct the links in these pages")


def tag():
    """Returns the release tag of the commit that is checked out, if there is one."""
    named = ["git", "describe", "--tags", "--exact-match", "--match", "v[0-9]*"]
    return subprocess.run(named, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def place(file):
    """Returns where the page of a file is in the site."""
    if file in PLACES:
        return PLACES[file]
    path = pathlib.PurePosixPath(file)
    if path.parts[0] == "docs":
        return str(path.relative_to("docs").parent / ("index.md" if path.name == "README.md" else path.name))
    return path.name.lower().replace("_", "-")


def convert(file, files, reference, problems):
    """Returns the page of a file as the site generator reads it."""
    text = (ROOT / file).read_text()
    if not file.endswith(".md"):
        return CONFIGURATION.format(text)
    kept = []

    def keep(found):
        code = found.group()
        # In a cell of a table, GitHub reads `\|` as one character.
        if "\\|" in code and "\n" not in code:
            code = "<code>" + html.escape(code.strip("`")).replace("\\|", "&#124;") + "</code>"
        kept.append(code)
        return f"\0{len(kept) - 1}\0"

    def restore(text):
        return re.sub("\0(\\d+)\0", lambda found: kept[int(found.group(1))], text)

    text = CODE.sub(keep, FENCE.sub(keep, text))
    text = LINK.sub(lambda found: found.group(1) + target(found.group(2), file, files, reference, problems), text)
    slugs = {}
    heading = re.compile(r"^(#{1,6} .*?) *$", re.MULTILINE)
    text = heading.sub(lambda found: f"{found.group(1)} {{ #{slug(restore(found.group(1)), slugs)} }}", text)
    return indent(restore(text))


def target(link, file, files, reference, problems):
    """Returns where a link of a page leads in the site, or in the repository if the site has no such page."""
    path, _, anchor = link.partition("#")
    if not path or ":" in path:
        return link
    absolute = (ROOT / file).parent.joinpath(urllib.parse.unquote(path)).resolve()
    if not absolute.exists() or not absolute.is_relative_to(ROOT):
        problems.append(f"{file}: {link}")
        return link
    named = str(absolute.relative_to(ROOT))
    if f"{named}/README.md" in files:
        named += "/README.md"
    anchor = anchor and f"#{anchor}"
    if named in files:
        return relative(place(named), place(file)) + anchor
    if named.startswith("docs/") and absolute.is_file():
        return relative(named.removeprefix("docs/"), place(file))
    return f"{REPOSITORY}/{'tree' if absolute.is_dir() else 'blob'}/{reference}/{named}{anchor}"


def relative(path, page):
    """Returns the path of one page or image from another page."""
    return "../" * page.count("/") + path


def slug(heading, seen):
    """Returns the anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("#").strip())
    name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    seen[name] = seen.get(name, -1) + 1
    return f"{name}-{seen[name]}" if seen[name] else name


def indent(text):
    """Writes lists as Python-Markdown reads them: after an empty line, and with four spaces for each level."""
    lines, in_list, in_paragraph, fence, before, indentation = [], False, False, None, "", 0
    for line in text.split("\n"):
        spaces = len(line) - len(line.lstrip(" "))
        if fence is not None:
            ends = line.strip() == fence[0]
            line, fence = " " * fence[1] + line, None if ends else fence
        elif found := re.match(r" *(```+|~~~+)", line):
            extra = 4 * (spaces // 2) - spaces if in_list else 0
            line, fence = " " * extra + line, (found.group(1), extra)
        elif re.match(r"([-*]|\d+\.) ", line):
            if before and (in_paragraph or not in_list):
                lines.append("")
            in_list, in_paragraph = True, False
        elif in_list and spaces >= 2:
            in_paragraph = in_paragraph or not before
            begins = re.match(r" *([-*]|\d+\.) ", line) and not re.match(r" *([-*]|\d+\.) ", before)
            if begins and before and indentation == spaces:
                lines.append("")
            line = " " * (4 * (spaces // 2)) + line.lstrip()
        elif line:
            in_list = False
        lines.append(line)
        before, indentation = line, spaces
    return "\n".join(lines)


def write_configuration(navigation):
    """Writes the generator's configuration with the navigation. TOML reads JSON's strings."""
    groups = [
        f"  {{ {json.dumps(group)} = [\n"
        + "".join(f"    {{ {json.dumps(title)} = {json.dumps(place(file))} }},\n" for title, file in pages.items())
        + "  ] },\n"
        for group, pages in navigation.items()
    ]
    text = (ROOT / "xtask/site/zensical.toml").read_text()
    (WORK / "zensical.toml").write_text(text.replace("nav = []", f"nav = [\n{''.join(groups)}]"))


def summary(navigation):
    """Returns llms.txt: every page with its first sentence."""
    lines = ["# teamwire", "", f"> {sentence('README.md')}"]
    for group, pages in navigation.items():
        lines += ["", f"## {group}", ""]
        lines += [f"- [{title}]({SITE}{place(file)}): {sentence(file)}" for title, file in pages.items()]
    return "\n".join(lines) + "\n"


def sentence(file):
    """Returns the first sentence of a page, as plain text."""
    text = FENCE.sub("", re.sub(r"<!--.*?-->", "", (PAGES / place(file)).read_text(), flags=re.DOTALL))
    words = [part for part in re.split(r"\n\s*\n", text) if re.match(r"(?!\d+\.|\* )[\w`*\[]", part.strip())]
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(words[0].split())) if words else ""
    return re.split(r"(?<=[.:!?]) (?=[A-Z`*\[])", words)[0].replace("*", "").replace("`", "").rstrip(":")


class Page(html.parser.HTMLParser):
    """The anchors and the links of a built page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        """Collects them."""
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src", "srcset") and value and tag != "base":
                self.links.add(value)


def check(site, problems):
    """Checks that each link within the built site leads to a file and, if it names one, to an anchor. Counts them."""
    # The page for missing pages has absolute links.
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            checked += 1
            there = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            anchor = urllib.parse.unquote(parts.fragment)
            exists = there.is_file() and (not anchor or there not in pages or anchor in pages[there].anchors)
            if not exists:
                problems.append(f"{path.relative_to(site)}: {link}")
    return checked


if __name__ == "__main__":
    main()

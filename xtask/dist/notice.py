"""The notice of third parties: whose software the program contains, under which licenses.

Cargo names the crates, and the console the packages that it bundles (`console/dist/licenses.txt`). The static program
also contains Rust's standard library and the C library.
"""

import collections
import dataclasses
import json
import pathlib
import re
import subprocess

from source import failed, output

LICENSE_FILE = re.compile(r"(licen[sc]e|copying|copyright|notice|unlicense)([-._].*)?", re.IGNORECASE)
# Sources with such names.
CODE = {".c", ".h", ".html", ".js", ".py", ".rs"}
# The heading of a package that the console bundles.
BUNDLED = re.compile(r"^## (\S+) - (\S+) \(\(?(.+?)\)?\)$", re.MULTILINE)
# Whose copyright a text is under that is not in the package.
AUTHORS = {"@bufbuild/protobuf": "2008 Google Inc."}
# What the C library of a static program is made of: the package that says so on Debian, and its license.
SYSTEM = {"libc6": "LGPL-2.1-or-later", "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1"}

INTRODUCTION = """\
THIRD-PARTY SOFTWARE IN TEAMWIRE {version}

The program teamwire contains the software below. teamwire itself is under the Apache License, version 2.0: see LICENSE.
"""
LIBRARY = """
The program contains the GNU C Library, which is under the GNU Lesser General Public License. To use a changed version
of it, build the program again from teamwire-{version}-source.tar.gz, as docs/releasing.md in that archive says.
"""
RULE = "=" * 100


@dataclasses.dataclass(frozen=True, order=True)
class Part:
    """Software in the program."""

    name: str
    version: str
    license: str
    texts: tuple[str, ...]
    """The texts of its licenses."""


def crates(source, target):
    """Returns the crates in the program for a target."""
    # What the program is linked from: neither tools of the build nor macros.
    arguments = ["--locked", "--package", "teamwire", "--edges", "no-dev,no-build,no-proc-macro"]
    arguments += ["--target", target, "--prefix=none", "--format={p}"]
    tree = source.cargo("tree", *arguments, quiet=True, stdout=subprocess.PIPE)
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
    arguments = ["--locked", "--format-version=1", "--filter-platform", target]
    metadata = json.loads(source.cargo("metadata", *arguments, quiet=True, stdout=subprocess.PIPE))
    found = []
    for package in metadata["packages"]:
        name, version, license = package["name"], package["version"], package["license"]
        if package["source"] and (name, f"v{version}") in linked:
            authors = ", ".join(package["authors"]) or f"the authors of {name}"
            given = texts(pathlib.Path(package["manifest_path"]).parent)
            found.append(Part(name, version, license, tuple(given or standard(license, name, authors))))
    if len(found) < 100:
        failed(f"cargo names only {len(found)} crates", "compare `cargo tree` with xtask/dist/notice.py")
    return sorted(found)


def bundled(source):
    """Returns the packages in the console."""
    page = (source.root / "console/dist/licenses.txt").read_text()
    _, *parts = BUNDLED.split(page)
    found = []
    for name, version, license, text in zip(*(parts[at::4] for at in range(4)), strict=True):
        given = (
            (text.strip(),) if text.strip() else standard(license, name, AUTHORS.get(name, f"the authors of {name}"))
        )
        found.append(Part(name, version, license, tuple(given)))
    if not found:
        failed("console/dist/licenses.txt names no package", "see what `cargo xtask console` writes")
    return found


def texts(directory):
    """Returns the texts of the licenses below a directory. Sources that a crate brings along have their own."""
    files = {path for path in directory.rglob("*") if LICENSE_FILE.fullmatch(path.name) and path.suffix not in CODE}
    files |= set(directory.glob("LICENSES/*"))
    return [path.read_text(errors="replace").strip() for path in sorted(files) if path.is_file()]


def standard(license, name, authors):
    """Returns the texts of a license that a package names without its text."""
    here = pathlib.Path(__file__).parent / "licenses"
    files = [here / f"{part}.txt" for part in re.findall(r"[\w.-]+", license or "")]
    if found := [file.read_text().replace("@AUTHORS@", authors).strip() for file in files if file.is_file()]:
        return found
    return failed(f"{name} has no text of its license, {license}", "put the text into xtask/dist/licenses")


def write(source, target):
    """Writes the notice of the program for a target, and copies what Rust says of its library. Returns the files."""
    directory = source.empty(f"notices-{target}")
    # The program for macOS loads the C library of the system.
    system = SYSTEM if "linux" in target else {}
    users, table = collections.defaultdict(list), []
    for parts, where in ((crates(source, target), ""), (bundled(source), " (in the console)")):
        for part in parts:
            table.append(f"  {part.name + ' ' + part.version:40} {part.license}{where}")
            for text in part.texts:
                users[text].append(f"{part.name} {part.version}")
    for name, license in system.items():
        table.append(f"  {name:40} {license}")
        text = pathlib.Path("/usr/share/doc", name, "copyright")
        if not text.is_file():
            failed(f"there is no {text}", "make releases on Debian, whose packages say what the C library is made of")
        users[text.read_text(errors="replace").strip()].append(name)
    table.append(f"  {'the standard library of Rust':40} MIT OR Apache-2.0: see THIRD-PARTY-rust.html")

    introduction = (INTRODUCTION + (LIBRARY if system else "")).format(version=source.version)
    lines = [introduction, *table, ""]
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        lines += [RULE, "", f"In {', '.join(names)}:", "", text, ""]
    notice = directory / "THIRD-PARTY.txt"
    notice.write_text("\n".join(lines))

    sysroot = output("rustc", "--print", "sysroot", cwd=source.root, env=source.environment).strip()
    rust = directory / "THIRD-PARTY-rust.html"
    rust.write_bytes(pathlib.Path(sysroot, "share/doc/rust/COPYRIGHT-library.html").read_bytes())
    return [notice, rust]

"""Installs the program in each way that needs no account, from a server on this machine, upgrades it and removes it.

The lines that install, upgrade and remove come from docs/releasing.md and docs/upgrading.md. Each way has a home
directory, and leaves nothing in it.
"""

import contextlib
import dataclasses
import fnmatch
import functools
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import tomllib

import channels
import tarball
from binary import Program
from machine import PATIENCE, end, eventually
from source import clean_environment, failed, run, say
from targets import TARGETS

# What is upgraded: a program that says only its version.
OLD = "0.0.9"
NOBODY = 65534
# What a package manager keeps for itself.
KEPT = {"uv": (".cache/uv/", ".local/share/uv/"), "npm": (".npm/",)}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files. Ends in the middle of those below `/broken`."""

    def log_message(self, *_):
        pass

    def end_headers(self):
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def copyfile(self, source, target):
        if self.path.startswith("/broken/"):
            target.write(source.read(1000))
        else:
            # A client on a full disk goes.
            with contextlib.suppress(ConnectionError):
                super().copyfile(source, target)


@dataclasses.dataclass
class Release:
    """A server with this release and an older one, as the project's releases, PyPI and npm serve them."""

    source: object
    out: pathlib.Path
    place: pathlib.Path
    url: str = ""

    @contextlib.contextmanager
    def served(self):
        """Serves until the `with` block ends."""
        self.old()
        for version, files in ((self.source.version, self.out), (OLD, self.place / "old")):
            self.link(f"releases/download/v{version}", files)
        self.link("releases/latest/download", self.out)
        handler = functools.partial(Handler, directory=self.place / "served")
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield
            server.shutdown()

    def link(self, name, path):
        """Serves a path by a name."""
        served = self.place / "served" / name
        served.parent.mkdir(parents=True, exist_ok=True)
        served.symlink_to(path)
        return served

    def old(self):
        """Makes what users of the older release have."""
        older, out, target = dataclasses.replace(self.source, version=OLD), self.place / "old", self.source.target
        out.mkdir()
        program = self.place / "old-program"
        program.write_text(f"#!/bin/sh\necho teamwire {OLD}\n")
        program.chmod(0o755)
        tarball.write(channels.archive(older, target, out), tarball.name(older, target), {"teamwire": program}, older)
        channels.pack(older, {target: Program(program, None, None)}, {target: []}, out)

    def publish(self, version):
        """Puts a release into the index of Python, and makes it npm's latest."""
        files = self.out if version == self.source.version else self.place / "old"
        for path in files.glob("teamwire-*.whl"):
            self.link(f"simple/teamwire/{path.name}", path)
        for path in files.glob("teamwire-*.tgz"):
            if "client" in path.name:
                continue
            with tarfile.open(path) as packed:
                manifest = json.load(packed.extractfile("package/package.json"))
            integrity = f"sha512-{channels.base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()}"
            served = self.place / "served/npm" / manifest["name"]
            known = json.loads(served.read_text()) if served.exists() else {"name": manifest["name"], "versions": {}}
            dist = {"tarball": f"{self.url}/tarballs/{path.name}", "integrity": integrity}
            known["versions"][version] = manifest | {"dist": dist}
            known["dist-tags"] = {"latest": version}
            served.parent.mkdir(parents=True, exist_ok=True)
            served.write_text(json.dumps(known))
            self.link(f"tarballs/{path.name}", path)


class Person:
    """A home directory, in which a shell runs lines. Everything in it disappears with the `with` block."""

    def __init__(self, release, name, tools=(), **variables):
        self.release, self.home = release, release.place / "homes" / name
        self.home.mkdir(parents=True)
        shutil.copy(release.source.root / "examples/team.toml", self.home)
        inherited = {
            key: value for key, value in clean_environment().items() if key in ("LANG", "LC_ALL", "TZ", "USER")
        }
        path = [f"{self.home}/bin", f"{self.home}/.local/bin", *tools, "/usr/local/bin", "/usr/bin", "/bin"]
        self.environment = (
            inherited
            | {
                "HOME": str(self.home),
                "PATH": ":".join(map(str, path)),
                "TEAMWIRE_LISTEN": "127.0.0.1:0",
                "TEAMWIRE_DOWNLOAD_URL": f"{release.url}/releases/download",
            }
            | variables
        )
        self.before = self.files()
        self.began = time.monotonic()

    def run(self, line, *expected, status=0, **options):
        """Runs a line, and returns what it prints. Fails unless it prints what is expected and ends with the status."""
        options = {"cwd": self.home, "env": self.environment, "timeout": PATIENCE, "shell": True} | options
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
        )
        missing = [part for part in expected if part not in done.stdout]
        if done.returncode != status or missing:
            failed(
                f"`{line}` ended with {done.returncode} (expected: {status}), without {missing}: {done.stdout}",
                "run it by hand",
            )
        return done.stdout

    def files(self):
        """Returns all files and links in the home."""
        return {
            str(path.relative_to(self.home)) for path in self.home.rglob("*") if path.is_symlink() or path.is_file()
        }

    def converse(self, teamwire="teamwire"):
        """Starts a team of echoes, and ends it when one has answered. Deletes what docs/upgrading.md says."""
        self.run(f"{teamwire} --version", f"teamwire {self.release.source.version}")
        try:
            self.run(f"{teamwire} up team.toml", "Team acme is up.")
            ask = f"{teamwire} send backend 'Are you there?' -s 'a question' --wait-reply"
            self.run(ask, "You said: Are you there?")
            took = time.monotonic() - self.began
        finally:
            self.run(f"{teamwire} down", "Ended the coordinator.")
        shutil.rmtree(self.home / ".local/state/teamwire")
        shutil.rmtree(self.home / ".config/teamwire", ignore_errors=True)
        say(f"{self.home.name}: an echo answered {took:.1f} s after the first line")

    @contextlib.contextmanager
    def coordinator(self, *command):
        """Runs a coordinator until the `with` block ends."""
        address = self.home / ".local/state/teamwire/address"
        address.unlink(missing_ok=True)
        process = subprocess.Popen(command, cwd=self.home, env=self.environment, stderr=subprocess.DEVNULL)
        try:
            eventually("the coordinator serves", lambda: address.exists() or process.poll() is not None)
            yield process
        finally:
            end(process)

    def left_nothing(self, keeps=()):
        """Fails if a file is there that was not before. A package manager may keep small files, except npm's cache."""
        for name in sorted(self.files() - self.before):
            size = (self.home / name).lstat().st_size
            is_kept = name.startswith(tuple(keeps)) and "teamwire" not in name and size < 100_000
            if not is_kept and not (keeps == KEPT["npm"] and name.startswith(keeps)):
                failed(f"{self.home.name}: the removal leaves {name} ({size} bytes)", "see docs/upgrading.md")


def everything(source, out, directory):
    """Plays every way."""
    # Another user plays a part.
    directory.chmod(0o755)
    place = directory / "ways"
    place.mkdir()
    lines = table(source)
    release = Release(source, out, place)
    formula(source, out)
    with release.served():
        release.publish(OLD)
        script(release, lines)
        refusals(release)
        python = [release_of_python(release, way, lines) for way in ("uv", "pip")]
        node = release_of_npm(release, lines) if shutil.which("npm") else None
        release.publish(source.version)
        for upgraded in filter(None, [*python, node]):
            upgraded()
        at_once(release, lines)
        others(release)


@dataclasses.dataclass
class Lines:
    """The lines that install, upgrade and remove."""

    install: str
    upgrade: str
    remove: str


def table(source):
    """Returns the lines of each way to install, from the tables in docs/releasing.md and docs/upgrading.md."""
    rows = {}
    for page in ("releasing", "upgrading"):
        text = (source.root / f"docs/{page}.md").read_text()
        # The table whose last column says how to remove it.
        text = text.partition(" | remove |\n")[2].partition("\n\n")[0]
        for way, *cells in re.findall(r"^\| (\S[^|]*) \| (.+) \| (.+) \|$", text, re.MULTILINE):
            rows.setdefault(way, []).append([cell.strip("`").replace(r"\|", "|") for cell in cells])
    known = {}
    for way, described in rows.items():
        if len(described) == 2:
            [[install, remove], [upgrade, removed]] = described
            if remove != removed:
                failed(
                    f"the removal of {way} differs: {remove} and {removed}",
                    "correct docs/releasing.md or docs/upgrading.md",
                )
            known[way] = Lines(install, upgrade, remove)
    return known


def script(release, lines):
    """Installs with the script: with each shell and downloader, again, back to the older release, and to this one."""
    version, project = release.source.version, "https://github.com/teamwire/teamwire/releases"
    known = lines["`install.sh`"]
    install, upgrade = (line.replace(project, f"{release.url}/releases") for line in (known.install, known.upgrade))
    if known.install in (install, upgrade):
        failed("the line for install.sh does not name the project's releases", "see docs/releasing.md")
    person = Person(release, "install.sh", SHELL="/bin/bash")
    person.run(
        install, f"Installed teamwire {version}: {person.home}/.local/bin/teamwire", "To remove it: rm ", "no gh"
    )
    person.converse()
    person.run(f"{install} -s -- --version {OLD}", f"Replaced teamwire {version} with teamwire {OLD}")
    person.run(upgrade, f"Replaced teamwire {OLD} with teamwire {version}")
    person.run(known.remove)
    person.left_nothing()

    shells = [shell for shell in ("dash", "bash", "busybox sh", "zsh") if shutil.which(shell.split()[0])]
    file = release.out / "install.sh"
    for shell in shells:
        person = Person(release, shell, SHELL="/bin/zsh")
        printed = person.run(f"{shell} {file} --dir 'a b/c'", f"Installed teamwire {version}")
        if f'export PATH="{person.home}/a b/c:$PATH"\' >> ~/.zshrc' not in printed:
            failed(f"the script does not say how to change PATH: {printed}", "see path_line in xtask/dist/install.sh")
        person.run("rm 'a b/c/teamwire'")
        person.left_nothing()
    # Without curl, and with no other program than these.
    person = Person(release, "wget")
    needed = "cat chmod dirname gzip mkdir mktemp mv rm rmdir sh sha256sum tar uname wget"
    tools = person.home / "tools"
    tools.mkdir()
    for name in needed.split():
        (tools / name).symlink_to(shutil.which(name))
    person.run(f"sh {file}", f"Installed teamwire {version}", env=person.environment | {"PATH": str(tools)})
    # The program that was there before goes on until its end.
    with person.coordinator(person.home / ".local/bin/teamwire", "serve") as process:
        person.run(f"sh {file}", f"Replaced teamwire {version} with teamwire {version}")
        if process.poll() is not None:
            failed("the script ended a running coordinator", "see mv in xtask/dist/install.sh")
    say(f"install.sh works with {', '.join(shells)}, with curl and with wget")


def refusals(release):
    """Lets the script fail in every way that it names. It leaves what was there, and nothing else."""
    version, archive = release.source.version, channels.archive(release.source, release.source.target, release.out)
    file = release.out / "install.sh"
    good = archive.read_bytes()
    for name, content in (("bad", good[:-1] + bytes([good[-1] ^ 1])), ("cut", good[: len(good) // 2])):
        path = release.place / "served" / name / f"v{version}" / archive.name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    release.link("broken", release.out.parent)
    release.link(f"broken-releases/v{version}", release.out)
    (release.place / "served/broken").unlink()
    (release.place / "served/broken").symlink_to(release.place / "served/broken-releases")

    def refuses(name, options, *expected, **variables):
        """Fails unless the script refuses, first in an empty home and then over an older program."""
        person = Person(release, f"refusal-{name}")
        fakes = person.home / "bin"
        fakes.mkdir()
        for fake in [key for key in variables if key in ("uname", "gh")]:
            (fakes / fake).write_text(f"#!/bin/sh\n{variables.pop(fake)}\n")
            (fakes / fake).chmod(0o755)
        environment = person.environment | variables
        there = person.files() | {str(path) for path in person.home.iterdir()}
        person.run(f"sh {file} {options}", *expected, "next: ", status=1, env=environment)
        if person.files() | {str(path) for path in person.home.iterdir()} != there:
            failed(f"a refused installation leaves {person.files() - there}", "see clean in xtask/dist/install.sh")
        older = person.home / ".local/bin/teamwire"
        older.parent.mkdir(parents=True)
        shutil.copy(release.place / "old-program", older)
        there = person.files()
        person.run(f"sh {file} {options}", *expected, status=1, env=environment)
        if person.files() != there or OLD not in older.read_text():
            failed(f"a refused installation changes what was there: {name}", "see xtask/dist/install.sh")

    def at(path):
        return {"TEAMWIRE_DOWNLOAD_URL": f"{release.url}/{path}"}

    refuses("bad", "", "changed or cut on its way", **at("bad"))
    refuses("cut", "", "changed or cut on its way", **at("cut"))
    refuses("broken", "", "could not download", **at("broken"))
    refuses("network", "", "could not download", TEAMWIRE_DOWNLOAD_URL="http://127.0.0.1:1")
    refuses("version", "--version 9.9.9", "could not download")
    refuses("words", "--version ../x", "is not a version")
    refuses("option", "--directory x", "there is no option --directory")
    refuses(
        "system", "", "no program for FreeBSD on amd64", uname="case $1 in -s) echo FreeBSD ;; *) echo amd64 ;; esac"
    )
    refuses(
        "processor", "", "no program for Linux on riscv64", uname="case $1 in -s) echo Linux ;; *) echo riscv64 ;; esac"
    )
    refuses("windows", "", "WSL2", uname="echo MINGW64_NT-10.0-19045")
    if (release.out / f"{tarball.name(release.source, 'aarch64-apple-darwin')}.tar.gz").exists():
        # It has the right sum, but this machine cannot run it.
        refuses("foreign", "", "does not run here", uname="case $1 in -s) echo Darwin ;; *) echo arm64 ;; esac")
    if not shutil.which("gh"):
        refuses("no-gh", "--attested", "there is no gh")
    refuses("unsigned", "--attested", "gh is not signed in", gh="exit 1")
    refuses(
        "unattested", "--attested", "no such attestation", gh='[ "$1" = auth ] || { echo no such attestation; exit 1; }'
    )

    person = Person(release, "attested")
    (person.home / "bin").mkdir()
    gh = person.home / "bin/gh"
    gh.write_text('#!/bin/sh\n[ "$1" = auth ] || [ "$1 $2 $4 $5" = "attestation verify --repo teamwire/teamwire" ]\n')
    gh.chmod(0o755)
    person.run(f"sh {file} --attested", "The attestation is verified", f"Installed teamwire {version}")
    # What another installer has made stays.
    person.run("mv .local/bin/teamwire elsewhere && ln -s ../../elsewhere .local/bin/teamwire")
    person.run(f"sh {file}", "is a link, which another installer made", status=1)

    # A script that is cut anywhere does nothing.
    person = Person(release, "part")
    for length in range(0, file.stat().st_size - len('main "$@"\n'), 997):
        person.run(f"head -c {length} {file} | sh || true")
    person.left_nothing()

    person = Person(release, "rights")
    closed = person.home / "closed"
    closed.mkdir(mode=0o555)
    other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    for place, expected in ((closed, "could not write to"), (closed / "new/bin", "could not create")):
        command = [*other, "sh", file, "--dir", place]
        person.run(
            [str(part) for part in command], expected, "next: choose a directory of yours", status=1, shell=False
        )
    person.left_nothing()
    if os.geteuid() == 0:
        person = Person(release, "space")
        (person.home / "full").mkdir()
        for size, expected in (
            ("4k", ""),
            ("1m", "could not write to"),
            (f"{len(good) // 1024 + 1000}k", "could not unpack"),
        ):
            line = (
                f"mount -t tmpfs -o size={size} full full && sh {file} --dir full; status=$?; ls -A full; exit $status"
            )
            printed = person.run(["unshare", "--mount", "sh", "-c", line], expected, "next: ", status=1, shell=False)
            if "teamwire-install" in printed.splitlines()[-1] or printed.splitlines()[-1] == "teamwire":
                failed(f"a full disk leaves {printed.splitlines()[-1]}", "see clean in xtask/dist/install.sh")
    say("install.sh refuses what it must, and leaves nothing")


def release_of_python(release, way, lines):
    """Installs the older release with uv or pip. Returns what upgrades it."""
    index, own = f"{release.url}/simple", pathlib.Path(sys.executable).parent
    environment = {"UV_DEFAULT_INDEX": index, "UV_PYTHON_DOWNLOADS": "never", "PIP_INDEX_URL": index}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1", "UV_PYTHON": sys.executable}
    person = Person(release, way, **environment)
    if way == "uv":
        (person.home / "bin").mkdir()
        for name in ("uv", "uvx"):
            (person.home / "bin" / name).symlink_to(own / name)
    else:
        run(sys.executable, "-m", "venv", person.home / "environment", quiet=True)
        person.environment["PATH"] = f"{person.home}/environment/bin:{person.environment['PATH']}"
    person.before = person.files()
    person.run(lines[way].install)
    person.run("teamwire --version", f"teamwire {OLD}")

    def upgraded():
        person.began = time.monotonic()
        person.run(lines[way].upgrade)
        person.converse()
        if way == "uv":
            person.run("uv tool list", f"teamwire v{release.source.version}")
        person.run(lines[way].remove)
        person.left_nothing(KEPT.get(way, ()))

    return upgraded


def npm_person(release, name):
    """Returns someone who uses npm."""
    person = Person(release, name, [os.path.dirname(shutil.which("npm"))])
    settings = {"registry": f"{release.url}/npm/", "prefix": f"{person.home}/.local", "update_notifier": "false"}
    person.environment |= {f"npm_config_{key}": value for key, value in settings.items()}
    return person


def release_of_npm(release, lines):
    """Installs the older release with npm. Returns what upgrades it."""
    person = npm_person(release, "npm")
    person.run(lines["npm"].install)
    person.run("teamwire --version", f"teamwire {OLD}")

    def upgraded():
        person.began = time.monotonic()
        person.run(lines["npm"].upgrade)
        person.converse()
        launcher(person, release)
        person.run(lines["npm"].remove)
        person.left_nothing(KEPT["npm"])
        package = TARGETS[release.source.target].npm_package
        person.run("npm install --omit=optional teamwire")
        missing = f"the package {package} with the program is missing"
        person.run("node_modules/.bin/teamwire --version", missing, "next: npm install", status=1)

    return upgraded


def launcher(person, release):
    """Verifies that what npm starts ends as the program does: by its status or by the signal."""
    [program] = person.home.glob(".local/lib/node_modules/teamwire/node_modules/@teamwire/*/bin/teamwire")
    for arguments in ("--help", "status", "no-such-command"):
        direct = subprocess.run([program, arguments], cwd=person.home, env=person.environment, capture_output=True)
        person.run(f"teamwire {arguments}", status=direct.returncode)
    for sent, ended in ((signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGQUIT, -signal.SIGQUIT)):
        with person.coordinator("sh", "-c", "ulimit -c 0; exec teamwire serve") as process:
            process.send_signal(sent)
            if process.wait(PATIENCE) != ended:
                failed(f"{sent.name} ends what npm starts with {process.returncode}", "see xtask/dist/teamwire.js")
    shutil.rmtree(person.home / ".local/state/teamwire")


def at_once(release, lines):
    """Runs the program without an installation."""
    index, own = f"{release.url}/simple", pathlib.Path(sys.executable).parent
    person = Person(release, "uvx", UV_DEFAULT_INDEX=index, UV_PYTHON=sys.executable)
    (person.home / "bin").mkdir()
    for name in ("uv", "uvx"):
        (person.home / "bin" / name).symlink_to(own / name)
    person.before = person.files()
    person.run(lines["`uvx`"].install, f"teamwire {release.source.version}")
    person.converse("uvx teamwire")
    person.run(lines["`uvx`"].upgrade, f"teamwire {release.source.version}")
    person.run(lines["`uvx`"].remove)
    person.left_nothing(KEPT["uv"])
    if shutil.which("npx"):
        person = npm_person(release, "npx")
        person.run(lines["`npx`"].install, f"teamwire {release.source.version}")
        person.converse("npx teamwire")
        person.run(lines["`npx`"].upgrade, f"teamwire {release.source.version}")
        person.run(lines["`npx`"].remove)
        person.left_nothing(KEPT["npm"])


def others(release):
    """Verifies that pip and npm choose the package for each target, which this machine need not run."""
    for target, known in TARGETS.items():
        if not channels.archive(release.source, target, release.out).exists():
            continue
        person = Person(release, f"other-{target}")
        for platform in known.wheel:
            options = f"--index-url {release.url}/simple --no-cache-dir --disable-pip-version-check --no-deps"
            download = f"{sys.executable} -m pip download {options} --only-binary=:all: --platform {platform} teamwire"
            person.run(download, f"teamwire-{release.source.version}-py3-none-")
        if shutil.which("npm"):
            person = npm_person(release, f"other-npm-{target}")
            system, processor = known.npm
            person.run(f"npm install --os={system} --cpu={processor} teamwire")
            found = [f"@teamwire/{path.name}" for path in (person.home / "node_modules/@teamwire").iterdir()]
            if found != [known.npm_package]:
                failed(f"npm installs {found} for {target}", "see npm_program in xtask/dist/channels.py")
    say("pip and npm choose the package for each target")


def formula(source, out):
    """Verifies that the formula names files of the release with their sums, and what it installs from them."""
    text = (out / "teamwire.rb").read_text()
    about = tomllib.loads((source.root / "Cargo.toml").read_text())["workspace"]["package"]
    base = f"{about['repository']}/releases/download/v{source.version}/"
    found = dict(re.findall(rf'url "{re.escape(base)}([^"]+)"\n +sha256 "([0-9a-f]{{64}})"', text))
    sums = dict(reversed(line.split()) for line in (out / "SHA256SUMS").read_text().splitlines())
    packed = {path.name for target in TARGETS for path in out.glob(f"{tarball.name(source, target)}.tar.gz")}
    if found != {name: sums[name] for name in packed} or text.count("url ") != len(packed):
        failed(f"teamwire.rb names {found}", "see formula in xtask/dist/channels.py")
    for name in packed:
        with tarfile.open(out / name) as archive:
            inside = {entry.removeprefix(f"{name.removesuffix('.tar.gz')}/") for entry in archive.getnames()}
        # What comes after `=>` is the name that a file gets.
        installed = re.sub(r'=> "[^"]+"', "", text.split("def install")[1].split("service do")[0])
        for path in re.findall(r'"([^"]+)"', installed):
            if not any(fnmatch.fnmatch(entry, path) or entry.startswith(f"{path}/") for entry in inside):
                failed(f"{name} has no {path}, which teamwire.rb installs", "see xtask/dist/teamwire.rb")
    if not shutil.which("ruby") and os.geteuid() == 0 and shutil.which("apt-get"):
        run("apt-get", "update", "--quiet=2")
        run("apt-get", "install", "--yes", "--no-install-recommends", "--quiet=2", "ruby", stdout=subprocess.DEVNULL)
    if shutil.which("ruby"):
        run("ruby", "-c", out / "teamwire.rb", quiet=True, stdout=subprocess.DEVNULL)
    else:
        say("there is no ruby: the syntax of teamwire.rb is not checked (Debian: `sudo apt-get install ruby`)")

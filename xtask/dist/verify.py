"""Installs what a release consists of into temporary places, and uses it there."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import consumers
from debian import ARCHITECTURES, CONFIGURATION
from machine import Machine
import tarball
import ways
from source import failed, output, run, say

HERE = pathlib.Path(__file__).parent
# What an archive has besides the pages of commands.
ARCHIVED = {
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "THIRD-PARTY-rust.html",
    "THIRD-PARTY.txt",
    "completions/_teamwire",
    "completions/teamwire.bash",
    "completions/teamwire.fish",
    "examples/echo.py",
    "examples/team.toml",
    "man/man1/teamwire-send.1",
    "man/man1/teamwire.1",
    "teamwire",
    "teamwire.toml",
}


def everything(source, out):
    """Verifies every file of a release."""
    sums(out)
    with tempfile.TemporaryDirectory(prefix="teamwire-dist-") as directory:
        directory = pathlib.Path(directory)
        program = archive(source, out, directory)
        first_minute(program)
        if not source.quick:
            static(program, directory / "empty")
        debian(source, out, directory / "debian")
        ways.everything(source, out, directory)
        consumers.everything(source, out, program, directory)


def sums(out):
    """Verifies the sums of all files, as docs/releasing.md says."""
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=out)
    listed = {line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
    if unlisted := {path.name for path in out.iterdir()} - listed - {"SHA256SUMS"}:
        failed(f"SHA256SUMS lacks {', '.join(unlisted)}", "it lists every file")


def archive(source, out, directory):
    """Unpacks the archive, and returns its program."""
    packed = out / f"{tarball.name(source, source.target)}.tar.gz"
    with tarfile.open(packed) as archive:
        entries = archive.getmembers()
        archive.extractall(directory, filter="data")
    top = packed.name.removesuffix(".tar.gz")
    names = {entry.name.removeprefix(f"{top}/") for entry in entries}
    if missing := ARCHIVED - names:
        failed(f"{packed.name} lacks {', '.join(sorted(missing))}", "see xtask/dist/tarball.py")
    if strange := [
        name for name in names - ARCHIVED if not re.fullmatch(r"man/man1/teamwire-[\w-]+\.1|examples/[\w.-]+", name)
    ]:
        failed(
            f"{packed.name} has {', '.join(sorted(strange))}",
            "add it to ARCHIVED in xtask/dist/verify.py, or do not pack it",
        )
    if unclean := [entry.name for entry in entries if (entry.mtime, entry.uid, entry.gid) != (source.epoch, 0, 0)]:
        failed(f"{unclean[0]} in {packed.name} has another time or owner", "see xtask/dist/tarball.py")
    if [entry.name for entry in entries] != sorted(entry.name for entry in entries):
        failed(f"the entries of {packed.name} are not sorted", "see xtask/dist/tarball.py")
    for script, check in (
        ("teamwire.bash", ["bash", "-n"]),
        ("_teamwire", ["zsh", "-n"]),
        ("teamwire.fish", ["fish", "-n"]),
    ):
        if shutil.which(check[0]):
            run(*check, directory / top / "completions" / script, quiet=True)
    notices = (directory / top / "THIRD-PARTY.txt").read_text()
    for name in ("tokio", "ring", "svelte", "@bufbuild/protobuf", "libc6"):
        if f"\n  {name} " not in notices:
            failed(f"THIRD-PARTY.txt does not name {name}", "see xtask/dist/notice.py")
    return directory / top / "teamwire"


def first_minute(program):
    """Does what the first block of README.md does."""
    examples = program.parent / "examples"
    with Machine(program) as machine:
        try:
            expect(machine.teamwire("up", str(examples / "team.toml")), "Team acme is up.")
            expect(
                machine.teamwire("send", "backend", "The schema is ready.", "-s", "schema ready", "--wait-reply"),
                "You said: The schema is ready.",
            )
            expect(machine.teamwire("task", "list"), "Design the API")
            expect(
                machine.teamwire("shutdown", "reviewer", "Well done.", "--wait"),
                "reviewer exited: approved its shutdown",
            )
        finally:
            expect(machine.teamwire("down"), "Ended the coordinator.")
    say(f"{program.parent.name} leads a team")


def expect(printed, part):
    """Fails unless a command has printed something."""
    if part not in printed:
        failed(f'a command did not print "{part}", but: {printed}', "run the block of README.md by hand")


def static(program, empty):
    """Verifies that the program needs no file of the system, in a directory that has only the program."""
    kind = output("file", "--brief", program)
    if "static-pie linked" not in kind:
        failed(f"{program} is not static: {kind}", "see xtask/dist/binary.py")
    if os.geteuid() != 0:
        say("not root: the program is not run in an empty root")
        return
    empty.mkdir()
    inside = empty / "teamwire"
    inside.write_bytes(program.read_bytes())
    inside.chmod(0o755)
    run("chroot", empty, "/teamwire", "--version")
    inside.unlink()
    # Names: in a network that has nothing but a server of names.
    run("unshare", "--net", sys.executable, "-B", HERE / "resolve.py", program, empty, advice="it needs ip (iproute2)")


def debian(source, out, root):
    """Installs, removes and purges the Debian package below a directory, with its scripts."""
    architecture = ARCHITECTURES[source.target.split("-")[0]]
    package = out / f"teamwire_{source.version}_{architecture}.deb"
    admin = root / "var/lib/dpkg"
    for part in ("info", "updates", "triggers"):
        (admin / part).mkdir(parents=True)
    for part in ("status", "available"):
        (admin / part).touch()
    (root / "usr/lib/sysusers.d").mkdir(parents=True)
    fake = [
        "--force-not-root",
        "--force-script-chrootless",
        f"--root={root}",
        f"--admindir={admin}",
        f"--log={root}/log",
    ]
    run("dpkg", *fake, "--install", package, stdout=subprocess.DEVNULL)
    program = root / "usr/bin/teamwire"
    expect(output(program, "--version"), f"teamwire {source.version}")
    # Every setting that the file suggests is one: without its comment, the coordinator accepts it.
    suggested = (root / CONFIGURATION).read_text()
    uncommented = root / "suggested.toml"
    uncommented.write_text(
        "\n".join(line.removeprefix("# ") for line in suggested.splitlines() if re.match(r"# (\[|\w+ = )", line))
    )
    for file in (root / CONFIGURATION, uncommented):
        output(program, "serve", "--config", file, "--print-config", advice="see deploy/debian/teamwire.toml")
    if shutil.which("systemd-analyze"):
        # It looks for the program in the root of this machine.
        unit = (root / "usr/lib/systemd/system/teamwire.service").read_text()
        (root / "teamwire.service").write_text(unit.replace("/usr/bin/teamwire", str(program)))
        analyze = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", root / "teamwire.service"]
        if service := output(*analyze, stderr=subprocess.STDOUT).strip():
            failed(f"systemd does not understand the service: {service}", "see deploy/systemd/teamwire.service")
    if shutil.which("systemd-sysusers") and "teamwire" not in (root / "etc/passwd").read_text():
        failed("the package did not create its user", "see deploy/debian/postinst")

    (root / CONFIGURATION).write_text('log = "debug"\n')
    run("dpkg", *fake, "--install", package, stdout=subprocess.DEVNULL)
    if (root / CONFIGURATION).read_text() != 'log = "debug"\n':
        failed("a second installation replaced the configuration", "it is a conffile: see xtask/dist/debian.py")
    run("dpkg", *fake, "--remove", "teamwire", stdout=subprocess.DEVNULL)
    if program.exists() or not (root / CONFIGURATION).exists():
        failed("a removal leaves the program, or takes the configuration", "see deploy/debian")
    run("dpkg", *fake, "--purge", "teamwire", stdout=subprocess.DEVNULL)
    if (root / CONFIGURATION).exists():
        failed("a purge leaves the configuration", "see deploy/debian")

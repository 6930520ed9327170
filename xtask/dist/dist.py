"""Makes a release, as docs/releasing.md describes it. `cargo xtask dist` runs it and sets its environment.

Everything is made from a copy of the files that git lists, so that no leftover of an earlier build gets in.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile

import binary
import clients
import crates
import debian
import notice
import sbom
import tarball
import verify
from source import ROOT, Source, failed, say

SUMS = "SHA256SUMS"


def main():
    """Makes what the arguments ask for."""
    parser = argparse.ArgumentParser(
        prog="cargo xtask dist", description="Make a release. docs/releasing.md explains it."
    )
    parser.add_argument(
        "--out", type=pathlib.Path, help="the directory to write to, new or empty [default: target/dist/VERSION]"
    )
    parser.add_argument(
        "--binary", type=pathlib.Path, help="pack this program instead of building one; the tree may have changes"
    )
    parser.add_argument("--verify", action="store_true", help="install what was made into temporary places, and use it")
    parser.add_argument("--check-reproducible", action="store_true", help="make everything twice, and compare the sums")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes: see docs/releasing.md")
    arguments = parser.parse_args()
    if arguments.binary is None and (changes := Source.changes()):
        failed(f"the tree has changes:\n{changes}", "commit them, or pass --binary FILE to pack what is there")

    work = ROOT / "target/dist"
    first = Source.copy(work / "first", arguments.quick)
    out = place(arguments.out, work / first.version)
    make(first, arguments.binary, out)
    if arguments.check_reproducible:
        second = Source.copy(work / "second", arguments.quick)
        with tempfile.TemporaryDirectory(dir=work) as again:
            make(second, arguments.binary, pathlib.Path(again))
            compare(out, pathlib.Path(again))
    if arguments.verify:
        verify.everything(first, out)
    say(f"{out} has {len(list(out.iterdir()))} files of teamwire {first.version}")


def place(named, default):
    """Returns an empty directory. Clears only the default one."""
    if named is None:
        shutil.rmtree(default, ignore_errors=True)
        named = default
    named.mkdir(parents=True, exist_ok=True)
    if any(named.iterdir()):
        failed(f"{named} is not empty", "name a new directory")
    return named.resolve()


def make(source, program, out):
    """Makes everything that a release consists of."""
    crates.check(source)
    program = binary.prepare(source, program)
    third_parties = notice.write(source)
    tarball.pack(source, program, third_parties, out)
    tarball.pack_source(source, out)
    debian.pack(source, program, third_parties, out)
    clients.pack(source, out)
    if not source.quick:
        sbom.write(source, out)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / SUMS).write_text("".join(lines))


def compare(first, second):
    """Fails if two releases differ in more than what is known to."""
    sums = [dict(reversed(line.split()) for line in (out / SUMS).read_text().splitlines()) for out in (first, second)]
    differs = sorted(name for name in sums[0].keys() | sums[1].keys() if sums[0].get(name) != sums[1].get(name))
    if differs:
        kept = ROOT / "target/dist/differs"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(second, kept)
        failed(
            f"a second run made other bytes: {', '.join(differs)}",
            f"compare them with those in {kept}, as diffoscope does",
        )
    say(f"a second run made the same {len(sums[0])} files")


if __name__ == "__main__":
    os.umask(0o022)
    sys.stdout.reconfigure(line_buffering=True)
    main()

"""Makes a release, as docs/releasing.md describes it. `cargo xtask dist` runs it and sets its environment.

Everything is made from a copy of the files that git lists, so that no leftover of an earlier build gets in.
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile

import binary
import channels
import clients
import crates
import debian
import notice
import sbom
import tarball
import targets
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
    parser.add_argument(
        "--program",
        action="append",
        default=[],
        metavar="TARGET=FILE",
        help="pack this program, which --only-program has built on a machine of that target, as it is; repeat it",
    )
    parser.add_argument("--only-program", action="store_true", help="build the program of this machine, and no more")
    parser.add_argument("--complete", action="store_true", help="fail unless there is a program for every target")
    parser.add_argument(
        "--stand-ins", action="store_true", help="with --quick: pack files that do not run for targets without program"
    )
    parser.add_argument("--verify", action="store_true", help="install what was made into temporary places, and use it")
    parser.add_argument("--check-reproducible", action="store_true", help="make everything twice, and compare the sums")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes: see docs/releasing.md")
    arguments = parser.parse_args()
    given = programs(arguments.program)
    if arguments.stand_ins and not arguments.quick:
        failed("--stand-ins is for tests", "add --quick, or name the programs with --program")
    if arguments.binary is None and (changes := Source.changes()):
        failed(f"the tree has changes:\n{changes}", "commit them, or pass --binary FILE to pack what is there")

    work = ROOT / "target/dist"
    first = Source.copy(work / "first", arguments.quick)
    if arguments.complete and (missing := targets.TARGETS.keys() - given.keys() - {first.target}):
        failed(f"there is no program for {', '.join(sorted(missing))}", "name each with --program TARGET=FILE")
    out = place(arguments.out, work / first.version)
    if arguments.only_program:
        shutil.copy(binary.build(first), out / f"teamwire-{first.target}")
        return
    if arguments.stand_ins:
        stand_ins = first.empty("stand-ins")
        for target in targets.TARGETS.keys() - given.keys() - {first.target}:
            given[target] = targets.stand_in(target, stand_ins / target)
    make(first, arguments.binary, given, out)
    if arguments.check_reproducible:
        second = Source.copy(work / "second", arguments.quick)
        with tempfile.TemporaryDirectory(dir=work) as again:
            make(second, arguments.binary, given, pathlib.Path(again))
            compare(out, pathlib.Path(again))
    if arguments.verify:
        verify.everything(first, out)
    say(f"{out} has {len(list(out.iterdir()))} files of teamwire {first.version}")


def programs(options):
    """Returns the programs that options name as TARGET=FILE."""
    named = {}
    for option in options:
        target, _, path = option.partition("=")
        named[target] = pathlib.Path(path).resolve()
        targets.check(target, named[target])
        # What carries files from one machine to another may not carry their modes.
        named[target].chmod(0o755)
    return named


def place(named, default):
    """Returns an empty directory. Clears only the default one."""
    if named is None:
        shutil.rmtree(default, ignore_errors=True)
        named = default
    named.mkdir(parents=True, exist_ok=True)
    if any(named.iterdir()):
        failed(f"{named} is not empty", "name a new directory")
    return named.resolve()


def make(source, program, given, out):
    """Makes everything that a release consists of: from the program of this machine, and from those that are given."""
    crates.check(source)
    own = binary.prepare(source, given.get(source.target, program), is_final=source.target in given)
    # What it writes about itself is the same for every target.
    others = {target: dataclasses.replace(own, path=path) for target, path in given.items() if target != source.target}
    programs = {source.target: own} | others
    # In the same order, whatever the order of the options.
    packed = {target: programs[target] for target in targets.TARGETS if target in programs}
    notices = {target: notice.write(source, target) for target in packed}
    for target, program in packed.items():
        tarball.pack(source, target, program, notices[target], out)
        if "linux" in target:
            debian.pack(source, target, program, notices[target], out)
        if not source.quick:
            sbom.write(source, target, out)
    channels.pack(source, packed, notices, out)
    tarball.pack_source(source, out)
    clients.pack(source, out)
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

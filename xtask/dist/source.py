"""The files of a release at their commit, and how the other modules run programs."""

import dataclasses
import datetime
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).parents[2]
CARGO = os.environ.get("CARGO", "cargo")


def say(text):
    """Prints what happens."""
    print(f"dist: {text}", file=sys.stderr)


def failed(what, advice):
    """Ends the program: says what went wrong, and what to do next."""
    sys.exit(f"dist: {what}\ndist: next: {advice}")


def run(*command, advice="read its output above", quiet=False, **options):
    """Runs a program to its end, and returns what it prints if that is captured."""
    command = [str(part) for part in command]
    if not quiet:
        say(" ".join(command))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True, **options)
    if done.returncode:
        print(done.stdout or "", done.stderr or "", file=sys.stderr)
        failed(f"`{' '.join(command)}` failed ({done.returncode})", advice)
    return done.stdout


def output(*command, **options):
    """Runs a program silently, and returns what it prints."""
    return run(*command, quiet=True, stdout=subprocess.PIPE, **options)


def clean_environment():
    """Returns the environment without what cargo has set for xtask, and without variables of teamwire."""
    ours = ("CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "TEAMWIRE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@dataclasses.dataclass(frozen=True)
class Source:
    """A copy of the files that git lists."""

    root: pathlib.Path
    """The copy. Beside it is what is made from it."""
    version: str
    epoch: int
    """The time of the commit, in seconds: the time of every packed file."""
    quick: bool
    names: tuple[str, ...]
    """The files, without those that a build leaves beside them."""

    @staticmethod
    def changes():
        """Returns what differs from the commit."""
        return output("git", "status", "--porcelain", cwd=ROOT)

    @classmethod
    def copy(cls, place, quick):
        """Copies the files to a new directory in `place`. Keeps `place/target`, so that a second build is quick."""
        root = place / "source"
        shutil.rmtree(root, ignore_errors=True)
        listed = output("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
        epoch = int(output("git", "log", "--max-count=1", "--format=%ct", cwd=ROOT))
        # A file that was deleted and not yet committed is still listed.
        names = sorted(name for name in filter(None, listed.split("\0")) if os.path.lexists(ROOT / name))
        for name in names:
            original, copied = ROOT / name, root / name
            copied.parent.mkdir(parents=True, exist_ok=True)
            if original.is_symlink():
                copied.symlink_to(original.readlink())
            else:
                shutil.copyfile(original, copied)
                # Cargo compiles again what is newer.
                os.utime(copied, ns=(original.stat().st_atime_ns, original.stat().st_mtime_ns))
                copied.chmod(0o755 if original.stat().st_mode & 0o100 else 0o644)
        manifest = tomllib.loads((root / "Cargo.toml").read_text())
        return cls(root, manifest["workspace"]["package"]["version"], epoch, quick, tuple(names))

    @property
    def place(self):
        """Returns the directory for what is made on the way."""
        return self.root.parent

    @property
    def moment(self):
        """Returns the time of the commit as ISO 8601."""
        return datetime.datetime.fromtimestamp(self.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def target(self):
        """Returns the compiler's target for this machine."""
        machine = platform.machine().replace("arm64", "aarch64")
        return f"{machine}-{'apple-darwin' if platform.system() == 'Darwin' else 'unknown-linux-gnu'}"

    @property
    def environment(self):
        """Returns the environment in which packages are built."""
        return clean_environment() | {"SOURCE_DATE_EPOCH": str(self.epoch), "TZ": "UTC", "LC_ALL": "C.UTF-8"}

    def cargo(self, *arguments, **options):
        """Runs cargo in the copy, and returns what it prints if that is captured."""
        return run(CARGO, *arguments, cwd=self.root, env=self.environment | options.pop("env", {}), **options)

    def empty(self, name):
        """Returns an empty directory beside the copy."""
        directory = self.place / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

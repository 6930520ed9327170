"""The program: builds it, and lets it write its manual pages and completions."""

import dataclasses
import os
import pathlib
import shutil

from source import ROOT, failed, output, run, say

SHELLS = {"bash": "teamwire.bash", "zsh": "_teamwire", "fish": "teamwire.fish"}


@dataclasses.dataclass(frozen=True)
class Program:
    """The program with what it writes about itself."""

    path: pathlib.Path
    manuals: pathlib.Path
    completions: pathlib.Path
    """A directory with the files in SHELLS."""


def prepare(source, given, is_final=False):
    """Builds the program unless it is given, and lets it write its manual pages and completions.

    A given program is stripped unless it is final.
    """
    if given is None:
        path = build(source)
    elif is_final:
        path = given
    else:
        path = source.empty("program") / "teamwire"
        # As the profile `dist` does. A build for tests has most of its bytes in tables of lines.
        run(
            "strip",
            "-o",
            path,
            given.resolve(),
            advice="install binutils (Debian: `sudo apt-get install binutils`)",
        )
    # The version that it has, and not that of an older build.
    if (shown := output(path, "--version", env=source.environment).strip()) != f"teamwire {source.version}":
        failed(f"{path} says that it is {shown}, and Cargo.toml that it is {source.version}", "build it again")
    manuals, completions = source.empty("man"), source.empty("completions")
    run(path, "man", manuals, env=source.environment, quiet=True)
    for shell, name in SHELLS.items():
        (completions / name).write_text(output(path, "completions", shell, env=source.environment))
    return Program(path, manuals, completions)


def build(source):
    """Builds the program, for Linux a static one. It has no path of this machine, so every clone makes the same."""
    target = source.place / "target"
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    named = {source.root: "/teamwire", target: "/target", home: "/cargo"}
    # An explicit target keeps the flags from build scripts and macros, which cannot be static.
    flags = [f"--remap-path-prefix={path}={name}" for path, name in named.items()]
    if "linux" in source.target:
        # The default looks for the C library's function at run time, which a static program cannot do.
        flags += ["-Ctarget-feature=+crt-static", '--cfg=getrandom_backend="linux_getrandom"']
    environment = {
        "CARGO_TARGET_DIR": str(target),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_INCREMENTAL": "0",
        # As the names of the wheels say.
        "MACOSX_DEPLOYMENT_TARGET": "11.0",
        "CFLAGS": " ".join(f"-ffile-prefix-map={path}={name}" for path, name in named.items()),
    }
    arguments = ["--locked", "--profile", "dist", "--features", "kubernetes"]
    arguments += ["--package", "teamwire", "--bin", "teamwire", "--target", source.target]
    source.cargo(
        "build", *arguments, env=environment, advice="it needs a C compiler, and the libc.a of glibc 2.34 or newer"
    )
    built = target / source.target / "dist/teamwire"
    content = built.read_bytes()
    if leaked := [str(path) for path in (*named, ROOT) if os.fsencode(path) in content]:
        failed(f"the program contains the paths {', '.join(leaked)}", "map them in xtask/dist/binary.py")
    path = source.empty("program") / "teamwire"
    shutil.copyfile(built, path)
    path.chmod(0o755)
    say(f"{path} has {len(content) >> 20} MiB")
    return path

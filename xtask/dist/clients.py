"""The packages of the clients, each made by the tools of its language."""

import shutil
import sys

from source import failed, run

MODULE = "github.com/teamwire/teamwire/client/go"
JARS = ("", "-sources", "-javadoc")


def pack(source, out):
    """Packs the clients of all languages. A tag publishes the Go module, so this only checks it."""
    python(source, out)
    typescript(source, out)
    go(source)
    if not source.quick:
        java(source, out)


def python(source, out):
    """Makes the wheel and the source distribution."""
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--directory",
        out,
        cwd=source.root / "client/python",
        env=source.environment,
    )


def typescript(source, out):
    """Makes the npm package."""
    directory = source.root / "client/typescript"
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=directory, env=source.environment)
    run("npm", "pack", "--silent", "--pack-destination", out, cwd=directory, env=source.environment)


def java(source, out):
    """Makes the jar, those of its sources and documentation, and the description that Maven reads."""
    directory = source.root / "client/java"
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", "--quiet", "--activate-profiles", "release"]
    settings = [
        f"-Dproject.build.outputTimestamp={source.moment}",
        "-Dmaven.test.skip=true",
        "-Dspotless.check.skip=true",
    ]
    run(*maven, *settings, "package", cwd=directory, env=source.environment)
    name = f"teamwire-client-{source.version}"
    for kind in JARS:
        shutil.copyfile(directory / f"target/{name}{kind}.jar", out / f"{name}{kind}.jar")
    shutil.copyfile(directory / "pom.xml", out / f"{name}.pom")


def go(source):
    """Checks what a tag would publish."""
    directory = source.root / "client/go"
    lines = (directory / "go.mod").read_text().splitlines()
    if lines[0] != f"module {MODULE}" or any(line.startswith("replace") for line in lines):
        failed("client/go/go.mod does not name the module, or replaces one", f"its first line is `module {MODULE}`")
    # `client/go/check` does this, too.
    if source.quick:
        return
    run("go", "mod", "verify", cwd=directory, env=source.environment | {"GOFLAGS": "-mod=readonly"})
    run("go", "vet", "./...", cwd=directory, env=source.environment | {"GOFLAGS": "-mod=readonly"})

"""The crates: whether their descriptions are complete, their versions agree, and their packages have what they need."""

import json
import re
import subprocess
import tarfile
import tomllib

from source import ROOT, failed

# In the order of their dependencies, which is the order in which `cargo publish --workspace` publishes them.
PUBLISHED = (
    "teamwire-proto",
    "teamwire-client",
    "teamwire-agents",
    "teamwire-kubernetes",
    "teamwire-server",
    "teamwire",
)
REQUIRED = ("description", "homepage", "keywords", "categories", "license", "repository", "readme", "rust_version")
# What the sources of a package read during its build.
NEEDED = {
    "teamwire-proto": ("build.rs", "codegen/mod.rs", "teamwire/v1/message.proto"),
    "teamwire-server": ("src/store/redis/commit.lua",),
    "teamwire": ("build.rs", "console/dist/index.html", "src/config/default.toml"),
}
# Where else the version is.
VERSIONS = {
    "client/python/pyproject.toml": r'^version = "(.+)"',
    "client/typescript/package.json": r'^  "version": "(.+)"',
    "client/java/pom.xml": r"^  <version>(.+)</version>",
    "console/package.json": r'^  "version": "(.+)"',
    "deploy/Dockerfile": r"^ARG VERSION=(.+)",
    "deploy/helm/teammate/Chart.yaml": r'^appVersion: "?([^"\n]+)',
    "deploy/helm/teamwire/Chart.yaml": r'^appVersion: "?([^"\n]+)',
}


def check(source):
    """Fails if a crate could not be published. Compiles the packages unless this is a quick run."""
    metadata = json.loads(
        source.cargo("metadata", "--locked", "--no-deps", "--format-version=1", quiet=True, stdout=subprocess.PIPE)
    )
    packages = {package["name"]: package for package in metadata["packages"]}
    published = {name for name, package in packages.items() if package["publish"] is None}
    if published != set(PUBLISHED):
        failed(
            f"these crates would be published: {', '.join(sorted(published))}",
            "set `publish.workspace = true` in the others",
        )
    for name in PUBLISHED:
        if missing := [field for field in REQUIRED if not packages[name].get(field)]:
            failed(f"{name} has no {', '.join(missing)}", f"add it to {packages[name]['manifest_path']}")
        for dependency in packages[name]["dependencies"]:
            if dependency["kind"] != "dev" and dependency.get("path") and dependency["req"] != f"^{source.version}":
                failed(
                    f"{name} depends on {dependency['name']} {dependency['req']}",
                    f"write {source.version} into Cargo.toml",
                )
    for file, pattern in VERSIONS.items():
        found = re.search(pattern, (source.root / file).read_text(), re.MULTILINE)
        if found is None or found[1] != source.version:
            failed(
                f"{file} has the version {found and found[1]}, and Cargo.toml {source.version}",
                "write the same into both",
            )
    license = (source.root / "LICENSE").read_bytes()
    for copy in ("client/python/LICENSE", "client/typescript/LICENSE"):
        if (source.root / copy).read_bytes() != license:
            failed(f"{copy} is not the license of the project", f"cp LICENSE {copy}")
    pack(source)


def pack(source):
    """Makes the packages, and checks what is in them."""
    # Where the tests have compiled the same dependencies.
    target = ROOT / "target"
    selected = [argument for name in PUBLISHED for argument in ("--package", name)]
    verify = ["--no-verify"] if source.quick else []
    source.cargo(
        "package",
        "--locked",
        "--quiet",
        *verify,
        *selected,
        env={"CARGO_TARGET_DIR": str(target)},
        advice="a package must build without the files around it: see `include` in its Cargo.toml",
    )
    for name in PUBLISHED:
        top = f"{name}-{source.version}"
        with tarfile.open(target / f"package/{top}.crate") as archive:
            names = {entry.removeprefix(f"{top}/") for entry in archive.getnames()}
            manifest = tomllib.loads(archive.extractfile(f"{top}/Cargo.toml").read().decode())
        if missing := {"LICENSE", "README.md", *NEEDED.get(name, ())} - names:
            failed(f"the package of {name} lacks {', '.join(sorted(missing))}", "add it to `include` in its Cargo.toml")
        if foreign := [entry for entry in names if entry.startswith(("tests/", "fuzz/", "docs/", "client/"))]:
            failed(f"the package of {name} has {foreign[0]}", "leave it out of `include` in its Cargo.toml")
        if unpublished := set(manifest.get("dev-dependencies", {})) & {
            "teamwire-test-coordinator",
            "teamwire-test-redis",
        }:
            failed(
                f"the package of {name} needs {', '.join(unpublished)}",
                "give crates for tests no version in Cargo.toml",
            )

"""What package managers and the script install: each a form of the same programs. docs/releasing.md lists them."""

import base64
import hashlib
import json
import tomllib
import zipfile
from datetime import UTC, datetime

import tarball
from source import failed
from targets import TARGETS

HERE = "xtask/dist"
ABOUT = """\
# teamwire

teamwire coordinates teams of AI agents across machines. This package contains the program `teamwire`{of}.

- Documentation: {homepage}
- Upgrade and remove: {homepage}/blob/main/docs/upgrading.md
"""


def pack(source, programs, notices, out):
    """Makes the wheels, the npm packages, the formula and the script. They name the archives, which must be there."""
    package = tomllib.loads((source.root / "Cargo.toml").read_text())
    about = package["package"] | package["workspace"]["package"]
    binstall(source, programs, about, out)
    for target, program in programs.items():
        wheel(source, target, program, notices[target], about, out)
        npm_program(source, target, program, notices[target], about, out)
    npm_launcher(source, programs, about, out)
    sums = {target: hashlib.sha256(archive(source, target, out).read_bytes()).hexdigest() for target in programs}
    (out / "teamwire.rb").write_text(formula(source, sums, about))
    script(source, sums, about, out / "install.sh")


def archive(source, target, out):
    """Returns the archive with the program for a target."""
    return out / f"{tarball.name(source, target)}.tar.gz"


def binstall(source, programs, about, out):
    """Fails unless `cargo binstall` finds the program of each target where Cargo.toml says."""
    described = about["metadata"]["binstall"]
    for target in programs:
        # A system without glibc asks for the program that is built with musl.
        asked = [target, target.replace("-gnu", "-musl")] if target.endswith("-gnu") else [target]
        for name in asked:
            given = described | described["overrides"].get(name, {})
            values = {"repo": about["repository"], "version": source.version, "target": name, "bin": "teamwire"}
            values |= {"archive-suffix": ".tar.gz", "binary-ext": ""}
            url, inside = given["pkg-url"], given["bin-dir"]
            for key, value in values.items():
                url, inside = url.replace(f"{{ {key} }}", value), inside.replace(f"{{ {key} }}", value)
            expected = f"{about['repository']}/releases/download/v{source.version}/{archive(source, target, out).name}"
            if given["pkg-fmt"] != "tgz" or url != expected or inside != f"{tarball.name(source, target)}/teamwire":
                failed(
                    f"Cargo.toml tells `cargo binstall` on {name} to find {inside} in {url}",
                    f"correct [package.metadata.binstall]: the archive is {expected}",
                )


def wheel(source, target, program, notices, about, out):
    """Makes a wheel that has only the program, which installers put beside Python's."""
    name, platforms = f"teamwire-{source.version}", TARGETS[target].wheel
    info = f"{name}.dist-info"
    licenses = [source.root / "LICENSE", *notices]
    metadata = [
        "Metadata-Version: 2.4",
        "Name: teamwire",
        f"Version: {source.version}",
        f"Summary: {about['description']}",
        f"Keywords: {','.join(about['keywords'])}",
        "License-Expression: Apache-2.0",
        *(f"License-File: {path.name}" for path in licenses),
        f"Project-URL: Homepage, {about['homepage']}",
        f"Project-URL: Changelog, {about['homepage']}/blob/main/CHANGELOG.md",
        "Classifier: Environment :: Console",
        f"Classifier: Operating System :: {'POSIX :: Linux' if 'linux' in target else 'MacOS'}",
        "Description-Content-Type: text/markdown",
        "",
        ABOUT.format(of="", homepage=about["homepage"]),
    ]
    described = ["Wheel-Version: 1.0", "Generator: teamwire", "Root-Is-Purelib: false"]
    described += [f"Tag: py3-none-{platform}" for platform in platforms]
    files = {f"{name}.data/scripts/teamwire": program.path.read_bytes()}
    files |= {f"{info}/licenses/{path.name}": path.read_bytes() for path in licenses}
    files |= {f"{info}/METADATA": "\n".join(metadata).encode(), f"{info}/WHEEL": "\n".join([*described, ""]).encode()}
    record = [f"{path},sha256={digest(content)},{len(content)}\n" for path, content in files.items()]
    files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    # A zip archive has no time before 1980, and no zone.
    moment = datetime.fromtimestamp(source.epoch, UTC).timetuple()[:6]
    with zipfile.ZipFile(out / f"{name}-py3-none-{'.'.join(platforms)}.whl", "w") as packed:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, moment)
            entry.create_system = 3
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            packed.writestr(entry, content, zipfile.ZIP_DEFLATED, 1 if source.quick else 9)


def digest(content):
    """Returns a sum as a RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def npm(source, name, about, files, out, **more):
    """Makes an npm package. It has no scripts that run when it is installed."""
    manifest = {
        "name": name,
        "version": source.version,
        "description": about["description"],
        "keywords": about["keywords"],
        "homepage": about["homepage"],
        "repository": {"type": "git", "url": f"git+{about['repository']}.git"},
        "license": about["license"],
        "publishConfig": {"access": "public"},
    }
    written = source.empty("npm")
    of = "" if name == "teamwire" else " for one system and processor. Install the package `teamwire`, which chooses it"
    (written / "package.json").write_text(json.dumps(manifest | more, indent=2) + "\n")
    (written / "README.md").write_text(ABOUT.format(of=of, homepage=about["homepage"]))
    files |= {path.name: path for path in written.iterdir()} | {"LICENSE": source.root / "LICENSE"}
    packed = f"{name.removeprefix('@').replace('/', '-')}-{source.version}.tgz"
    tarball.write(out / packed, "package", files, source)


def npm_program(source, target, program, notices, about, out):
    """Makes the npm package with the program for a target."""
    system, processor = TARGETS[target].npm
    files = {"bin/teamwire": program.path} | {path.name: path for path in notices}
    name = TARGETS[target].npm_package
    npm(source, name, about, files, out, os=[system], cpu=[processor], preferUnplugged=True)


def npm_launcher(source, programs, about, out):
    """Makes the npm package that starts the program for the machine. npm installs only the package that fits."""
    optional = {TARGETS[target].npm_package: source.version for target in programs}
    launcher = {"bin": {"teamwire": "teamwire.js"}, "engines": {"node": ">=18"}, "optionalDependencies": optional}
    npm(source, "teamwire", about, {"teamwire.js": source.root / HERE / "teamwire.js"}, out, **launcher)


def formula(source, sums, about):
    """Returns the formula of Homebrew."""
    blocks = {}
    for target, expected in sums.items():
        system, processor = TARGETS[target].brew
        url = f"{about['repository']}/releases/download/v{source.version}/{tarball.name(source, target)}.tar.gz"
        lines = [f"    {processor} do", f'      url "{url}"', f'      sha256 "{expected}"', "    end"]
        blocks.setdefault(system, []).extend(lines)
    places = "".join(f"  {system} do\n{chr(10).join(lines)}\n  end\n\n" for system, lines in blocks.items())
    template = (source.root / HERE / "teamwire.rb").read_text()
    return (
        template.replace("@VERSION@", source.version)
        .replace("@HOMEPAGE@", about["homepage"])
        .replace("  # @PLACES@\n\n", places)
    )


def script(source, sums, about, path):
    """Writes the script with the sums of all archives."""
    known = "".join(f"        {target}) echo {expected} ;;\n" for target, expected in sums.items())
    values = {"@VERSION@": source.version, "@REPOSITORY@": about["repository"], "        @SUMS@\n": known}
    values["@SLUG@"] = about["repository"].removeprefix("https://github.com/")
    text = (source.root / HERE / "install.sh").read_text()
    for name, value in values.items():
        text = text.replace(name, value)
    path.write_text(text)
    path.chmod(0o755)

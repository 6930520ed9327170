"""The bill of materials of the program, in the format CycloneDX.

cargo-cyclonedx names the crates. This adds what cargo does not know: the packages in the console, and the libraries of
Rust and C.
"""

import json
import os
import re

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import notice
import tarball
from source import failed, output


def write(source, target, out):
    """Writes the bill of the program for a target, and checks it against the schema."""
    arguments = ["--format=json", "--override-filename=bom", "--no-build-deps", "--spec-version=1.5"]
    arguments += ["--target", target, "--quiet"]
    source.cargo("cyclonedx", *arguments, env={"PATH": f"{os.environ['CYCLONEDX']}:{os.environ['PATH']}"})
    made = (source.root / "bom.json").read_text()
    # It names crates of this workspace by their paths on this machine.
    made = re.sub(r"path\+file://[^#\"]*", "path+teamwire", made)
    bill = json.loads(re.sub(r"\?download_url=file://[^\"#]*", "", made))

    rust = re.search(r"^rustc (\S+)", output("rustc", "--version", cwd=source.root, env=source.environment))[1]
    added = [{"name": "std", "version": rust, "license": "MIT OR Apache-2.0", "purl": f"pkg:generic/rust-std@{rust}"}]
    if "linux" in target:
        glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
        purl = f"pkg:generic/glibc@{glibc}"
        added.append({"name": "glibc", "version": glibc, "license": "LGPL-2.1-or-later", "purl": purl})
    for part in notice.bundled(source):
        purl = f"pkg:npm/{part.name.replace('@', '%40')}@{part.version}"
        added.append({"name": part.name, "version": part.version, "license": part.license, "purl": purl})
    for component in added:
        license = component.pop("license")
        described = {"type": "library", "bom-ref": component["purl"], "scope": "required"}
        bill["components"].append(described | component | {"licenses": [{"expression": license}]})
    top = bill["metadata"]["component"]["bom-ref"]
    for dependency in bill["dependencies"]:
        if dependency["ref"] == top:
            ours = {component["purl"] for component in added}
            dependency["dependsOn"] = sorted(ours | set(dependency.get("dependsOn", [])))
    bill["dependencies"] += [{"ref": component["purl"]} for component in added]
    bill.pop("serialNumber", None)
    bill["metadata"]["timestamp"] = source.moment
    text = json.dumps(bill, indent=2, sort_keys=True) + "\n"

    if error := JsonStrictValidator(SchemaVersion.V1_5).validate_str(text):
        failed(
            f"the bill of materials breaks its schema: {error}", "see what cargo-cyclonedx or xtask/dist/sbom.py writes"
        )
    named = {(component["name"], component["version"]) for component in bill["components"]}
    if missing := [part.name for part in notice.crates(source, target) if (part.name, part.version) not in named]:
        failed(f"the bill of materials lacks {', '.join(missing)}", "compare it with `cargo tree --package teamwire`")
    if str(source.root) in text:
        failed("the bill of materials names a path of this machine", "replace it in xtask/dist/sbom.py")
    (out / f"{tarball.name(source, target)}.cdx.json").write_text(text)

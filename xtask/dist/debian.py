"""The Debian package. Its parts that are not made by a build are in deploy/debian and deploy/systemd."""

import gzip
import hashlib
import os
import shutil
import subprocess
from email.utils import formatdate

from source import run

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CONFIGURATION = "etc/teamwire/teamwire.toml"
# Debian's form of a list of changes.
CHANGES = """\
teamwire ({version}) stable; urgency=medium

  * /usr/share/doc/teamwire/CHANGELOG.md.gz lists the changes.

 -- The teamwire authors <teamwire@users.noreply.github.com>  {date}
"""
SCRIPTS = ("postinst", "prerm", "postrm")


def pack(source, target, program, third_parties, out):
    """Packs the program with a service, manual pages and completions."""
    architecture = ARCHITECTURES[target.split("-")[0]]
    tree = source.empty("debian")
    deploy = source.root / "deploy"
    documents = "usr/share/doc/teamwire"
    files = {
        "usr/bin/teamwire": program.path,
        "usr/lib/systemd/system/teamwire.service": deploy / "systemd/teamwire.service",
        "usr/lib/sysusers.d/teamwire.conf": deploy / "systemd/sysusers.conf",
        "usr/share/bash-completion/completions/teamwire": program.completions / "teamwire.bash",
        "usr/share/zsh/vendor-completions/_teamwire": program.completions / "_teamwire",
        "usr/share/fish/vendor_completions.d/teamwire.fish": program.completions / "teamwire.fish",
        "usr/share/lintian/overrides/teamwire": deploy / "debian/lintian-overrides",
        f"{documents}/copyright": deploy / "debian/copyright",
        f"{documents}/teamwire.toml": source.root / "src/config/default.toml",
        f"{documents}/README.md": source.root / "README.md",
        CONFIGURATION: deploy / "debian/teamwire.toml",
    }
    packed = {f"usr/share/man/man1/{path.name}.gz": path for path in program.manuals.iterdir()}
    packed |= {f"{documents}/{path.name}.gz": path for path in third_parties}
    packed[f"{documents}/CHANGELOG.md.gz"] = source.root / "CHANGELOG.md"
    packed[f"{documents}/changelog.gz"] = source.empty("changelog") / "changelog"
    packed[f"{documents}/changelog.gz"].write_text(
        CHANGES.format(version=source.version, date=formatdate(source.epoch))
    )
    for name, origin in (files | packed).items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = origin.read_bytes()
        path.write_bytes(gzip.compress(content, 9, mtime=0) if name in packed else content)
        path.chmod(0o755 if name == "usr/bin/teamwire" else 0o644)

    control = tree / "DEBIAN"
    control.mkdir()
    sizes = sum((tree / name).stat().st_size for name in files | packed)
    fields = {"@VERSION@": source.version, "@ARCHITECTURE@": architecture, "@SIZE@": str(-(-sizes // 1024))}
    text = (deploy / "debian/control").read_text()
    for field, value in fields.items():
        text = text.replace(field, value)
    (control / "control").write_text(text)
    (control / "conffiles").write_text(f"/{CONFIGURATION}\n")
    sums = [
        f"{hashlib.md5((tree / name).read_bytes(), usedforsecurity=False).hexdigest()}  {name}\n"
        for name in sorted(files | packed)
    ]
    (control / "md5sums").write_text("".join(sums))
    for script in SCRIPTS:
        shutil.copyfile(deploy / "debian" / script, control / script)
        (control / script).chmod(0o755)
    for path in [tree, *tree.rglob("*")]:
        os.utime(path, (source.epoch, source.epoch))
    # One thread: several would make other bytes than a machine with one processor.
    build = [
        "dpkg-deb",
        "--root-owner-group",
        "--threads-max=1",
        *(["-Zgzip", "-z1"] if source.quick else ["-Zxz"]),
        "--build",
    ]
    package = out / f"teamwire_{source.version}_{architecture}.deb"
    run(
        *build, tree, package, env=source.environment, advice="it needs dpkg 1.21.9 or newer", stdout=subprocess.DEVNULL
    )

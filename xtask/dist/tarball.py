"""The archives. Equal contents make equal bytes: names are sorted, and owners, times and modes are fixed."""

import gzip
import io
import tarfile


def name(source, target):
    """Returns the name of the archive for a target, and of the directory in it."""
    return f"teamwire-{source.version}-{target}"


def pack(source, target, program, third_parties, out):
    """Packs the program with what belongs to it."""
    top = name(source, target)
    files = {"teamwire": program.path}
    files |= {name: source.root / name for name in ("LICENSE", "README.md", "CHANGELOG.md")}
    files |= {path.name: path for path in third_parties}
    files["teamwire.toml"] = source.root / "src/config/default.toml"
    for folder, origin in (
        ("completions", program.completions),
        ("man/man1", program.manuals),
        ("examples", source.root / "examples"),
    ):
        files |= {f"{folder}/{path.name}": path for path in origin.iterdir()}
    write(out / f"{top}.tar.gz", top, files, source)


def pack_source(source, out):
    """Packs what the release was made from. Who changes the C library that the program contains can link it again."""
    top = f"teamwire-{source.version}-source"
    write(out / f"{top}.tar.gz", top, {name: source.root / name for name in source.names}, source)


def write(path, top, files, source):
    """Writes an archive of files by their names below one directory."""
    level = 1 if source.quick else 9
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", level, raw, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, origin in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.mtime = source.epoch
            if origin.is_symlink():
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(origin.readlink()), 0o777
                archive.addfile(entry)
                continue
            content = origin.read_bytes()
            entry.size, entry.mode = len(content), 0o755 if origin.stat().st_mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(content))

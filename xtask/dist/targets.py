"""The targets of a release, as the compiler names them, and what each way to install calls them."""

import dataclasses
import struct

from source import failed


@dataclasses.dataclass(frozen=True)
class Target:
    """A system and a processor."""

    header: bytes
    """How a program for it begins."""
    wheel: tuple[str, ...]
    """The platforms of Python. A static program needs no C library, so it fits both families of Linux."""
    npm: tuple[str, str]
    """Node's names of the system and the processor."""
    brew: tuple[str, str]
    """The blocks of a formula."""

    @property
    def npm_package(self):
        """Returns the npm package with the program."""
        return f"@teamwire/cli-{'-'.join(self.npm)}"


def elf(machine):
    """Returns the header of a 64-bit program for Linux."""
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HH", 3, machine)


def mach(processor):
    """Returns the header of a 64-bit program for macOS."""
    return struct.pack("<II", 0xFEEDFACF, processor)


TARGETS = {
    "x86_64-unknown-linux-gnu": Target(
        elf(62), ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64"), ("linux", "x64"), ("on_linux", "on_intel")
    ),
    "aarch64-unknown-linux-gnu": Target(
        elf(183), ("manylinux_2_17_aarch64", "musllinux_1_1_aarch64"), ("linux", "arm64"), ("on_linux", "on_arm")
    ),
    "aarch64-apple-darwin": Target(
        mach(0x100000C), ("macosx_11_0_arm64",), ("darwin", "arm64"), ("on_macos", "on_arm")
    ),
    "x86_64-apple-darwin": Target(
        mach(0x1000007), ("macosx_11_0_x86_64",), ("darwin", "x64"), ("on_macos", "on_intel")
    ),
}


def check(target, path):
    """Fails unless a file is a program for a target."""
    if target not in TARGETS:
        failed(f"there is no target {target}", f"name one of {', '.join(TARGETS)}")
    if not path.is_file():
        failed(f"there is no file {path}", "build the program for that target first")
    header = TARGETS[target].header
    with path.open("rb") as program:
        # The ABI of Linux is the eighth byte. Compilers write 0 or 3.
        begins = bytearray(program.read(len(header)))
    if begins[:4] == b"\x7fELF":
        begins[7] = 0
    if begins != header:
        failed(f"{path} is not a program for {target}", "name the target that it was built for")


def stand_in(target, path):
    """Writes a file that the packages accept as a program for a target, and that no machine runs."""
    path.write_bytes(TARGETS[target].header + f"\nA test of the packages for {target}.\n".encode() * 1000)
    path.chmod(0o755)
    return path

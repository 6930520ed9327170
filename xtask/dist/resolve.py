"""Verifies in a separate network that the static program resolves names, in a root that has only what it needs.

/etc/nsswitch.conf names a module that ends every process that loads it. The C library would load it, as it would load
one of another version, which crashes. `src/static_names.rs` prevents that.
"""

import pathlib
import platform
import shutil
import socket
import struct
import subprocess
import sys
import threading

from machine import Machine
from source import failed, run

# Free in a new network.
PORT = 7420
SERVED = b"\x06served\x07example\x00"
MODULE = "__attribute__((constructor)) static void load(void) { *(volatile int *)0 = 0; }"


def serve(server):
    """Answers questions for the address of one name. It has no other record, and there is no other name."""
    while True:
        question, peer = server.recvfrom(512)
        end = question.index(b"\0", 12) + 1
        name, [kind] = question[12:end], struct.unpack("!H", question[end : end + 2])
        is_known, is_answered = name.lower() == SERVED, name.lower() == SERVED and kind == 1
        header = question[:2] + struct.pack("!HHHHH", 0x8180 if is_known else 0x8183, 1, int(is_answered), 0, 0)
        record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + bytes([127, 0, 0, 1]) if is_answered else b""
        server.sendto(header + question[12 : end + 4] + record, peer)


def furnish(root):
    """Writes the files that say how to resolve names, and the module."""
    (root / "etc").mkdir()
    (root / "etc/hosts").write_text("127.0.0.1 listed.example\n")
    (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:1\n")
    (root / "etc/nsswitch.conf").write_text("hosts: crash files dns\npasswd: crash files\ngroup: crash files\n")
    source = root / "module.c"
    source.write_text(MODULE)
    for directory in ("lib", "lib64", "usr/lib", f"lib/{platform.machine()}-linux-gnu"):
        module = root / directory / "libnss_crash.so.2"
        module.parent.mkdir(parents=True, exist_ok=True)
        run("cc", "-shared", "-fPIC", "-nostdlib", "-o", module, source, quiet=True)


def main(program, root):
    """Reaches a coordinator by two names from the root, and fails to by a third."""
    run("ip", "link", "set", "lo", "up", quiet=True)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    furnish(root)
    shutil.copy(program, root / "teamwire")
    with Machine(program, f"127.0.0.1:{PORT}") as machine:
        machine.lead()
        # 69: it cannot be reached.
        for name, expected in (("listed.example", 0), ("served.example", 0), ("unknown.example", 69)):
            # Found here, because it runs without a PATH.
            command = [shutil.which("chroot"), root, "/teamwire", "health", "--address", f"http://{name}:{PORT}"]
            done = subprocess.run(command, capture_output=True, text=True, env={"HOME": "/"})
            print(f"dist: {name}: {(done.stdout or done.stderr).strip()}", file=sys.stderr)
            if done.returncode != expected:
                failed(f"the program ends with {done.returncode} for {name}", "see src/static_names.rs")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))

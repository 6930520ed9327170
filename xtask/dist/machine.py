"""A machine for the checks of packages: a home directory, and a coordinator with a team in it."""

import contextlib
import os
import subprocess
import tempfile
import time

from source import clean_environment, failed

PATIENCE = 120


def eventually(what, condition):
    """Waits until a condition returns something true, and returns that."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            failed(f"waited {PATIENCE} s until {what}", "read the output above")
        time.sleep(0.1)
    return found


class Machine:
    """Someone's machine, on which nothing is installed but one program. Everything on it ends with the `with` block."""

    def __init__(self, program, listen="127.0.0.1:0"):
        self.program, self.listen = program, listen
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self.home = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="teamwire-dist-", ignore_cleanup_errors=True)
        )
        return self

    def __exit__(self, *raised):
        self._stack.close()

    @property
    def environment(self):
        """Returns the environment of its commands."""
        path = f"{self.program.parent}:{os.environ['PATH']}"
        ours = {"HOME": self.home, "PATH": path, "TEAMWIRE_LISTEN": self.listen}
        # Below the home directory unless these say otherwise.
        return {name: value for name, value in clean_environment().items() if not name.startswith("XDG_")} | ours

    def teamwire(self, *arguments, program=None, **options):
        """Runs a command to its end, and returns what it prints."""
        options = {"cwd": self.home, "env": self.environment, "timeout": PATIENCE} | options
        done = subprocess.run(
            [program or self.program, *arguments], capture_output=True, stdin=subprocess.DEVNULL, text=True, **options
        )
        if done.returncode:
            failed(f"`teamwire {' '.join(arguments)}` failed ({done.returncode}): {done.stderr}", "run it by hand")
        return done.stdout

    def start(self, *command, **options):
        """Starts a program, which is stopped with the machine."""
        options = {"cwd": self.home, "env": self.environment} | options
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, **options)
        self._stack.callback(end, process)
        return process

    def lead(self):
        """Starts a coordinator, creates a team, and becomes its lead."""
        log = self._stack.enter_context(open(f"{self.home}/coordinator.log", "w"))
        process = self.start(self.program, "serve", stderr=log, stdout=log)
        address = os.path.join(self.home, ".local/state/teamwire/address")
        eventually("the coordinator serves", lambda: os.path.exists(address) or process.poll() is not None)
        self.teamwire("team", "create", "acme")

    def converse(self, name, *command, **options):
        """Lets a program join, answer a message, and approve its shutdown. Fails unless it exits with 0."""
        join = self.teamwire("invite", name).strip()
        environment = self.environment | options.pop("env", {}) | {"TEAMWIRE_JOIN": join}
        process = self.start(*command, name, env=environment, **options)

        def is_there():
            if process.poll() is not None:
                failed(f"{name} exited with {process.returncode} before it answered", "read its output above")
            return name in self.teamwire("status")

        eventually(f"{name} has joined", is_there)
        answer = self.teamwire("send", name, "Are you there?", "-s", "a question", "--wait-reply", "1m")
        if "You said: Are you there?" not in answer:
            failed(f"{name} answered {answer}", "run its example by hand")
        self.teamwire("shutdown", name, "Well done.", "--wait")
        if process.wait(PATIENCE) != 0:
            failed(f"{name} exited with {process.returncode} after its shutdown", "read its output above")


def end(process):
    """Stops a process, if it is running."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

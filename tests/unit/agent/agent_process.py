"""Runs the agent as a pod does: from a zip file, by an interpreter without site packages, as processes of its own."""

import os
import selectors
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trainer_images.build import ROOT

SOURCES: Final = ROOT / "trainer_images/lib/src"
PACKAGES: Final = ("dtj_agent", "dtj_trainer")
DEADLINE_S: Final = 60.0
"""Nothing here takes seconds; this is for a machine under load."""

PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def archive(folder: Path) -> Path:
    """The agent as one file, as the operator brings it to a pod."""
    path = folder / "agent.pyz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("__main__.py", "from dtj_agent.main import main\n\nraise SystemExit(main())\n")
        for source in (source for package in PACKAGES for source in sorted((SOURCES / package).rglob("*.py"))):
            file.write(source, source.relative_to(SOURCES))
    return path


class Running:
    """A started program, whose output is read as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.out = b""
        self.err = b""
        self._open = selectors.DefaultSelector()
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            if pipe is not None:
                self._open.register(pipe, selectors.EVENT_READ, name)

    @property
    def pid(self) -> int:
        return self.process.pid

    def until(self, condition: Callable[[], bool]) -> None:
        """Read its output until ``condition`` holds; fails when that takes too long, or the program has ended."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            self._read(deadline)
            if not self._open.get_map() and not condition():
                raise AssertionError(f"ended early, with {self.out!r} and {self.err!r}")

    def says(self, text: str) -> None:
        self.until(lambda: text.encode() in self.out)

    def complains(self, text: str) -> None:
        self.until(lambda: text.encode() in self.err)

    def lines(self, count: int) -> list[str]:
        self.until(lambda: self.out.count(b"\n") >= count)
        return self.out.decode().splitlines()[:count]

    def end(self) -> int:
        """Read to the end of its output; its exit code."""
        deadline = time.monotonic() + DEADLINE_S
        while self._open.get_map():
            self._read(deadline)
        return self.process.wait(DEADLINE_S)

    def _read(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing happens any more after {self.out!r} and {self.err!r}")
        for key, _ in self._open.select(0.05):
            data = os.read(key.fd, 1 << 16)
            setattr(self, key.data, getattr(self, key.data) + data)
            if not data:
                self._open.unregister(key.fileobj)


class Agent:
    """Starts the agent of one archive."""

    def __init__(self, path: Path, python: str = sys.executable) -> None:
        self.path = path
        self._python = python

    def command(self, *command: str | bytes, options: Sequence[str] = ()) -> list[str | bytes]:
        return [self._python, "-I", "-S", str(self.path), *options, "--", *command]

    def run(
        self,
        *command: str | bytes,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end."""
        return subprocess.run(
            self.command(*command, options=options),
            input=stdin,
            env={"PATH": PATH, **(env or {})},
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )

    @contextmanager
    def started(
        self,
        *command: str,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Iterator[Running]:
        """Start it, with ``under`` before its command line; nothing of it is left afterwards."""
        with started([*under, *self.command(*command, options=options)], env) as running:
            yield running

    def driver(self, code: str, *arguments: str) -> list[str]:
        """Command line of a program that imports the agent's modules as the agent does."""
        return [
            self._python,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(self.path)!r})\n{code}",
            *arguments,
        ]


@contextmanager
def started(command: Sequence[str | bytes], env: Mapping[str, str] | None = None) -> Iterator[Running]:
    process = subprocess.Popen(
        command,
        env={"PATH": PATH, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        for pid in [*descendants(process.pid), process.pid]:
            kill(pid)
        process.wait(DEADLINE_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def close_input(running: Running) -> None:
    assert running.process.stdin is not None
    running.process.stdin.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it never came true")
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Whether a process runs no more, waited for or not."""
    return state(pid) in (None, "Z")


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def state(pid: int) -> str | None:
    """The one-letter state of a process, ``Z`` for one that ended and was not waited for; None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> list[int]:
    """Deepest first."""
    return [found for child in children(pid) for found in [*descendants(child), child]]

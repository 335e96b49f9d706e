"""kubectl for tests: bounded in time, and a failure that says what kubectl said."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

TIMEOUT = 60.0
PATIENCE_SECONDS = 150.0
"""A training that other tests share two cores with takes its time; a condition that holds earlier ends the wait."""
POLL_SECONDS = 0.25

Object = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Kubectl:
    """One cluster and one namespace of it."""

    program: Path
    kubeconfig: Path
    namespace: str

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace, *arguments]
        return subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=TIMEOUT, check=False)

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def apply(self, manifest: Object) -> None:
        self("apply", "-f", "-", stdin=json.dumps(manifest))

    def get(self, kind: str, name: str) -> Object:
        found: Object = json.loads(self("get", kind, name, "-o", "json"))
        return found

    def all(self, kind: str, selector: str = "") -> list[Object]:
        found: list[Object] = json.loads(self("get", kind, "-l", selector, "-o", "json"))["items"]
        return found


def eventually(look: Callable[[], T], condition: Callable[[T], bool], within: float = PATIENCE_SECONDS) -> T:
    """Return the first look that meets the condition; fail with the last one when none does in time."""
    deadline = time.monotonic() + within
    while True:
        seen = look()
        if condition(seen):
            return seen
        assert time.monotonic() < deadline, (
            f"not within {within:.0f} s; last seen:\n{json.dumps(seen, default=str)[:4000]}"
        )
        time.sleep(POLL_SECONDS)

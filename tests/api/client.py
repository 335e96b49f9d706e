"""A small client of the API server under test: requests through ``kubectl proxy``, so any kubeconfig serves."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT = 60.0
"""Seconds for one request or one run of kubectl."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    code: int
    body: Object

    @property
    def accepted(self) -> bool:
        return self.code < http.client.BAD_REQUEST

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """Each field that was refused and why; empty unless the object was invalid."""
        causes = self.body.get("details", {}).get("causes", ())
        return [(cause.get("field", ""), cause["message"]) for cause in causes]


@dataclass(frozen=True)
class Client:
    kubectl_command: tuple[str, ...]
    port: int

    def request(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": kind, "Accept": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            is_json = response.getheader("Content-Type", "").startswith("application/json")
            return Answer(response.status, json.loads(text) if is_json else {"message": text})  # "404 page not found"
        finally:
            connection.close()

    def changes_since(self, path: str, version: str) -> list[tuple[str, Object]]:
        """Every change to the objects at ``path`` after a resourceVersion, in order: (ADDED, object), and so on."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request("GET", f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=1")
            lines = connection.getresponse().read().splitlines()
            return [(change["type"], change["object"]) for change in map(json.loads, lines)]
        finally:
            connection.close()

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.kubectl_command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def kubectl_output(self, *arguments: str, stdin: str | None = None) -> str:
        done = self.kubectl(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout


@contextmanager
def connected(kubectl: Path, kubeconfig: Path) -> Iterator[Client]:
    command = (str(kubectl), "--kubeconfig", str(kubeconfig))
    with subprocess.Popen([*command, "proxy", "--port=0"], stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            address = proxy.stdout.readline().split()[-1]  # "Starting to serve on 127.0.0.1:41234"
            yield Client(command, int(address.rpartition(":")[2]))
        finally:
            proxy.terminate()

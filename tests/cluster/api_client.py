"""A few calls to the bed's API server with nothing but the standard library."""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.errors import BedError

TIMEOUT = 10.0
NOT_FOUND = 404
CONFLICT = 409


@dataclass(frozen=True)
class ApiClient:
    """Speaks to one API server with the client certificate of a kubeconfig this bed wrote."""

    kubeconfig: Path

    def is_ready(self) -> bool:
        """Say whether the API server answers and calls itself ready."""
        try:
            status, _ = self._request("GET", "/readyz")
        except (OSError, http.client.HTTPException):
            return False
        return status == http.client.OK

    def get(self, path: str) -> dict[str, Any] | None:
        """Return the object at `path`, None when there is none."""
        status, body = self._request("GET", path)
        return None if status == NOT_FOUND else _decoded(f"GET {path}", status, body)

    def create(self, path: str, manifest: dict[str, Any]) -> None:
        """Create an object in the collection `path`; one that is there already stays as it is."""
        status, body = self._request("POST", path, manifest)
        if status != CONFLICT:
            _decoded(f"POST {path}", status, body)

    def merge(self, path: str, patch: dict[str, Any]) -> None:
        """Apply a merge patch."""
        status, body = self._request("PATCH", path, patch)
        _decoded(f"PATCH {path}", status, body)

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        document = json.loads(self.kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        address = cluster["server"].removeprefix("https://")
        connection = http.client.HTTPSConnection(address, context=context, timeout=TIMEOUT)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _decoded(call: str, status: int, body: bytes) -> dict[str, Any]:
    if status >= http.client.BAD_REQUEST:
        raise BedError(f"{call}: the API server answered {status}: {body.decode(errors='replace')[:1000]}")
    decoded: dict[str, Any] = json.loads(body)
    return decoded

"""Requests in somebody's name: the API server is asked to take them for that user, whose rights then count."""

import http.client
import json
from collections.abc import Iterable
from dataclasses import dataclass

from tests.api.client import TIMEOUT, Answer, Client, Object

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Actor:
    """A user of the API server; a name of the form ``system:serviceaccount:…`` brings its groups along."""

    client: Client
    user: str
    groups: tuple[str, ...] = ()

    def request(self, method: str, path: str, body: object = None, kind: str = JSON, *, dry_run: bool = True) -> Answer:
        """``dry_run``: admission judges as ever, and nothing is written."""
        query = ("&" if "?" in path else "?") + "dryRun=All" if dry_run else ""
        connection = http.client.HTTPConnection("127.0.0.1", self.client.port, timeout=TIMEOUT)
        try:
            connection.putrequest(method, path + query)
            for name, value in self._headers(kind):
                connection.putheader(name, value)
            content = b"" if body is None else json.dumps(body).encode()
            connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            response = connection.getresponse()
            return Answer(response.status, _parsed(response))
        finally:
            connection.close()

    def _headers(self, kind: str) -> Iterable[tuple[str, str]]:
        yield "Content-Type", kind
        yield "Accept", "application/json"
        yield "Impersonate-User", self.user
        for group in self.groups:
            yield "Impersonate-Group", group


def account(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def _parsed(response: http.client.HTTPResponse) -> Object:
    text = response.read().decode()
    parsed: Object = json.loads(text)
    return parsed

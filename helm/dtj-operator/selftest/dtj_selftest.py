"""What `helm test` runs in the operator's image: one small job, from its creation to its success.

Its account may create and delete jobs in one namespace and nothing else, so this is a job as a user has it.
"""

import json
import secrets
import ssl
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from os import environ
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RESOURCE = "apis/dtj.dev/v1alpha1/namespaces/{namespace}/distributedtrainingjobs"
DEADLINE_SECONDS = 240.0
"""For the whole job; `helm test` itself waits for 5 minutes."""
POLL_SECONDS = 1.0
REQUEST_SECONDS = 15.0

Object = dict[str, Any]


class SelftestError(Exception):
    """Why the test failed, in words."""


@dataclass(frozen=True)
class ApiServer:
    """The API server as seen by one account. ``address``: scheme, host and port."""

    address: str
    token: str
    context: ssl.SSLContext

    @classmethod
    def of_this_pod(cls) -> "ApiServer":
        host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
        address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        return cls(address, (ACCOUNT / "token").read_text(encoding="ascii"), context)

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        """Return the answer. Raises SelftestError for one that refuses, OSError where there is none."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.address}/{path}", data, headers, method=method)  # noqa: S310 - https
        try:
            with urllib.request.urlopen(asked, timeout=REQUEST_SECONDS, context=self.context) as response:  # noqa: S310
                answer: Object = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise ConnectionError(f"{method} {path}: {error.code}") from error
            raise SelftestError(f"{method} {path}: {_message(error)}") from error


def run(server: ApiServer, manifest: Object, deadline_seconds: float = DEADLINE_SECONDS) -> None:
    """Create the job under a name that is free, wait until it has succeeded, delete it in any case.

    Raises SelftestError, OSError.
    """
    name = f"{manifest['metadata']['name']}-{secrets.token_hex(4)}"
    collection = RESOURCE.format(namespace=manifest["metadata"]["namespace"])
    job = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
    server.request("POST", collection, job)
    _say(f"created {manifest['metadata']['namespace']}/{name}")
    try:
        _wait(server, f"{collection}/{name}", deadline_seconds)
    except BaseException:
        _delete_if_possible(server, f"{collection}/{name}")
        raise
    _delete(server, f"{collection}/{name}")


def _delete(server: ApiServer, path: str) -> None:
    server.request("DELETE", path, {"propagationPolicy": "Background"})


def _delete_if_possible(server: ApiServer, path: str) -> None:
    """What has gone wrong before is what matters; the job also goes by itself, some time after its end."""
    try:
        _delete(server, path)
    except (SelftestError, OSError) as error:
        _say(f"the job is left behind: {error}")


def _wait(server: ApiServer, path: str, seconds: float) -> None:
    began, told = time.monotonic(), ""
    while told != "Succeeded":
        status = _status(server, path)
        if (now := _words(status)) != told:
            told = now
            _say(f"{time.monotonic() - began:.0f} s: {told}")
        if status.get("phase") == "Failed":
            raise SelftestError(f"the job failed:\n{json.dumps(status.get('lastFailure', status), indent=2)}")
        if time.monotonic() - began > seconds:
            raise SelftestError(f"the job has not succeeded within {seconds:g} s; it is {told}")
        time.sleep(POLL_SECONDS)


def _status(server: ApiServer, path: str) -> Object:
    """What the operator says; nothing where it has said nothing yet, or the API server does not answer."""
    try:
        status: Object = server.request("GET", path).get("status", {})
    except OSError as error:
        return {"phase": "Unknown", "reason": f"the API server does not answer: {error}"}
    return status


def _words(status: Object) -> str:
    phase, reason = status.get("phase"), status.get("reason")
    if not phase:
        return "not seen by the operator"
    if not reason or phase == "Succeeded":
        return str(phase)
    told = (each.get("message") for each in status.get("conditions", ()) if each.get("reason") == reason)
    return f"{phase} ({': '.join(filter(None, (reason, next(told, None))))})"


def _message(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {text[:500]}"


def _say(text: str) -> None:
    print(text, flush=True)


def main(manifest: Path) -> int:
    try:
        run(ApiServer.of_this_pod(), json.loads(manifest.read_text(encoding="utf-8")))
    except (SelftestError, OSError) as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    _say("the operator works")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

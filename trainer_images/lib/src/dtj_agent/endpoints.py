"""Where the training's own processes reach the agent: opened before they start, whose environment must name it.

No files are needed, so a read-only root file system does not matter, and nothing is left behind. What comes before the
agent reads waits in the kernel.

Hugging Face: transformers registers its KubeflowCallback in every training whose environment names a server
(``KubeflowCallback`` in transformers/integrations/integration_utils.py, seen in 5.23.0). It sends at most every 5 s,
with urllib: plain HTTP will do, and where no CA is named it asks for no certificate. Its token must be in a file.
"""

from __future__ import annotations

import _socket  # not socket, which takes longer to import than all else that is done before the training starts
import os
from collections.abc import Mapping

from dtj_agent import protocol

HUGGING_FACE_URL = "KUBEFLOW_TRAINER_SERVER_URL"
HUGGING_FACE_TOKEN_FILE = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 - the variable's name

BACKLOG = 8


class Endpoints:
    """File descriptors, None where the system does not have such a thing, and the variables that tell of them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.token = os.urandom(16).hex()
        self.variables: dict[str, str] = {}
        self.reports = self._open_reports()
        self.hugging_face = self._open_hugging_face() if hugging_face_is_wanted(environ) else None

    def _open_reports(self) -> int | None:
        name = f"dtj-agent-{os.getpid()}-{os.urandom(8).hex()}"
        try:
            opened = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
            opened.bind(b"\0" + name.encode())  # abstract: the zero byte says that it is no file
            opened.setblocking(False)
        except (OSError, AttributeError):  # no Linux
            return None
        self.variables.update({protocol.SOCKET: name, protocol.REPORT_TOKEN: self.token})
        return opened.detach()

    def _open_hugging_face(self) -> int | None:
        path = token_file(self.token)
        if path is None:
            return None
        try:
            opened = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
            opened.bind(("127.0.0.1", 0))
            opened.listen(BACKLOG)
        except OSError:  # no such address: a pod with IPv6 only
            return None
        url = f"http://127.0.0.1:{opened.getsockname()[1]}{protocol.HUGGING_FACE_PATH}"
        self.variables.update({HUGGING_FACE_URL: url, HUGGING_FACE_TOKEN_FILE: path})
        return opened.detach()


def hugging_face_is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the callback may be told to report here.

    Not where the user has told it something else; and not where its requests would go to a proxy, which does not find
    this pod's loopback address, and for which training would wait, up to 5 s each time.
    """
    lower = {name.lower(): value for name, value in environ.items() if value}
    exempt = [entry.strip() for entry in lower.get("no_proxy", "").split(",")]
    return HUGGING_FACE_URL not in environ and ("http_proxy" not in lower or "127.0.0.1" in exempt or "*" in exempt)


def token_file(token: str) -> str | None:
    """Path of a file in memory that holds ``token`` as long as the agent lives; None where there are no such files."""
    try:
        descriptor = os.memfd_create("dtj-report-token")
        os.write(descriptor, token.encode())
    except (OSError, AttributeError):
        return None
    path = f"/proc/{os.getpid()}/fd/{descriptor}"
    return path if os.access(path, os.R_OK) else None

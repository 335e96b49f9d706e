import socket
from pathlib import Path

import pytest

from tests.unit.agent.agent_process import Agent, archive
from tests.unit.agent.asking import TOKEN


@pytest.fixture(scope="session")
def agent_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive(tmp_path_factory.mktemp("agent"))


@pytest.fixture
def agent(agent_archive: Path) -> Agent:
    return Agent(agent_archive)


HOROVOD = {
    "__init__.py": "",
    "runner/__init__.py": "",
    "runner/common/__init__.py": "",
    "runner/common/util/__init__.py": "",
    "runner/common/util/hosts.py": """
from types import SimpleNamespace

def parse_hosts(text):
    return [SimpleNamespace(name=e.split(":")[0], slots=int(e.split(":")[1])) for e in text.split(",")]

def get_host_assignments(hosts, minimum, maximum):
    assert minimum == maximum
    return [host.name for host in hosts for _ in range(host.slots)]
""",
    "runner/http/__init__.py": "",
    "runner/http/http_server.py": """
import http.server, socketserver

class RendezvousHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        value = self.server.values.get(self.path)
        self.send_response(404 if value is None else 200)
        self.send_header("Content-Length", str(len(value or b"")))
        self.end_headers()
        self.wfile.write(value or b"")

    def do_PUT(self):
        self.server.values[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

class RendezvousHTTPServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, address, handler, verbose):
        super().__init__(address, handler)
        self.values = {}

    def init(self, plan):
        self.values["/plan/0"] = ",".join(plan).encode()
""",
}
"""As much of Horovod's own modules as the agent uses; the real ones are tried where its image is."""


@pytest.fixture
def horovod(tmp_path: Path) -> Path:
    for name, content in HOROVOD.items():
        path = tmp_path / "packages/horovod" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path / "packages"


@pytest.fixture
def port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@pytest.fixture
def job(port: int, tmp_path: Path) -> dict[str, str]:
    """What the operator sets in the pod of node rank 0."""
    log = tmp_path / "termination-log"
    log.touch()
    return {
        "DTJ_AGENT_PORT": str(port), "DTJ_AGENT_TOKEN": TOKEN, "DTJ_JOB_NAME": "digits", "DTJ_JOB_UID": "0b1c",
        "DTJ_NAMESPACE": "team", "DTJ_ROLE": "worker", "DTJ_REPLICA_INDEX": "0", "DTJ_ATTEMPT": "2",
        "DTJ_NODE_RANK": "0", "DTJ_NNODES": "2", "DTJ_PROCESSES_PER_REPLICA": "2", "DTJ_RANK_ZERO_HOST": "127.0.0.1",
        "DTJ_TERMINATION_LOG": str(log),
    }  # fmt: skip

"""Brings the pods of a Horovod job together before the training starts.

Horovod's processes find each other through an HTTP server beside rank 0 that keeps values by key. When a process calls
``hvd.init()``, that server must answer within three attempts in 1.5 s, and all others must come within 30 s
(HOROVOD_GLOO_TIMEOUT_SECONDS), else it fails. Pods do not start as closely together as that: images are pulled, names
become known. So every agent waits here, telling by a key of its own in the same server that its pod is there, until
the agent of node rank 0 has seen all keys. Sources: horovod/runner/http/http_server.py and
horovod/common/gloo/http_store.cc of Horovod 0.28.1.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dtj_agent import processes, signals
from dtj_agent.copies import LOCATION, MisuseError, number
from dtj_agent.messages import say
from dtj_agent.protocol import NODE_COUNT, NODE_RANK
from dtj_agent.supervisor import Supervisor

ADDRESS = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
HOSTS = "DTJ_HOSTS"
"""Hosts of all pods in the order of their node ranks, with commas between; only the pod of node rank 0 has it."""

LIMIT_S = 30 * 60.0
"""The longest wait for the others. All pods of an attempt are bound to nodes by now, so what is left is pulling images,
which may well take a quarter of an hour for the largest; a job's own deadline, when it has one, is usually shorter."""

FAREWELL_S = 10.0
"""The longest that node rank 0 waits, when its training has ended well, for the others to have seen that all came."""

SAID_AFTER_S = 10.0
REQUEST_TIMEOUT_S = 2.0
POLL_S = 0.2
NODES_AT_THAT_PACE = 100
"""With more nodes each asks less often, so that the server gets some 500 requests a second at most."""

ASKED_AT_ONCE = 32
"""Keys that node rank 0 asks for in one round."""

SCOPE = "dtj"
"""A scope of keys that Horovod does not use: it knows ``global…``, ``local_…`` and ``cross_…``."""

ABSENT = "absent"
"""The key under which node rank 0 tells which node ranks it still misses."""

NOBODY = b"nobody"
HERE = b"here"
STARTED = b"started"
"""What each node writes under its rank: when it came, and when it has seen that all came."""

LONGEST_ANSWER_BYTES = 100_000
NAMED_AT_MOST = 8
FAILED = 1


class Store:
    """Client of the server's keys and values. Any failure is a None or False: the server may not be there yet."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self.trouble: str | None = None
        """What went wrong with the last request; None when it was answered."""

    def get(self, key: str) -> bytes | None:
        answer = self._request("GET", key)
        return answer[1] if answer is not None and answer[0] == http.client.OK else None

    def put(self, key: str, value: bytes) -> bool:
        answer = self._request("PUT", key, value)
        return answer is not None and answer[0] == http.client.OK

    def _request(self, method: str, key: str, body: bytes | None = None) -> tuple[int, bytes] | None:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=REQUEST_TIMEOUT_S)
        try:
            connection.request(method, f"/{SCOPE}/{key}", body=body)
            response = connection.getresponse()
            answer = response.status, response.read(LONGEST_ANSWER_BYTES)
        except OSError as error:  # also a name that is not known yet
            self.trouble = f"{error.strerror or error}"
            return None
        except http.client.HTTPException as error:
            self.trouble = f"no Horovod rendezvous server answers there ({error!r})"
            return None
        finally:
            connection.close()
        known = answer[0] in (http.client.OK, http.client.NOT_FOUND)
        self.trouble = None if known else f"it answers with HTTP status {answer[0]}"
        return answer


class Gathering:
    """All nodes of the job, seen from one of them."""

    def __init__(self, host: str, port: int, node_rank: int, node_count: int, hosts: Sequence[str] = ()) -> None:
        self.node_rank = node_rank
        self._node_count = node_count
        self._hosts = dict(enumerate(hosts))
        self._server = f"{host}:{port}"
        self._store = Store(host, port)
        self._absent = list(range(node_count))
        self.all_came = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Gathering:
        """Read the operator's variables; raises MisuseError, naming the one that is missing or wrong."""
        node_rank, node_count = number(environ, NODE_RANK), number(environ, NODE_COUNT, minimum=1)
        hosts = environ.get(HOSTS, "").split(",") if node_rank == 0 else []
        if not environ.get(ADDRESS):
            raise MisuseError(f"{ADDRESS} is not set")
        if node_rank >= node_count:
            raise MisuseError(f"{NODE_RANK} is {node_rank}, with {node_count} nodes")
        if node_rank == 0 and len(hosts) != node_count:
            raise MisuseError(f"{HOSTS} has {len(hosts)} hosts for {node_count} nodes")
        return cls(environ[ADDRESS], number(environ, PORT, minimum=1), node_rank, node_count, hosts)

    def wait(self) -> None:
        """Return when all nodes are there; whoever calls it bounds it."""
        while not self._store.put(str(self.node_rank), HERE):
            self._pause()
        look = self._look_for_keys if self.node_rank == 0 else self._ask_node_rank_0
        while not look():
            self._pause()
        self._store.put(str(self.node_rank), STARTED)
        self.all_came = True

    def see_off(self) -> None:
        """On node rank 0: return when all nodes have seen that all came, and so the server may end.

        A training that goes well keeps the server up for longer than that, unless it does next to nothing.
        """
        until = time.monotonic() + FAREWELL_S
        for rank in range(self._node_count):
            while self._store.get(str(rank)) != STARTED:
                left = until - time.monotonic()
                if self._store.trouble is not None or left <= 0 or signals.take(min(POLL_S, left)) in signals.ENDING:
                    return

    def describe(self) -> str:
        """What is missing, for a message that begins with what the agent does about it."""
        if self._store.trouble is not None:
            return f"node rank 0 at {self._server}: {self._store.trouble}"
        absent = sorted(self._absent)
        named = [f"{rank} ({self._hosts[rank]})" if rank in self._hosts else f"{rank}" for rank in absent]
        more = len(named) - NAMED_AT_MOST
        ranks = ", ".join(named[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
        return f"node rank{'s' if len(absent) > 1 else ''} {ranks} of {self._node_count}"

    def _look_for_keys(self) -> bool:
        asked = self._absent[:ASKED_AT_ONCE]
        # Those asked and not found go to the end, so that all get their turn.
        still = [rank for rank in asked if self._store.get(str(rank)) is None]
        self._absent = self._absent[ASKED_AT_ONCE:] + still
        told = ",".join(map(str, sorted(self._absent))).encode() or NOBODY
        return self._store.put(ABSENT, told) and not self._absent

    def _ask_node_rank_0(self) -> bool:
        answer = self._store.get(ABSENT)
        if answer == NOBODY:
            return True
        if answer is not None and re.fullmatch(rb"\d+(,\d+)*", answer):
            self._absent = [rank for rank in map(int, answer.split(b",")) if rank < self._node_count]
        return False

    def _pause(self) -> None:
        jitter = 0.75 + os.urandom(1)[0] / 512
        time.sleep(POLL_S * jitter * max(1.0, self._node_count / NODES_AT_THAT_PACE))


def interpreter(command: Sequence[str]) -> str:
    """The Python that has Horovod: the one that runs the training, else the first on PATH."""
    return command[0] if re.fullmatch(r"python[0-9.]*", command[0].rpartition("/")[2]) else "python3"


def run_met(
    gathering: Gathering,
    python: str,
    environ: Mapping[str, str],
    supervisor: Supervisor,
    run: Callable[[], int],
) -> int:
    """Call ``run`` when all nodes are there, with the server beside it on node rank 0; the agent's exit code."""
    server = None
    try:
        if gathering.node_rank == 0:
            server = _start_server(python, environ)
    except processes.CannotStartError as error:
        say(f"Horovod's rendezvous server needs Python: {error}")
        return error.exit_code
    try:
        code = wait_for_all(gathering, server)
        if code is not None:
            return code
        if server is not None:
            supervisor.add_beside(server, _say_that_server_ended)
        code = run()
        if server is not None and code == 0:
            gathering.see_off()
        return code
    finally:
        if server is not None:
            processes.send(server, signal.SIGKILL)


def _start_server(python: str, environ: Mapping[str, str]) -> int:
    # PYTHONSAFEPATH: a module in the working directory must not stand in for one that the server imports.
    path = ":".join(filter(None, (environ.get("PYTHONPATH"), LOCATION)))
    own = {**environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    command = [python, "-W", "ignore", "-m", "dtj_agent.horovod_rendezvous", str(os.getpid())]
    return processes.start(command, own, with_stdin=False)


def wait_for_all(
    gathering: Gathering, server: int | None, limit_s: float = LIMIT_S, said_after_s: float = SAID_AFTER_S
) -> int | None:
    """Wait until all nodes are there: None, or the exit code when they do not come, or a signal does."""
    # In a thread, because nothing interrupts the look-up of a name, and the end of a pod must not wait for it.
    waiting = threading.Thread(target=gathering.wait, daemon=True)
    waiting.start()
    began, said = time.monotonic(), False
    while waiting.is_alive():
        signal_number = signals.take(POLL_S / 4)
        if signal_number in signals.ENDING:
            return 128 + signal_number
        if server is not None and (status := _ended(server)) is not None:
            say(f"Horovod's rendezvous server {processes.describe_end(status)} before the training started")
            return FAILED
        waited = time.monotonic() - began
        if waited >= limit_s:
            say(f"not all nodes came within {limit_s:g} s; missing: {gathering.describe()}")
            return FAILED
        if waited >= said_after_s and not said:
            said = True
            say(f"waiting for all nodes before the training starts; missing: {gathering.describe()}")
    if not gathering.all_came:
        raise RuntimeError("the wait for the other nodes broke off")
    return None


def _ended(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return status if ended else None


def _say_that_server_ended(status: int) -> None:
    say(
        f"Horovod's rendezvous server {processes.describe_end(status)}; training goes on: "
        "only another hvd.init() or hvd.add_process_set() would need it"
    )

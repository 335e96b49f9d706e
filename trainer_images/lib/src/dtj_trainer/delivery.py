"""Brings reports to the agent of this pod: a thread that sends the latest as one datagram, at most once a second.

The agent says by variables where it listens. Without them nothing is started; an agent that does not listen, or does
not keep up, is not waited for.
"""

from __future__ import annotations

# All imported here, not in the thread: a process forked meanwhile would have them half done.
import atexit
import json
import os
import socket
import sys
import threading
import time
from typing import Any

from dtj_trainer.environment import ProcessRank, node_count, process_rank
from dtj_trainer.reporter import Change, Reporter

SOCKET = "DTJ_AGENT_SOCKET"
TOKEN = "DTJ_REPORT_TOKEN"  # noqa: S105 - the variable's name
INTERVAL_S = 1.0
HEARTBEAT_S = 10.0
"""Without news, this often: the process lives."""

LONGEST_NAME = 64
"""Characters of a metric's name, and of a phase."""

LAST_WAIT_S = 0.5
"""How long the end of the program may wait for an agent that does not keep up."""


class Delivery:
    """Sends what a reporter holds, from the first report to the end of the process."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked process does: it has its parent's memory, but not its threads."""
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        """Start to send, once, if there is an agent to send to."""
        address, token = os.environ.get(SOCKET), os.environ.get(TOKEN)
        if not address or not token or self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, args=(address, token), name="dtj-report", daemon=True)
        self._thread.start()
        atexit.register(self.finish)
        # Processes of multiprocessing end without atexit; what they call instead is known where that is loaded.
        util: Any = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, self.finish, exitpriority=10)

    def finish(self) -> None:
        """Have the last state sent as the final one, or left if the agent does not take it in time."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(2 * LAST_WAIT_S)

    def _run(self, address: str, token: str) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
                agent.setblocking(False)
                self._send_all(agent, "\0" + address, token)
        except Exception as error:  # noqa: BLE001 - nothing of this may show as a traceback in the user's output
            self._reporter.complain(error)

    def _send_all(self, agent: socket.socket, address: str, token: str) -> None:
        sent, moment = 0, 0.0
        while not self._ended.is_set():
            change, now = self._reporter.change(), time.monotonic()
            if (change.reports != sent or now - moment >= HEARTBEAT_S) and _send(
                agent, address, message(change, token)
            ):
                sent, moment = change.reports, now
            self._ended.wait(INTERVAL_S)
        agent.settimeout(LAST_WAIT_S)
        _send(agent, address, message(self._reporter.change(), token, final=True))


def message(change: Change, token: str, *, final: bool = False) -> bytes:
    """One datagram, never longer than 8 KiB: fields that were never reported are left out.

    ``age`` is the time since the last report in seconds; heartbeats tell the same report again, older.
    """
    progress, place = change.progress, current_rank()
    fields = {
        "token": token,
        "rank": place.rank,
        "local": place.local,
        "step": progress.step,
        "totalSteps": progress.total_steps,
        "epoch": progress.epoch,
        "totalEpochs": progress.total_epochs,
        "samples": progress.samples,
        "metrics": {name[:LONGEST_NAME]: value for name, value in progress.metrics.items()} or None,
        "phase": None if progress.phase is None else progress.phase[:LONGEST_NAME],
        "localSeconds": progress.local_seconds,
        "age": round(time.monotonic() - change.moment, 3),
        "final": final,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    # Escapes would make a long name three times as long again; half a character of a broken text is replaced.
    return json.dumps(known, ensure_ascii=False).encode(errors="replace")


def _send(agent: socket.socket, address: str, datagram: bytes) -> bool:
    """Whether the agent took it: it may have ended, or not keep up."""
    try:
        agent.sendto(datagram, address)
    except OSError:
        return False
    return True


def current_rank() -> ProcessRank:
    """The rank of this process: as torch.distributed says where that runs, or else as the environment does.

    Processes that a program starts by itself, as torch.multiprocessing does, all have the environment of the first.
    """
    place = process_rank()
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
            return place
        rank, world_size = int(distributed.get_rank()), int(distributed.get_world_size())
    except Exception:  # noqa: BLE001 - it is just being imported, or taken down, by another thread
        return place
    if rank == place.rank:
        return place
    return ProcessRank(rank, rank % max(1, world_size // node_count()))

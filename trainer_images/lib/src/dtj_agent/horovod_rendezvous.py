"""Horovod's own rendezvous server, run by the interpreter that has Horovod: ``-m dtj_agent.horovod_rendezvous PARENT``.

Serves until it is ended, or until its parent process is no longer the one with process ID PARENT. Reads where and for
whom from HOROVOD_GLOO_RENDEZVOUS_PORT, DTJ_HOSTS and DTJ_PROCESSES_PER_REPLICA.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from dtj_agent.horovod import HOSTS, PORT
from dtj_agent.messages import say
from dtj_agent.protocol import PROCESSES_PER_NODE

FAILED = 1
BACKLOG = 1024
"""Connections that may wait: all processes of a job come at once."""


def main() -> int:
    try:
        server = _server(os.environ, parent=int(sys.argv[1]))
    except ImportError as error:
        say(f"{sys.executable} cannot import Horovod, which the job's framework needs: {error}")
        return FAILED
    except OSError as error:
        say(f"Horovod's rendezvous server cannot listen on port {os.environ[PORT]}: {error.strerror}")
        return FAILED
    server.serve_forever()
    return 0


def _server(environ: Mapping[str, str], parent: int) -> Any:  # noqa: ANN401 - Horovod has no types
    from horovod.runner.common.util.hosts import (  # type: ignore[import-not-found]  # noqa: PLC0415
        get_host_assignments,
        parse_hosts,
    )
    from horovod.runner.http.http_server import (  # type: ignore[import-not-found]  # noqa: PLC0415
        RendezvousHandler,
        RendezvousHTTPServer,
    )

    class Server(RendezvousHTTPServer):  # type: ignore[misc]
        request_queue_size = BACKLOG

        def service_actions(self) -> None:  # called twice a second
            if os.getppid() != parent:
                os._exit(0)

        def handle_error(self, request: object, client_address: object) -> None:
            del request
            say(f"Horovod's rendezvous server: the connection from {client_address} broke: {sys.exc_info()[1]}")

    hosts = parse_hosts(",".join(f"{host}:{environ[PROCESSES_PER_NODE]}" for host in environ[HOSTS].split(",")))
    processes = sum(host.slots for host in hosts)
    # As Horovod binds it: it speaks IPv4 only.
    server = Server(("", int(environ[PORT])), RendezvousHandler, 0)
    server.init(get_host_assignments(hosts, processes, processes))
    return server


if __name__ == "__main__":
    sys.exit(main())

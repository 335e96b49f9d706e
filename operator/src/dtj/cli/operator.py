"""``dtj operator run``: the operator itself."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import uvloop

from dtj.cli.debug import debug
from dtj.controller import logs, process
from dtj.controller.debug import PORT
from dtj.controller.options import Election, Options
from dtj.kube.client import DEFAULT_BURST, DEFAULT_RATE
from dtj.kube.errors import ConfigurationError, LeaseLostError

log = logging.getLogger(__name__)


@click.group()
def operator() -> None:
    """The operator itself."""


@operator.command()
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Outside a cluster.")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help="Look after the jobs of this namespace only; may be given several times. Default: all namespaces.",
)
@click.option(
    "--watch-nodes/--no-watch-nodes",
    default=True,
    show_default=True,
    help="Notice lost nodes, which needs the right to read all nodes.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=False,
    show_default=True,
    help="Work only while holding a Lease, so that several replicas may run.",
)
@click.option("--lease-name", default="dtj-operator", show_default=True, help="Name of the Lease.")
@click.option("--lease-namespace", help="Namespace of the Lease. Default: that of the operator's pod.")
@click.option("--lease-identity", help="Name of this process in the election. Default: its host, and a random part.")
@click.option(
    "--health-port",
    type=click.IntRange(1, 65535),
    default=8080,
    show_default=True,
    help="Port of /healthz, /readyz and /metrics.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=1),
    default=DEFAULT_RATE,
    show_default=True,
    help="Requests per second to the API server.",
)
@click.option(
    "--burst",
    type=click.IntRange(min=1),
    default=DEFAULT_BURST,
    show_default=True,
    help="Requests to the API server at once.",
)
@click.option("--verbose", is_flag=True, help="Log every decision.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object per line.",
)
@click.option("--debug-endpoint", is_flag=True, help="Answer `dtj operator debug` in the same pod.")
@click.option(
    "--debug-port",
    type=click.IntRange(1, 65535),
    default=PORT,
    show_default=True,
    help="Port of the debug endpoint, on 127.0.0.1 only.",
)
def run(kubeconfig: Path | None, verbose: bool, log_format: logs.Format, **settings: Any) -> None:  # noqa: ANN401 - click's own types
    """Look after the DistributedTrainingJobs of the cluster, or of some namespaces, until stopped."""
    if kubeconfig is not None:
        os.environ["KUBECONFIG"] = str(kubeconfig)
    logs.configure(verbose=verbose, form=log_format)
    options = Options(
        health_port=settings["health_port"],
        rate=settings["rate"],
        burst=settings["burst"],
        namespaces=tuple(dict.fromkeys(settings["namespaces"])),
        watch_nodes=settings["watch_nodes"],
        election=_election(settings),
        debug_port=settings["debug_port"] if settings["debug_endpoint"] else None,
    )

    def work() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(process.run(options, kubeconfig))

    click.get_current_context().exit(exit_code_of(work))


operator.add_command(debug)


def exit_code_of(work: Callable[[], None]) -> int:
    """Return 0 once it has ended, 1 where an error ended it; the log's last line tells that one, in the log's form."""
    try:
        work()
    except (ConfigurationError, LeaseLostError) as error:
        log.critical("%s", error)
    except Exception:
        log.critical("the operator ends by a fault of its own", exc_info=True)
    else:
        return 0
    return 1


def _election(settings: dict[str, Any]) -> Election | None:
    if not settings["leader_elect"]:
        return None
    identity = settings["lease_identity"] or f"{socket.gethostname()}_{uuid4().hex[:8]}"
    return Election(settings["lease_name"], settings["lease_namespace"], identity)

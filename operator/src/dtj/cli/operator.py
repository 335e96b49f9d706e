"""``dtj operator run``: the operator itself."""

import asyncio
import os
from pathlib import Path

import click
import uvloop

from dtj.controller import logs, process
from dtj.controller.runtime import Options
from dtj.kube.client import DEFAULT_BURST, DEFAULT_RATE
from dtj.kube.errors import ConfigurationError


@click.group()
def operator() -> None:
    """The operator itself."""


@operator.command()
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Outside a cluster.")
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
def run(kubeconfig: Path | None, health_port: int, rate: float, burst: int, verbose: bool) -> None:
    """Look after all DistributedTrainingJobs of the cluster until stopped."""
    if kubeconfig is not None:
        os.environ["KUBECONFIG"] = str(kubeconfig)
    logs.configure(verbose=verbose)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(process.run(Options(health_port, rate, burst), kubeconfig))
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error

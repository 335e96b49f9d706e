"""The command line of the test bed."""

import argparse
import shlex
import sys
from pathlib import Path

from tests.cluster import bed, build, prometheus, requirements, state
from tests.cluster.console import say, step
from tests.cluster.errors import BedError


def main() -> int:
    options = _parser().parse_args()
    try:
        options.run(options)
    except BedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tests.cluster", description="A real Kubernetes on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("packages", help="install the Debian packages a bed needs").set_defaults(
        run=lambda _: requirements.install()
    )
    commands.add_parser("prometheus", help="fetch Prometheus for the tests").set_defaults(
        run=lambda _: prometheus.fetch()
    )
    commands.add_parser("build", help="compile what is not compiled yet").set_defaults(run=lambda _: build.build())
    up = commands.add_parser("up", help="start a bed")
    up.add_argument("--nodes", type=int, default=bed.DEFAULT_NODES, help="0: control plane only (default %(default)s)")
    up.add_argument("--gpus-per-node", type=int, default=bed.DEFAULT_GPUS, help="nvidia.com/gpu (default %(default)s)")
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="remove a bed and everything it made")
    down.set_defaults(run=_down)
    env = commands.add_parser("env", help="print shell commands that point kubectl and helm at a bed")
    env.set_defaults(run=_env)
    status = commands.add_parser("status", help="say what runs")
    status.set_defaults(run=_status)
    node = commands.add_parser("node", help="stop a node as a power cut would, or start it again")
    node.add_argument("action", choices=("stop", "start"))
    node.add_argument("node", help="such as node-1")
    node.set_defaults(run=_node)
    for command in (up, down, env, status, node):
        command.add_argument("--name", default=state.DEFAULT_NAME, help="the bed's name (default %(default)s)")
    load = commands.add_parser("load", help="load images for all beds, those that run included")
    load.add_argument("path", type=Path, help="a directory that is an OCI image layout, or an OCI or Docker archive")
    load.add_argument("names", nargs="*", metavar="NAME", help="images of a layout (default: all)")
    load.set_defaults(run=lambda options: bed.load(options.path, options.names))
    return parser


def _up(options: argparse.Namespace) -> None:
    bed.up(options.name, nodes=options.nodes, gpus_per_node=options.gpus_per_node)


def _down(options: argparse.Namespace) -> None:
    say(f"bed {options.name} is gone" if bed.down(options.name) else f"there is no bed {options.name}")


def _env(options: argparse.Namespace) -> None:
    variables = bed.find(options.name).environment
    say(f"export KUBECONFIG={shlex.quote(variables['KUBECONFIG'])} PATH={shlex.quote(variables['PATH'])}:$PATH")


def _status(options: argparse.Namespace) -> None:
    for line in bed.describe(options.name):
        say(line)


def _node(options: argparse.Namespace) -> None:
    change = bed.stop_node if options.action == "stop" else bed.start_node
    with step(f"node {options.node} {options.action}"):
        change(options.name, options.node)

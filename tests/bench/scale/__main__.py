"""The command: see the package."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path

from tests.bench.scale import cluster, contestants, plots, report, scenarios
from tests.bench.scale.cluster import Cluster
from tests.bench.scale.contestants import Maker
from tests.bench.scale.profile import Profiled
from tests.bench.scale.report import Run
from tests.bench.scale.scenarios import Case, Sizes
from tests.cluster import build
from tests.cluster.console import say
from tests.cluster.errors import BedError

USUAL_SCENARIOS = "A,B,C,D,E,G,H,I"


def main() -> None:
    options = parse_options()
    try:
        sizes = Sizes(options.scale, options.quiet_seconds)
        chosen = scenarios.cases(options.scenarios.replace(",", ""), sizes, options.only)
        makers = {name: maker(name, options) for name in options.contestant}
        build.build((*build.CONTROL_PLANE_PARTS, build.KWOK))
        about = report.machine()
        runs: list[Run] = []
        for each in measured(options.nodes, makers, chosen, options.repetitions, sizes):
            runs.append(each)
            keep(runs, options, about)  # it takes hours, and may be interrupted
    except (BedError, ValueError) as error:
        sys.exit(f"error: {error}")
    say(report.markdown(runs))
    if options.plots is not None:
        plots.draw(runs, options.plots)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scale", description="Jobs by the hundred, side by side with others."
    )
    parser.add_argument("--scenarios", default=USUAL_SCENARIOS, help="letters (default %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has this, as in '200 x 4'")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="of each (default %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of jobs and workers (default 1)")
    parser.add_argument("--quiet-seconds", type=float, default=300.0, metavar="S", help="of E (default %(default)g)")
    parser.add_argument("--nodes", type=int, default=10, metavar="N", help="that KWOK plays (default %(default)s)")
    parser.add_argument(
        "--contestant",
        action="append",
        metavar="NAME",
        help=f"one of {', '.join(contestants.USUAL)}, or package.module:Class; may be given several times",
    )
    parser.add_argument(
        "--operator-option", action="append", default=[], metavar="OPTION", help="as --operator-option=--rate=1000"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every repetition there")
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw SVGs there; needs the group `bench`")
    parser.add_argument("--profile", type=Path, metavar="DIRECTORY", help="profile ours; needs the group `bench`")
    options = parser.parse_args()
    options.contestant = options.contestant or list(contestants.USUAL)
    if options.repetitions < 1:
        parser.error("--repetitions: at least 1 is needed")
    return options


def maker(name: str, options: argparse.Namespace) -> Maker:
    own: list[str] = options.operator_option
    if name == contestants.OURS and options.profile is not None:
        return lambda cluster: Profiled(cluster, options.profile, *own)
    return contestants.maker(name, tuple(own))


def measured(
    nodes: int, makers: dict[str, Maker], chosen: Sequence[Case], repetitions: int, sizes: Sizes
) -> Iterator[Run]:
    """Every case as often as wished, the contestants in turns, each time on a new cluster."""
    for case in chosen:
        for repetition in range(1, repetitions + 1):
            for name, make in makers.items():
                if scenarios.competes(case, name, make):
                    with ExitStack() as stack:
                        with redirect_stdout(StringIO()):  # how each start went is of no interest
                            own = stack.enter_context(cluster.running(f"bench-{os.getpid()}", nodes))
                        yield run(own, case, name, make, repetition, sizes)


def run(own: Cluster, case: Case, name: str, make: Maker, repetition: int, sizes: Sizes) -> Run:
    found = case.measure(own, make, case.shape, sizes)
    numbers = ", ".join(f"{what} {report.short(value)}" for what, value in found.measures.items())
    say(f"  {case.name:<24} {name:<14} {repetition}: {numbers}")
    jobs, workers = case.shape.jobs, case.shape.workers
    return Run(case.name, name, repetition, jobs, workers, found.measures, found.usage, dict(found.requests))


def keep(runs: Sequence[Run], options: argparse.Namespace, about: dict[str, object]) -> None:
    if options.json is not None:
        told = {name: str(value) for name, value in vars(options).items()}
        options.json.write_text(json.dumps(report.document(runs, told, about), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

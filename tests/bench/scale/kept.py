"""Tables and pictures of results that were kept: `python -m tests.bench.scale.kept FILE... --plots DIRECTORY`."""

import argparse
import json
from pathlib import Path

from tests.bench.scale import plots, report
from tests.cluster.console import say


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale.kept", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what --json of the benchmark wrote")
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw SVGs there; needs the group `bench`")
    options = parser.parse_args()
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in options.files]
    if differ := report.differences(documents):
        parser.error(f"they can't be put together, these differ: {', '.join(differ)}")
    runs = [run for document in documents for run in report.read(document)]
    say(report.markdown(runs))
    if options.plots is not None:
        plots.draw(runs, options.plots)


if __name__ == "__main__":
    main()

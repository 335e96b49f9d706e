"""The chart as one manifest for `kubectl apply -f`: `python helm/manifest.py --helm HELM`, or `make manifest`.

Rendered with the default values for the namespace dtj-system, which is part of it. The definition comes first, as it is
in crds/. What only Helm would make true is left out: its labels, its hooks.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
CHART: Final = HERE / "dtj-operator"
DEFINITION: Final = HERE.parent / "crds" / "distributedtrainingjobs.dtj.dev.yaml"
MANIFEST: Final = HERE / "dtj-operator.yaml"
NAMESPACE: Final = "dtj-system"
RELEASE: Final = "dtj-operator"
TIMEOUT: Final = 60.0
HELMS_LABELS: Final = re.compile(r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)

HEAD: Final = f"""\
# The operator with the default values of the chart helm/dtj-operator, made by `make manifest`; do not edit.
#   kubectl apply -f helm/dtj-operator.yaml
# To delete the file deletes the definition too, and with it every job.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
---
"""


def text(helm: Path) -> str:
    """Return the manifest. ``helm``: the program. Raises RuntimeError with what helm says."""
    command = [str(helm), "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--no-hooks"]
    done = subprocess.run(
        [*command, "--set=crds.install=false"], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"helm template: {done.stderr.strip()}")
    return HEAD + DEFINITION.read_text(encoding="utf-8") + HELMS_LABELS.sub("", _without_empty(done.stdout))


def _without_empty(rendered: str) -> str:
    """Documents of comments alone are templates that made nothing."""
    documents = re.split(r"^---\n", rendered, flags=re.MULTILINE)
    return "".join(f"---\n{each.rstrip()}\n" for each in documents if re.search(r"^[^#\s]", each, re.MULTILINE))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helm", type=Path, default=Path("helm"), help="the program (default: that of the PATH)")
    options = parser.parse_args(arguments)
    try:
        MANIFEST.write_text(text(options.helm), encoding="utf-8")
    except (RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Record `kubectl get dtj --watch` as a picture: `uv run python -m tests.docs.record_progress`.

On the cluster of KUBECONFIG, such as the demo's: applies examples/pytorch-digits.yaml with more epochs, deletes a
worker on the way, and has Rich draw what kubectl printed, each line with the second in which it came, to
docs/images/progress.svg.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

import yaml
from rich.console import Console

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "pytorch-digits.yaml"
PICTURE = REPOSITORY / "docs" / "images" / "progress.svg"
EPOCHS = 200
LINES_BEFORE_THE_LOSS = 6
PATIENCE_SECONDS = 240
NAME = "digits"


def main() -> None:
    lines: list[str] = []
    manifest = yaml.safe_load(EXAMPLE.read_text())
    command = manifest["spec"]["template"]["spec"]["containers"][0]["command"]
    command[:] = [f"--epochs={EPOCHS}" if word.startswith("--epochs=") else word for word in command]
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
    watch = subprocess.Popen(["kubectl", "get", "dtj", "--watch"], stdout=subprocess.PIPE, text=True)
    patience = threading.Timer(PATIENCE_SECONDS, watch.terminate)
    patience.start()
    assert watch.stdout is not None
    began = time.monotonic()
    for line in watch.stdout:
        lines.append(f"{time.monotonic() - began:4.0f} s  {line.rstrip()}")
        if len(lines) == LINES_BEFORE_THE_LOSS:
            kubectl("delete", "pod", f"{NAME}-worker-1", "--wait=false")
            lines.append("        # somebody deletes a worker: kubectl delete pod digits-worker-1")
        if f"{NAME} " in line and ("Succeeded" in line or "Failed" in line):
            break
    patience.cancel()
    watch.terminate()
    kubectl("delete", "dtj", NAME)
    console = Console(record=True, width=max(map(len, lines)) + 2, file=sys.stderr)
    console.print("$ kubectl get dtj --watch", *lines, sep="\n", markup=False, highlight=False)
    console.save_svg(str(PICTURE), title="kubectl get dtj --watch")


def kubectl(*arguments: str, stdin: str | None = None) -> None:
    subprocess.run(["kubectl", *arguments], input=stdin, text=True, check=True, timeout=60)


if __name__ == "__main__":
    main()

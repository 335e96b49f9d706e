"""Train the digits example on the cluster of KUBECONFIG, and show it: `make demo`.

Installs the operator by its chart, applies examples/pytorch-digits.yaml, and follows phase, pods and rank 0's output
until the job is complete. Needs only kubectl and helm on the PATH.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
CHART = REPOSITORY / "helm" / "dtj-operator"
MANIFEST = REPOSITORY / "examples" / "pytorch-digits.yaml"
RELEASE, NAMESPACE, JOB = "dtj", "dtj-system", "digits"
RANK_0 = f"{JOB}-worker-0"
OPERATOR_IMAGE = "docker.io/dtj/operator:dev"
COMMAND_TIMEOUT = 180.0
JOB_TIMEOUT = 600.0
POLL_SECONDS = 1.0


class DemoError(Exception):
    """Something went wrong that the person at the terminal should read."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--image-layout", type=Path, help="OCI layout that the operator's image was loaded from")
    parser.add_argument("--tools", help="shell command that points kubectl and helm at the cluster")
    parser.add_argument("--teardown", default=f"helm uninstall -n {NAMESPACE} {RELEASE}", help="how to clean up")
    options = parser.parse_args()
    try:
        check_tools()
        install_operator(options.image_layout)
        train()
    except DemoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; run it again to start afresh", file=sys.stderr)
        return 130
    say_what_next(options.tools or f"export KUBECONFIG={os.environ.get('KUBECONFIG', '')}", options.teardown)
    return 0


def check_tools() -> None:
    for tool in ("kubectl", "helm"):
        if shutil.which(tool) is None:
            raise DemoError(f"{tool} is not on the PATH; install it, or run without KUBECONFIG: the bed brings its own")
    run("kubectl", "version", "--output=json")


def install_operator(layout: Path | None) -> None:
    settings = []
    if layout is not None:
        # The tag stays the same from build to build; the digest makes a new image a new pod.
        settings = ["--set-string", rf"podAnnotations.dtj\.dev/image-digest={digest_of(layout, OPERATOR_IMAGE)}"]
    clear_interrupted_install()
    with step("helm install"):
        run(
            *("helm", "upgrade", "--install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--create-namespace"),
            *("--wait", "--timeout", "2m", *settings),
        )


def clear_interrupted_install() -> None:
    """A helm that was interrupted leaves the release locked; jobs and CRD stay when the release goes."""
    releases = json.loads(run("helm", "list", "--namespace", NAMESPACE, "--pending", "--output=json"))
    if any(release["name"] == RELEASE for release in releases):
        print("  an earlier helm install was interrupted: removing it first", flush=True)
        run("helm", "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")


def digest_of(layout: Path, reference: str) -> str:
    index = json.loads((layout / "index.json").read_text())
    for manifest in index["manifests"]:
        if manifest["annotations"]["org.opencontainers.image.ref.name"] == reference:
            return str(manifest["digest"])
    raise DemoError(f"{layout} holds no {reference}: run `make images` first")


def train() -> None:
    with step("delete what an earlier demo left"):
        run("kubectl", "delete", "dtj", JOB, "--ignore-not-found", "--cascade=foreground", "--timeout=60s")
    print(f"$ kubectl apply -f {MANIFEST.relative_to(REPOSITORY)}", flush=True)
    run("kubectl", "apply", "-f", str(MANIFEST))
    began = time.monotonic()
    job = follow()
    print(f"  {'train':<36} {time.monotonic() - began:6.1f} s", flush=True)
    print(run("kubectl", "get", "dtj", JOB, "-o", "wide"), run("kubectl", "get", "pods", "-o", "wide"), sep="\n")
    if job["status"]["phase"] != "Succeeded":
        raise DemoError(f"the job failed: {json.dumps(job['status'].get('lastFailure'), indent=2)}")
    accuracy = re.search(r"^test_accuracy=([0-9.]+)", run("kubectl", "logs", RANK_0), re.MULTILINE)
    if accuracy is None:
        raise DemoError(f"the job is complete, but {RANK_0} printed no test_accuracy")
    print(f"Complete. Accuracy on held-out digits: {accuracy[1]}", flush=True)


def follow() -> dict[str, Any]:
    """Print every change of the job and its pods, and rank 0's output as it comes; the finished job."""
    shown = ""
    log: LogFollower | None = None
    deadline = time.monotonic() + JOB_TIMEOUT
    while time.monotonic() < deadline:
        job = json.loads(run("kubectl", "get", "dtj", JOB, "-o", "json"))
        status = job.get("status", {})
        pods = json.loads(run("kubectl", "get", "pods", "-l", f"dtj.dev/job-name={JOB}", "-o", "json"))["items"]
        line = f"  {status.get('phase', 'Pending'):<10} {status.get('ready', '')}  {', '.join(map(pod_line, pods))}"
        if line != shown:
            print(line, flush=True)
            shown = line
        if log is None and any(pod["metadata"]["name"] == RANK_0 and has_started(pod) for pod in pods):
            log = LogFollower(RANK_0)
        if status.get("phase") in {"Succeeded", "Failed"}:
            if log is not None:
                log.wait()
            return dict(job)
        time.sleep(POLL_SECONDS)
    reason = run("kubectl", "get", "dtj", JOB)
    raise DemoError(f"the job is not finished after {JOB_TIMEOUT:.0f} s:\n{reason}")


def pod_line(pod: dict[str, Any]) -> str:
    node = pod["spec"].get("nodeName", "no node yet")
    return f"{pod['metadata']['name']} {pod['status']['phase']} on {node}"


def has_started(pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["phase"] != "Pending")


class LogFollower:
    """Prints a pod's output line by line, beside everything else."""

    def __init__(self, pod: str) -> None:
        self._process = subprocess.Popen(
            ["kubectl", "logs", "--follow", pod], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._thread = threading.Thread(target=self._print, args=(pod,), daemon=True)
        self._thread.start()

    def _print(self, pod: str) -> None:
        for line in self._process.stdout or ():
            print(f"  {pod} | {line.rstrip()}", flush=True)

    def wait(self) -> None:
        """Return when the output has ended, or end it after ten seconds."""
        self._thread.join(10)
        self._process.terminate()
        self._process.wait(10)


def say_what_next(tools: str, teardown: str) -> None:
    print(
        "\nLook further:\n"
        f"  {tools}\n"
        f"  kubectl get dtj {JOB} -o yaml       # conditions, counts, times\n"
        f"  kubectl describe dtj {JOB}          # events\n"
        "  kubectl explain dtj.spec             # every field\n"
        f"  kubectl logs -n {NAMESPACE} -l dtj.dev/component=operator --prefix\n"
        f"Tear down:\n  {teardown}",
        flush=True,
    )


def run(*command: str) -> str:
    """Run a command to its end; its output. Raises DemoError with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"{' '.join(command)}: no end after {COMMAND_TIMEOUT:.0f} s") from error
    if done.returncode != 0:
        raise DemoError(f"{' '.join(command)}:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout


@contextmanager
def step(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"  {what:<36} {time.monotonic() - began:6.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""How the commands of a page are typed on a cluster: what is there before them, and what is put for the reader's own.

tests/e2e/test_docs.py does it, page by page and from the top; a block of `sh` is one script, and what a block of
`console` shows is compared with what is printed.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tests.docs.blocks import REPOSITORY, Block, Command
from tests.docs.not_executed import NOT_EXECUTED
from tests.docs.shape import is_like, shows_in_order
from tests.e2e.jobs import SLEEP, job, status_when
from tests.kubectl import Kubectl, eventually

TIMEOUT: Final = 150.0
"""Seconds for one block; what the pages wait for takes less on the bed."""

WITHOUT_CLUSTER: Final = ("dtj ", "uv ")
INSTALLING: Final = ("helm upgrade ", "helm install ")
ONLY_WHEN_INSTALLING: Final = ("--install", "--create-namespace", "--wait", "--reuse-values")
REPEATABLE: Final = ("kubectl get ", "kubectl logs ")
FAILS: Final = """
import os, signal, sys
if os.environ["DTJ_REPLICA_INDEX"] == sys.argv[1]:
    sys.exit("no such file: /data/train.csv")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
signal.pause()
"""

Prepare = Callable[[Kubectl], None]


def needs_no_cluster(command: Command) -> bool:
    return command.text.startswith(WITHOUT_CLUSTER)


def example(kubectl: Kubectl) -> None:
    """The example that `make demo` applies."""
    for document in yaml.safe_load_all((REPOSITORY / "examples" / "pytorch-digits.yaml").read_text()):
        kubectl.apply(document)


def crashing(kubectl: Kubectl) -> None:
    """A job whose worker 1 does not find its data."""
    kubectl.apply(job("crash", ["python", "-c", FAILS, "1"]))


def failed(kubectl: Kubectl) -> None:
    """A job named `troubled` that has failed, the pod of its worker 0 kept."""
    kubectl.apply(job("troubled", ["python", "-c", FAILS, "0"], max_restarts=0))
    status_when(kubectl, "troubled", "Failed")


def one_of_each(kubectl: Kubectl) -> None:
    """A job that restarts, one that runs, one for which there are no nodes, and one that is suspended."""
    kubectl("delete", "dtj", "--all")
    many = job("many-gpus", SLEEP, resources={"limits": {"nvidia.com/gpu": 512}})
    paused = job("paused", SLEEP)
    paused["spec"]["suspend"] = True
    for manifest in (many, paused):
        kubectl.apply(manifest)
    crashing(kubectl)
    example(kubectl)


PREPARED: Final[dict[str, dict[str, Prepare]]] = {
    "README.md": {"Quick start": example, "A job in `kubectl get dtj`": one_of_each},
    "docs/frameworks/custom.md": {},
    "docs/operations.md": {},
    "docs/quick-start.md": {"When a worker fails": crashing},
    "docs/troubleshooting.md": {"Troubleshooting, by symptom": failed},
}
"""The pages whose commands are typed on a cluster, with what is prepared for those below a heading."""


@dataclass(frozen=True)
class Shell:
    """A shell in the root of the repository; ``words`` of the pages stand for others here."""

    environment: Mapping[str, str]
    words: Mapping[str, str]

    def execute(self, block: Block) -> None:
        """Type the block's commands; AssertionError where one fails or prints something else than is shown."""
        commands = [each for each in block.commands if each.text not in NOT_EXECUTED and not needs_no_cluster(each)]
        if block.language == "console":
            for command in commands:
                self._show(command, block)
        elif commands:
            done = self._run("\n".join(each.text for each in commands))
            assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"

    def _show(self, command: Command, block: Block) -> None:
        if "--watch" in command.text:
            printed = self._watch(command)
        elif command.text.startswith(REPEATABLE):
            printed = eventually(lambda: self._run(command.text).stdout, lambda out: is_like(out, command.output))
        else:
            done = self._run(command.text)
            assert done.returncode == 0, f"{block}: {done.stderr}"
            printed = done.stdout
        like = shows_in_order if "--watch" in command.text else is_like
        assert like(printed, command.output), f"{block}: `{command.text}` printed\n{printed}"

    def _watch(self, command: Command) -> str:
        """What is printed until all that is shown was; what came so far when it does not come in time."""
        printed = ""
        with subprocess.Popen(
            ["bash", "-c", self._here(command.text)],
            cwd=REPOSITORY,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as watch:
            patience = threading.Timer(TIMEOUT, watch.terminate)
            patience.start()
            assert watch.stdout is not None
            for line in watch.stdout:
                printed += line
                if shows_in_order(printed, command.output):
                    break
            patience.cancel()
            watch.terminate()
        return printed

    def _run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._here(script)],
            cwd=REPOSITORY,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )

    def _here(self, script: str) -> str:
        script = rendering(script)
        for word, other in self.words.items():
            script = script.replace(word, other)
        return script


def rendering(script: str) -> str:
    """A script that renders the chart where this one would install it: names, values and files must be right.

    The release that the tests use stays as it is; other tests install, upgrade and remove releases.
    """
    lines = script.replace("\\\n", " ").splitlines() if any(word in script for word in INSTALLING) else [script]
    return "\n".join(_rendered(line) if line.startswith(INSTALLING) else line for line in lines)


def _rendered(line: str) -> str:
    words = [word for word in line.split()[2:] if word not in ONLY_WHEN_INSTALLING]
    return " ".join(["helm", "template", *words, "--kube-version", "1.30", ">", os.devnull])


def shell(programs: list[Path], kubeconfig: Path, words: Mapping[str, str]) -> Shell:
    """A shell that finds the ``programs`` in front of all others, and the cluster of ``kubeconfig``."""
    folders = os.pathsep.join(str(program.parent) for program in programs)
    environment = {**os.environ, "PATH": f"{folders}{os.pathsep}{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig)}
    return Shell(environment, words)

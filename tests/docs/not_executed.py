"""The commands of the pages that no test types as they are, why not, and what checks them instead."""

from dataclasses import dataclass
from typing import Final

import dtj


@dataclass(frozen=True)
class Elsewhere:
    """Why a command is not executed, and the file of the repository, or the target of make, that checks it instead."""

    reason: str
    checked_by: str


RELEASED: Final = f"registry.example/team/dtj-operator:{dtj.__version__}"

WHOLE_RUN: Final = Elsewhere("it is the whole run that the tests are a part of, or makes its cluster", "make test")
TEST_BED: Final = Elsewhere("it acts on the demo's cluster; the tests have one of their own", "tests/e2e/test_bed.py")
DOCKER: Final = Elsewhere("Docker is not at hand; buildah builds from the same files", "trainer_images/build.py")
REGISTRY: Final = Elsewhere("there is no image registry at hand", "trainer_images/build.py")
KIND: Final = Elsewhere("kind needs Docker; the bed loads the same images", "tests/cluster/images.py")
DEMO_ELSEWHERE: Final = Elsewhere("the demo on a cluster that exists", "tests/e2e/test_training.py")
SCAN: Final = Elsewhere("what the index tells changes every day; make test runs it where it is told", "make scan")
OWN_PORT: Final = Elsewhere("it takes a port of the reader's machine", "tests/api/operator/test_metrics.py")
BENCHMARK: Final = Elsewhere("it takes hours of a machine that does nothing else", "tests/unit/bench/test_scenarios.py")
DEBUGGING: Final = Elsewhere("the endpoint is off in the release", "tests/api/operator/test_logs_and_debug.py")
MANIFEST: Final = Elsewhere("the chart is installed already", "tests/e2e/test_uninstall.py")
UNINSTALL: Final = Elsewhere("the other tests need the release", "tests/e2e/test_uninstall.py")


def _trained(example: str, by: str) -> dict[str, Elsewhere]:
    """The three commands that run an example which another test trains from the same manifest."""
    elsewhere = Elsewhere("the same manifest is trained by a test that looks closer at what it prints", by)
    commands = (
        f"kubectl apply -f examples/{example}.yaml",
        f"kubectl wait --for=jsonpath='{{.status.completionTime}}' dtj/{example} --timeout=10m",
        f"kubectl logs {example}-worker-0 | tail -1",
    )
    return dict.fromkeys(commands, elsewhere)


NOT_EXECUTED: Final[dict[str, Elsewhere]] = {
    "make demo": WHOLE_RUN,
    "make test": WHOLE_RUN,
    'eval "$(python3 -m tests.cluster env)"': TEST_BED,
    "make down": TEST_BED,
    "docker build -f operator/Dockerfile -t dtj/operator:dev .": DOCKER,
    "docker build -f trainer_images/pytorch/Dockerfile -t dtj/pytorch:dev .": DOCKER,
    f"docker build -f operator/Dockerfile -t {RELEASED} .": DOCKER,
    f"docker push {RELEASED}": REGISTRY,
    "kind load docker-image dtj/operator:dev dtj/pytorch:dev": KIND,
    "KUBECONFIG=~/.kube/config make demo": DEMO_ELSEWHERE,
    "make scan": SCAN,
    "make bench": BENCHMARK,
    'make bench BENCH_OPTIONS="--scenarios A,B --scale 0.1 --repetitions 3"': BENCHMARK,
    "SCAN_SERVICE=osv make scan": SCAN,
    "kubectl -n dtj-system port-forward deployment/dtj-operator 8080 &": OWN_PORT,
    "curl localhost:8080/metrics": OWN_PORT,
    "kubectl -n dtj-system exec deploy/dtj-operator -- dtj operator debug": DEBUGGING,
    "kubectl -n dtj-system exec deploy/dtj-operator -- dtj operator debug team-a/digits": DEBUGGING,
    "kubectl apply --server-side -f helm/dtj-operator.yaml": MANIFEST,
    "helm rollback dtj --namespace dtj-system --wait": UNINSTALL,
    "helm uninstall dtj --namespace dtj-system": UNINSTALL,
    **_trained("pytorch-torchrun", "tests/e2e/test_frameworks.py"),
    **_trained("horovod-digits", "tests/e2e/test_frameworks.py"),
    **_trained("jax-digits", "tests/e2e/test_frameworks.py"),
    **_trained("tensorflow-digits", "tests/e2e/test_tensorflow.py"),
}

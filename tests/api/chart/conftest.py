"""The chart, rendered by the real helm."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dtj.api import crd
from tests.api.resource import REPOSITORY
from tests.cluster import build

CHART = (REPOSITORY / crd.CHART_FILE).parents[1]
VALUES = Path(__file__).parent / "values"
EVERYTHING = f"--values={VALUES / 'everything.yaml'}"
NAMESPACED = f"--values={VALUES / 'namespaced.yaml'}"
BARE = f"--values={VALUES / 'bare.yaml'}"
SELFTEST = "templates/tests/selftest.yaml"
RELEASE = "dtj"
TIMEOUT = 60.0

Manifest = dict[str, Any]


class Objects(list[Manifest]):
    """What a chart rendered, in its order."""

    def all(self, kind: str) -> list[Manifest]:
        return [each for each in self if each["kind"] == kind]

    def the(self, kind: str, name: str | None = None) -> Manifest:
        """The one object of a kind, or of a kind and a name."""
        found = [each for each in self.all(kind) if name in {None, each["metadata"]["name"]}]
        assert len(found) == 1, f"{len(found)} objects {kind} {name or ''}"
        return found[0]


Render = Callable[..., Objects]


@dataclass(frozen=True)
class Helm:
    """helm, without a cluster."""

    program: Path
    namespace: str

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *arguments, "--namespace", self.namespace]
        return subprocess.run(command, text=True, capture_output=True, timeout=TIMEOUT, check=False)

    def template(self, *options: str, release: str = RELEASE) -> str:
        done = self.run("template", release, str(CHART), *options)
        assert done.returncode == 0, f"helm template {' '.join(options)}: {done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def helm(namespace: str) -> Helm:
    return Helm(find_helm(), namespace)


def find_helm() -> Path:
    on_path = shutil.which("helm")
    if on_path is not None and not build.HELM.is_built():
        return Path(on_path)
    build.require([build.HELM])
    return build.HELM.directory() / "helm"


@pytest.fixture
def rendered(helm: Helm) -> Render:
    """Return the manifests that the chart installs, for the options of ``helm template``."""

    def render(*options: str, release: str = RELEASE) -> Objects:
        return parsed(helm.template("--no-hooks", *options, release=release))

    return render


def parsed(text: str) -> Objects:
    return Objects(each for each in yaml.load_all(text, yaml.CSafeLoader) if each)  # the definition is long


def operator_container(objects: Objects) -> Manifest:
    (container,) = objects.the("Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(container)


def granted(rules: list[Manifest]) -> dict[tuple[str, str], set[str]]:
    """Verbs by API group and resource. Rules that hold for some names only are none of these."""
    rights: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}, rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                rights.setdefault((group, resource), set()).update(rule["verbs"])
    return rights

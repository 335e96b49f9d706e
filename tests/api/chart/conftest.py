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
RELEASE = "dtj"
TIMEOUT = 60.0

Manifest = dict[str, Any]


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
    on_path = shutil.which("helm")
    if on_path is not None and not build.HELM.is_built():
        return Helm(Path(on_path), namespace)
    build.require([build.HELM])
    return Helm(build.HELM.directory() / "helm", namespace)


@pytest.fixture
def rendered(helm: Helm) -> Callable[..., dict[str, Manifest]]:
    """Return the manifests of the chart by kind, for the options of ``helm template``."""

    def render(*options: str, release: str = RELEASE) -> dict[str, Manifest]:
        text = helm.template(*options, release=release)
        manifests = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]  # the definition is long
        by_kind = {each["kind"]: each for each in manifests}
        assert len(by_kind) == len(manifests), "the chart has two objects of one kind: name them apart here"
        return by_kind

    return render

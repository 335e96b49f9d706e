"""The operator's release makes room for an older one, or for none, and comes back: nothing is stuck, nothing is lost.

This comes after the look at the operator's rights, because here they are taken away while it still runs.
"""

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.jobs import SLEEP, job, pods, status_when
from tests.e2e.operator import CHART, RELEASE, Installed
from tests.e2e.steady import Steady
from tests.kubectl import Kubectl, eventually

PREVIOUS = Path(__file__).parent / "charts" / "dtj-operator-0.3.0.tgz"
MANIFEST = CHART.with_suffix(".yaml")
SHARED = ("CustomResourceDefinition", "Namespace")
"""What belongs to the jobs and to the other tests as well."""

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.conclusion]


def test_to_the_previous_version_and_back(installed: Installed, kubectl: Kubectl) -> None:
    steady = Steady(kubectl)
    installed.install(chart=PREVIOUS)
    steady.assert_untouched()
    kubectl.apply(job("older", ["true"], replicas=1))
    status_when(kubectl, "older", "Succeeded")

    installed.run_helm("rollback", RELEASE, "--wait")
    assert "dtj-operator-0.3.0" not in installed.run_helm("history", RELEASE, "--max=1")
    steady.assert_untouched()
    kubectl.apply(job("newer", ["true"], replicas=1))
    status_when(kubectl, "newer", "Succeeded")

    assert steady.end()["attempt"] == 0


def test_uninstalled_and_installed_again(installed: Installed, kubectl: Kubectl) -> None:
    steady = Steady(kubectl)
    kubectl.apply(job("unwanted", SLEEP, replicas=1))
    status_when(kubectl, "unwanted", "Running")

    installed.run_helm("uninstall", RELEASE, "--wait")

    eventually(lambda: installed.own("get", "all", "-o", "name").split(), lambda left: left == [])
    kubectl("delete", "dtj", "unwanted", "--timeout=50s")
    eventually(lambda: pods(kubectl, "unwanted"), lambda found: found == [], within=90)
    kubectl.apply(job("waiting", ["true"], replicas=1))
    steady.assert_untouched()

    installed.install()
    status_when(kubectl, "waiting", "Succeeded")
    steady.assert_untouched()
    status = steady.end()
    assert (status["attempt"], status.get("restarts", 0)) == (0, 0)


def test_one_manifest_does_without_helm(installed: Installed, kubectl: Kubectl) -> None:
    installed.run_helm("uninstall", RELEASE, "--wait")
    try:
        installed.own("apply", "--server-side", "-f", str(MANIFEST))
        installed.own("rollout", "status", "deployment/dtj-operator", "--timeout=50s")
        kubectl.apply(job("plain", ["true"]))
        status_when(kubectl, "plain", "Succeeded")
    finally:
        documents = yaml.load_all(MANIFEST.read_text(), yaml.CSafeLoader)
        ours = [each for each in documents if each["kind"] not in SHARED]
        installed.own("delete", "--ignore-not-found", "-f", "-", stdin="\n---\n".join(map(json.dumps, ours)))
        eventually(lambda: installed.own("get", "all", "-o", "name").split(), lambda left: left == [])
        installed.install()

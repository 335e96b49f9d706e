"""Values of the chart: each is documented, and mistakes are refused."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.api.chart.conftest import BARE, CHART, EVERYTHING, NAMESPACED, Helm

pytestmark = pytest.mark.api

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
KEY = re.compile(r"^( *)(\w+):", re.ASCII)

REFUSED = {
    "an unknown value": ("--set=replica=3", "additional properties 'replica' not allowed"),
    "a misspelt value": ("--set=image.digset=sha256:0", "additional properties 'digset' not allowed"),
    "a tag that is a number": ("--set=image.tag=1", "at '/image/tag': got number, want string"),
    "an empty tag": ("--set=image.tag=", "at '/image/tag'"),
    "a digest cut short": ("--set=image.digest=sha256:abc", "at '/image/digest'"),
    "a tag in the repository's place": ("--set=image.repository=a@sha256:0", "at '/image/repository'"),
    "an unknown pull policy": ("--set=image.pullPolicy=Sometimes", "at '/image/pullPolicy'"),
    "no operator": ("--set=replicas=0", "at '/replicas'"),
    "half an operator": ("--set-json=replicas=1.5", "at '/replicas': got number, want integer"),
    "a namespace for a list": ("--set=watchNamespaces=team-a", "at '/watchNamespaces': got string, want array"),
    "a namespace that cannot be": ("--set=watchNamespaces={Team_A}", "at '/watchNamespaces/0'"),
    "a namespace twice": ("--set=watchNamespaces={a,a}", "at '/watchNamespaces'"),
    "a word for nodes": ("--set-string=watchNodes=false", "at '/watchNodes': got string, want boolean"),
    "an unknown form of logs": ("--set=logFormat=xml", "at '/logFormat'"),
    "a word for a number": ("--set=operator.rate=fast", "at '/operator/rate': got string, want number"),
    "no requests at all": ("--set=operator.rate=0", "at '/operator/rate'"),
    "half a request": ("--set=operator.burst=0.5", "at '/operator/burst'"),
    "a word for a truth": ("--set-string=operator.verbose=true", "at '/operator/verbose': got string, want boolean"),
    "a definition that is no truth": ("--set=crds.install=keep", "at '/crds/install': got string, want boolean"),
    "an unknown right": ("--set=rbac.cluster=true", "additional properties 'cluster' not allowed"),
    "annotations instead of a truth": ("--set=metrics.annotations.a=b", "at '/metrics/annotations': got object"),
    "an unknown value of the metrics": ("--set=metrics.port=9090", "additional properties 'port' not allowed"),
    "an interval without a unit": ("--set-string=serviceMonitor.interval=30", "at '/serviceMonitor/interval'"),
    "a label of the rules that is no text": ("--set=prometheusRule.labels.a=1", "at '/prometheusRule/labels/a'"),
    "a label of the dashboard that is no text": ("--set=dashboard.labels.a=1", "at '/dashboard/labels/a'"),
    "a word for a dashboard": ("--set-string=dashboard.enabled=yes", "at '/dashboard/enabled'"),
    "an address without a mask": (
        "--set=networkPolicy.apiServer.cidrs={10.0.0.1}",
        "at '/networkPolicy/apiServer/cidrs",
    ),
    "no port of the API server": ("--set-json=networkPolicy.apiServer.ports=[]", "at '/networkPolicy/apiServer/ports'"),
    "a peer that chooses nobody": ("--set-json=networkPolicy.metricsFrom=[{}]", "at '/networkPolicy/metricsFrom/0'"),
    "a budget that lets nothing go": ("--set=podDisruptionBudget.maxUnavailable=0", "at '/podDisruptionBudget/max"),
    "a budget of no pods": ("--set=podDisruptionBudget.maxUnavailable=few", "at '/podDisruptionBudget/maxUnavailable'"),
    "no account to use": ("--set=serviceAccount.create=false", "at '/serviceAccount/name'"),
    "the account of every pod": ("--set=serviceAccount.name=default", "at '/serviceAccount/name': 'not' failed"),
    "the account of every pod, which exists": (
        "--set=serviceAccount.create=false,serviceAccount.name=default",
        "at '/serviceAccount/name': 'not' failed",
    ),
    "a list for a map": ("--set=nodeSelector[0]=gpu", "at '/nodeSelector': got array, want object"),
    "an unknown toleration": ("--set=tolerations[0].effects=NoSchedule", "additional properties 'effects' not allowed"),
    "a constraint without a key": ("--set=topologySpreadConstraints[0].maxSkew=1", "at '/topologySpreadConstraints/0'"),
    "a variable without a name": ("--set=extraEnv[0].value=1", "at '/extraEnv/0': missing property 'name'"),
    "a variable of the chart's own": (
        "--set=extraEnv[0].name=DTJ_POD_NAME,extraEnv[0].value=a",
        "at '/extraEnv/0/name': 'not' failed",
    ),
    "a mount without a path": ("--set=extraVolumeMounts[0].name=a", "missing property 'mountPath'"),
    "resources of a claim": ("--set=resources.request.cpu=1", "additional properties 'request' not allowed"),
    "a name that is too long": (f"--set=fullnameOverride={'a' * 54}", "at '/fullnameOverride'"),
}


def described(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Each value with its description, groups of values included."""
    for name, value in schema.get("properties", {}).items():
        yield ".".join((*path, name)), value.get("description", "")
        yield from described(value, (*path, name))


def commented() -> set[str]:
    """Paths in values.yaml with a comment right above them."""
    paths, above, parents = set(), "", [""]
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        if key := KEY.match(line):
            depth = len(key[1]) // 2
            parents[depth:] = [key[2]]
            if above.lstrip().startswith("#"):
                paths.add(".".join(parents))
        above = line
    return paths


def has_default(path: str) -> bool:
    node: Any = DEFAULTS
    for name in path.split("."):
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    return True


@pytest.mark.parametrize(("path", "description"), list(described(SCHEMA)))
def test_each_value_is_described(path: str, description: str) -> None:
    assert description.endswith("."), f"values.schema.json: {path}"


@pytest.mark.parametrize("path", [path for path, _ in described(SCHEMA) if has_default(path)])
def test_each_value_is_documented_beside_its_default(path: str) -> None:
    assert path in commented(), f"values.yaml: {path}"


def test_each_value_has_a_default() -> None:
    without = {path for path, _ in described(SCHEMA) if not has_default(path)}
    assert without == {"global", "affinity.nodeAffinity", "affinity.podAffinity", "affinity.podAntiAffinity"}


@pytest.mark.parametrize("options", [(), (EVERYTHING,), (NAMESPACED,), (BARE,)], ids=lambda given: str(given)[-18:])
def test_it_passes_helm_lint(helm: Helm, options: tuple[str, ...]) -> None:
    done = helm.run("lint", "--strict", str(CHART), *options)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("option", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_mistakes_in_values_are_refused(helm: Helm, option: str, message: str) -> None:
    done = helm.run("template", "dtj", str(CHART), option)
    assert done.returncode != 0
    assert message in done.stderr

"""Metrics as a real Prometheus reads them: each query of the dashboard has an answer, and the right one."""

import http.client
import json
import random
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from dtj.api import crd, names
from tests.api.fake_agent import FakeAgent, fake_agent
from tests.api.operator.auditing_proxy import AuditingProxy
from tests.api.operator.polling import eventually
from tests.api.operator.process import Operator
from tests.api.operator.scene import Scene, worker, workers
from tests.api.resource import REPOSITORY, Resource
from tests.cluster import prometheus

pytestmark = pytest.mark.api

CHART = (REPOSITORY / crd.CHART_FILE).parents[1]
DASHBOARD = json.loads((CHART / "dashboards" / "dtj.json").read_text(encoding="utf-8"))
QUERIES = sorted({target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())})
SCRAPE_SECONDS = 1
RANGE = "1m"
TIMEOUT = 10.0

TRAINING = "training"
BROKEN = "broken"
VARIABLES = {each["name"]: each.get("definition", "") for each in DASHBOARD["templating"]["list"]}


def scraping(target: str) -> dict[str, Any]:
    """Settings of Prometheus, with labels that a scraper in a cluster usually adds: they must not hide ours."""
    added = {"namespace": "dtj-system", "pod": "operator"}
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"},
        "scrape_configs": [{"job_name": "pods", "static_configs": [{"targets": [target], "labels": added}]}],
    }


@dataclass(frozen=True)
class Prometheus:
    """A real one that scrapes the operator."""

    address: str

    @property
    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=TIMEOUT) as response:
                return bool(response.status == http.client.OK)
        except (urllib.error.URLError, ConnectionError):
            return False

    def ask(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - JSON
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            pytest.fail(f"{parameters}: {error.read().decode()}", pytrace=False)

    def query(self, text: str) -> list[dict[str, Any]]:
        """Labels and values at this moment."""
        return list(self.ask("query", query=text)["result"])

    def value(self, text: str) -> float | None:
        """The one value, if there is one."""
        found = self.query(text)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None


def with_variables(query: str, namespace: str) -> str:
    """The query as Grafana sends it with one job chosen."""
    values = {"$namespace": namespace, "$job": TRAINING, "$metric": "loss", "$__rate_interval": RANGE}
    for variable, value in values.items():
        query = query.replace(variable, value)
    assert "$" not in query, query
    return query


@pytest.fixture(scope="module")
def scraper(module_operator: Operator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Ready, and scraping the operator whenever that runs."""
    directory = tmp_path_factory.mktemp("prometheus")
    settings = directory / "prometheus.yml"
    settings.write_text(yaml.safe_dump(scraping(f"127.0.0.1:{module_operator.health_port}")))
    address = f"127.{random.randint(1, 250)}.{random.randint(0, 250)}.{random.randint(1, 250)}:9090"  # noqa: S311
    command = [str(prometheus.program()), f"--config.file={settings}", f"--storage.tsdb.path={directory / 'data'}"]
    with (directory / "log").open("w") as log:
        own = Prometheus(address)
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
        try:
            eventually("Prometheus is ready", lambda: process.poll() is not None or own.is_ready, bool)
            assert process.poll() is None, (directory / "log").read_text()
            yield own
        finally:
            process.terminate()
            process.wait(TIMEOUT)


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as own:
        yield own


def train_with_a_restart(scene: Scene, agent: FakeAgent) -> None:
    """A job in its second attempt, with progress, lost steps and a slowest rank; a worker of the first failed."""
    scene.submit({"metadata.name": TRAINING, "spec.progress": {"intervalSeconds": 1}})
    run(scene, agent, 0, step=50, firstStep=1)
    scene.kubelet.fail(worker(1, TRAINING), 3)
    scene.status_where("the second attempt", lambda status: status.get("attempt") == 1, job=TRAINING)
    run(scene, agent, 1, step=41, firstStep=41)


def run(scene: Scene, agent: FakeAgent, attempt: int, **steps: int) -> None:
    pods = [worker(index, TRAINING, attempt=attempt) for index in range(2)]
    eventually("the pods are there", lambda: list(scene.all_of("pods")), lambda there: {*pods} <= {*there})
    scene.kubelet.run(*pods)
    scene.patch_status("pods", pods[0], {"podIP": agent.address})
    slowest = {"rank": 1, "behindSteps": 2, "localSeconds": 0.5, "typicalLocalSeconds": 0.25}
    agent.reports(
        scene.read(names.PLURAL, TRAINING),
        attempt,
        **{"totalSteps": 100, "stepsPerSecond": 2.0, "samplesPerSecond": 64.0, "epoch": 3, "stepAge": 0.5, **steps},
        metrics={"loss": 0.25, "accuracy": 0.75},
        ranks={"reporting": 2, "slowest": slowest},
    )
    scene.status_where(
        f"progress of attempt {attempt}",
        lambda status: status.get("progress", {}).get("attempt") == attempt,
        job=TRAINING,
        within=60,
    )


def fail_at_once(scene: Scene) -> None:
    scene.submit({"metadata.name": BROKEN, "spec.failurePolicy.maxRestarts": 0})
    pods = [worker(index, BROKEN) for index in range(2)]
    eventually("the pods are there", lambda: list(scene.all_of("pods")), lambda there: {*pods} <= {*there})
    scene.kubelet.run(*pods)
    scene.kubelet.fail(pods[0], 1)
    scene.status_in("Failed", job=BROKEN)


def test_every_query_of_the_dashboard_has_an_answer(scene: Scene, scraper: Prometheus, agent: FakeAgent) -> None:
    # Before anything is counted: what was 1 when it was first read is no increase.
    eventually("the operator is scraped", lambda: scraper.value("dtj_build_info"), lambda value: value == 1)
    train_with_a_restart(scene, agent)
    fail_at_once(scene)

    def unanswered() -> list[str]:
        return [query for query in QUERIES if not scraper.query(with_variables(query, scene.namespace))]

    eventually("every query has an answer", unanswered, lambda left: not left)

    own = f'job_namespace="{scene.namespace}",job_name="{TRAINING}"'
    values = {
        f"dtj_job_progress_ratio{{{own}}}": 0.41,
        f"dtj_job_lost_steps_total{{{own}}}": 10.0,
        f"dtj_job_lost_steps_total{{{own}}} / dtj_job_steps_per_second{{{own}}}": 5.0,
        f"dtj_job_restarts_total{{{own}}}": 1.0,
        f'dtj_job_metric{{{own},metric="loss"}}': 0.25,
        f'dtj_job_pods{{{own},state="running"}}': 2.0,
        f'dtj_job_phase{{{own},phase="Running"}}': 1.0,
        f'dtj_jobs{{job_namespace="{scene.namespace}",phase="Failed"}}': 1.0,
        f'count(dtj_job_info{{job_namespace="{scene.namespace}"}})': 1.0,
    }
    eventually(
        "the values are these", lambda: {query: scraper.value(query) for query in values}, lambda now: now == values
    )
    (info,) = scraper.query(f"dtj_job_info{{{own}}}")
    assert (info["metric"]["framework"], info["metric"]["namespace"]) == ("PyTorch", "dtj-system")
    assert not scraper.query('{__name__=~".+",exported_job=~".+"}')
    assert not scraper.query('{__name__=~".+",exported_namespace=~".+"}')


def test_what_a_restart_counts(scene: Scene, scraper: Prometheus, agent: FakeAgent) -> None:
    counted = (
        'dtj_attempts_started_total{cause="first"}',
        'dtj_attempts_started_total{cause="failure"}',
        'dtj_recovery_seconds_count{class="Application"}',
        "dtj_start_seconds_count",
    )
    before = {query: scraper.value(query) or 0 for query in counted}
    train_with_a_restart(scene, agent)

    after = {query: before[query] + 1 for query in counted}
    eventually("they are counted", lambda: {query: scraper.value(query) for query in after}, lambda now: now == after)
    assert scraper.value("controller_runtime_reconcile_panics_total") == 0
    seen = [
        'sum(controller_runtime_reconcile_total{controller="distributedtrainingjob"})',
        "controller_runtime_reconcile_time_seconds_count",
        "workqueue_adds_total",
        "workqueue_retries_total",
        "workqueue_queue_duration_seconds_count",
        "workqueue_work_duration_seconds_count",
        'sum(rest_client_requests_total{method="POST",code="201"})',
        'sum(rest_client_requests_total{method="PATCH",code="200"})',
        'sum(rest_client_requests_total{method="GET",code="200"})',
        "sum(python_gc_collections_total)",
    ]
    assert {query: value for query in seen if not (value := scraper.value(query))} == {}


def page(operator: Operator) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.health_port}/metrics", timeout=TIMEOUT) as response:
        return str(response.read().decode())


def test_of_two_replicas_the_one_that_leads_tells_of_the_jobs(
    resource: Resource, proxy: AuditingProxy, tmp_path: Path
) -> None:
    kubeconfig, lease = proxy.write_kubeconfig(tmp_path / "kubeconfig"), f"dtj-{uuid4().hex[:8]}"
    options = ("--leader-elect", "--lease-namespace=default", f"--lease-name={lease}")
    status = f'leader_election_master_status{{name="{lease}"}}'

    def tells(operator: Operator) -> tuple[bool, bool, bool]:
        """Whether it says that it leads, that it stands by, and whether it tells of the jobs."""
        text = page(operator)
        return f"{status} 1.0" in text, f"{status} 0.0" in text, "\ndtj_jobs_left_out{" in text

    with (
        Operator(kubeconfig, tmp_path / "first", *options) as first,
        Operator(kubeconfig, tmp_path / "second", *options) as second,
    ):
        first.start()
        first.wait_until_ready()
        eventually("the first leads", lambda: tells(first), lambda now: now == (True, False, True))
        second.start()
        second.wait_until_ready()
        assert tells(second) == (False, True, False)
        first.terminate()
        eventually("the second leads", lambda: tells(second), lambda now: now == (True, False, True))


def test_what_the_variables_of_the_dashboard_offer(scene: Scene, scraper: Prometheus, agent: FakeAgent) -> None:
    train_with_a_restart(scene, agent)

    def offered() -> dict[str, list[str]]:
        return {name: offers(scraper, query, scene.namespace) for name, query in VARIABLES.items() if query}

    expected = {"namespace": [scene.namespace], "job": [TRAINING], "metric": ["accuracy", "loss"]}
    eventually("the variables offer this", offered, lambda now: {**now, "namespace": [scene.namespace]} == expected)
    assert scene.namespace in offered()["namespace"]


def test_the_documented_queries_are_understood(scraper: Prometheus) -> None:
    page = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| [^|]+\? \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(documented) > 3
    for query in documented:
        scraper.query(query)


def offers(scraper: Prometheus, query: str, namespace: str) -> list[str]:
    """What Grafana finds for ``label_values(selector, label)``."""
    selector, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(",")
    return list(scraper.ask(f"label/{label.strip()}/values", **{"match[]": with_variables(selector, namespace)}))


def test_a_finished_job_is_told_no_more(scene: Scene, scraper: Prometheus) -> None:
    scene.start()
    own = f'dtj_job_info{{job_namespace="{scene.namespace}"}}'
    eventually("the job is told", lambda: scraper.value(own), lambda value: value == 1)

    before = scraper.value('dtj_jobs_finished_total{result="Succeeded"}') or 0
    scene.kubelet.succeed(*workers(2))
    scene.status_in("Succeeded")

    eventually("it is told no more", lambda: scraper.value(own), lambda value: value is None)
    counted = {
        'dtj_jobs_finished_total{result="Succeeded"}': before + 1,
        f'dtj_jobs{{job_namespace="{scene.namespace}",phase="Succeeded"}}': 1.0,
    }
    eventually("it is counted", lambda: {query: scraper.value(query) for query in counted}, lambda now: now == counted)

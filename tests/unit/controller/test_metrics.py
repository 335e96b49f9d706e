"""Metrics: the state of each unfinished job, counts of all, and nothing that a strange status could break."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dtj.api.status import MAX_METRICS, Phase
from dtj.controller.instruments import Instruments
from dtj.controller.jobs import JobStore
from dtj.controller.metrics import ALL, MAX_JOBS, MAX_LABEL, job_metrics
from dtj.controller.scrape import REUSED_FOR, MetricsPage
from dtj.controller.tally import Tally
from tests.builders import NOW, JobBuilder, a_job, ago, rfc3339

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs/metrics.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((REPOSITORY / "helm/dtj-operator/dashboards/dtj.json").read_text(encoding="utf-8"))
OF_PROCESSES = {"process_cpu_seconds_total", "process_resident_memory_bytes", "python_gc_collections_total"}
JOB_COUNTS = ("dtj_jobs", "dtj_jobs_left_out")

RUNNING: dict[str, Any] = {
    "phase": "Running",
    "startTime": rfc3339(ago(600)),
    "attempt": 2,
    "restarts": 1,
    "disruptions": 1,
    "conditions": [{"type": "Running", "status": "True"}],
    "roles": [
        {"name": "master", "replicas": 1, "running": 1},
        {"name": "worker", "replicas": 3, "pending": 1, "running": 1, "succeeded": 0, "failed": 1},
    ],
    "progress": {
        "step": 50,
        "totalSteps": 400,
        "percent": 12,
        "epoch": 1,
        "totalEpochs": 8,
        "stepsPerSecond": 2.5,
        "samplesPerSecond": 80.0,
        "etaSeconds": 150,
        "estimatedCompletionTime": rfc3339(ago(-140)),
        "reportTime": rfc3339(ago(4)),
        "lostSteps": 7,
        "slowestRank": {"rank": 3, "behindSteps": 1, "localSeconds": 0.5, "typicalLocalSeconds": 0.25},
        "metrics": [{"name": "loss", "value": 0.25}, {"name": "lr", "value": 1e-05}],
    },
}
TOLD = {
    "dtj_job_info framework=PyTorch": 1.0,
    "dtj_job_phase phase=Running": 1.0,
    "dtj_job_start_time_seconds": NOW.timestamp() - 600,
    "dtj_job_attempt": 2.0,
    "dtj_job_restarts_total": 1.0,
    "dtj_job_disruptions_total": 1.0,
    "dtj_job_pods state=pending": 1.0,
    "dtj_job_pods state=running": 2.0,
    "dtj_job_pods state=succeeded": 0.0,
    "dtj_job_pods state=failed": 1.0,
    "dtj_job_step": 50.0,
    "dtj_job_total_steps": 400.0,
    "dtj_job_epoch": 1.0,
    "dtj_job_progress_ratio": 0.125,
    "dtj_job_steps_per_second": 2.5,
    "dtj_job_samples_per_second": 80.0,
    "dtj_job_eta_seconds": 140.0,
    "dtj_job_report_time_seconds": NOW.timestamp() - 4,
    "dtj_job_progress_stale": 0.0,
    "dtj_job_lost_steps_total": 7.0,
    "dtj_job_slowest_rank_behind_steps": 1.0,
    "dtj_job_slowest_rank_step_seconds": 0.5,
    "dtj_job_typical_rank_step_seconds": 0.25,
    "dtj_job_metric metric=loss": 0.25,
    "dtj_job_metric metric=lr": 1e-05,
}
OF_JOB = {"job_namespace": "team-a", "job_name": "digits"}


def a_raw(status: Any = None, job: JobBuilder | None = None, version: int = 1) -> dict[str, Any]:  # noqa: ANN401 - JSON
    raw = (job or a_job()).raw()
    raw["metadata"]["resourceVersion"] = str(version)
    return raw if status is None else {**raw, "status": status}


def with_progress(**fields: object) -> dict[str, Any]:
    """The running job, its progress changed: a field that is None is not there."""
    progress = {**RUNNING["progress"], **fields}
    return a_raw({**RUNNING, "progress": {name: value for name, value in progress.items() if value is not None}})


def samples_of(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """What Prometheus reads."""
    for family in text_string_to_metric_families(text):
        yield from ((sample.name, sample.labels, sample.value) for sample in family.samples)


def all_told(*jobs: dict[str, Any]) -> list[tuple[str, dict[str, str], float]]:
    return list(samples_of(job_metrics(jobs, NOW)))


def told(*jobs: dict[str, Any]) -> dict[str, float]:
    """Values by name and by the labels beside those of the one job."""
    found = {}
    for name, labels, value in all_told(*jobs):
        if name.startswith("dtj_job_"):
            assert labels.items() >= OF_JOB.items()
            own = [f"{key}={text}" for key, text in labels.items() if key not in OF_JOB]
            found[" ".join([name, *own])] = value
    return found


def counts(*jobs: dict[str, Any]) -> dict[str, float]:
    """Values of ``dtj_jobs`` by phase."""
    return {labels["phase"]: value for name, labels, value in all_told(*jobs) if name == "dtj_jobs"}


def test_a_running_job_is_told_in_full() -> None:
    assert told(a_raw(RUNNING)) == TOLD


def test_a_job_without_progress_tells_none() -> None:
    status = {name: value for name, value in RUNNING.items() if name != "progress"}
    kept = ("info", "phase", "start", "attempt", "restarts", "disruptions", "pods")
    expected = {name: value for name, value in TOLD.items() if name.removeprefix("dtj_job_").startswith(kept)}
    assert told(a_raw(status)) == expected


def test_a_job_that_nobody_has_looked_at_is_told() -> None:
    states = {f"dtj_job_pods state={state}": 0.0 for state in ("pending", "running", "succeeded", "failed")}
    assert told(a_raw()) == {"dtj_job_info framework=PyTorch": 1.0, "dtj_job_phase phase=Unknown": 1.0, **states}


NO_NUMBERS = {
    "a truth": True,
    "a word": "7",
    "a list": [7],
    "an object": {"step": 7},
    "infinite": 1e999,
    "huge": 10**400,
}


@pytest.mark.parametrize("value", NO_NUMBERS.values(), ids=NO_NUMBERS.keys())
def test_what_is_no_number_is_left_out(value: object) -> None:
    names = ("step", "epoch", "stepsPerSecond", "lostSteps", "reportTime", "estimatedCompletionTime", "slowestRank")
    found = told(with_progress(**dict.fromkeys(names, value), metrics=[{"name": "loss", "value": value}]))
    left_out = {
        "dtj_job_step",
        "dtj_job_epoch",
        "dtj_job_steps_per_second",
        "dtj_job_report_time_seconds",
        "dtj_job_eta_seconds",
        "dtj_job_metric metric=loss",
        "dtj_job_metric metric=lr",
        "dtj_job_slowest_rank_behind_steps",
        "dtj_job_slowest_rank_step_seconds",
        "dtj_job_typical_rank_step_seconds",
    }
    assert found == {name: value for name, value in TOLD.items() if name not in left_out} | {
        "dtj_job_progress_ratio": 0.12,  # that of the percent
        "dtj_job_lost_steps_total": 0.0,
    }


RATIOS: dict[str, tuple[dict[str, Any], float | None]] = {
    "finer than the percent": ({"step": 1, "totalSteps": 3, "percent": 33}, 1 / 3),
    "of the percent without a total": ({"step": 1, "totalSteps": None, "percent": 33}, 0.33),
    "of nothing": ({"step": 0, "totalSteps": 0, "percent": 0}, 0.0),
    "not known": ({"step": 1, "totalSteps": None, "percent": None}, None),
    "all": ({"step": 400}, 1.0),
    "beyond all": ({"step": 500}, 1.0),
}


@pytest.mark.parametrize(("fields", "ratio"), RATIOS.values(), ids=RATIOS.keys())
def test_the_share_that_is_done(fields: dict[str, Any], ratio: float | None) -> None:
    assert told(with_progress(**fields)).get("dtj_job_progress_ratio") == ratio


ETAS: dict[str, tuple[object, float | None]] = {
    "counted from now": (rfc3339(ago(-90)), 90.0),
    "never negative": (rfc3339(ago(90)), 0.0),
    "not known": (None, None),
    "no time": ("soon", None),
    "of no time zone": ("2030-01-02T13:00:00", None),
}


@pytest.mark.parametrize(("end", "left"), ETAS.values(), ids=ETAS.keys())
def test_the_time_that_is_left(end: object, left: float | None) -> None:
    assert told(with_progress(estimatedCompletionTime=end)).get("dtj_job_eta_seconds") == left


def test_a_stale_progress_is_marked() -> None:
    assert told(with_progress(stale=True))["dtj_job_progress_stale"] == 1.0


FINISHED = {"Complete": "Succeeded", "Failed": "Failed"}


@pytest.mark.parametrize(("kind", "phase"), FINISHED.items())
def test_finished_jobs_are_only_counted(kind: str, phase: str) -> None:
    job = a_raw({**RUNNING, "phase": phase, "conditions": [{"type": kind, "status": "True"}]})
    assert told(job) == {}
    assert counts(job) == {**{str(each): 0.0 for each in Phase}, phase: 1.0}


def test_jobs_are_counted_by_namespace_and_phase() -> None:
    jobs = [
        a_raw(RUNNING, a_job("one")),
        a_raw(RUNNING, a_job("two")),
        a_raw(None, a_job("three")),
        a_raw(RUNNING, a_job("four").namespace("team-b")),
    ]
    found = {
        (each["job_namespace"], each["phase"]): value for name, each, value in all_told(*jobs) if name == "dtj_jobs"
    }
    assert {key: value for key, value in found.items() if value} == {
        ("team-a", "Running"): 2.0,
        ("team-a", "Unknown"): 1.0,
        ("team-b", "Running"): 1.0,
    }


def test_another_controllers_jobs_are_not_ours() -> None:
    assert all_told(a_raw(RUNNING, a_job().spec(managedBy="example.com/other"))) == [("dtj_jobs_left_out", {}, 0.0)]


def test_of_two_jobs_under_one_name_the_newer_is_told() -> None:
    old, new = a_raw({**RUNNING, "attempt": 9}, version=7), a_raw({**RUNNING, "attempt": 0}, version=30)
    assert told(old, new)["dtj_job_attempt"] == told(new, old)["dtj_job_attempt"] == 0.0


def test_only_so_many_jobs_are_told_one_by_one() -> None:
    jobs = [a_raw({"phase": "Running"}, a_job(f"job-{number}")) for number in range(MAX_JOBS + 3)]
    found = Counter[str]()
    for name, _, value in samples_of(job_metrics(jobs, NOW)):
        found[name] += round(value)
    assert (found["dtj_job_info"], found["dtj_jobs_left_out"], found["dtj_jobs"]) == (MAX_JOBS, 3, MAX_JOBS + 3)


NAMES = {
    "quotes": 'a"b"',
    "backslashes": "a\\n\\",
    "lines": "a\nb",
    "another sample": 'x"} 1\ndtj_jobs{job_namespace="team-b',
    "letters of the world": "потери 損失",
    "nothing": "",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_the_trainings_own_names_cannot_break_the_text(name: str) -> None:
    job = with_progress(metrics=[{"name": name, "value": 1.5}])
    found = [(labels["metric"], value) for told, labels, value in all_told(job) if told == "dtj_job_metric"]
    assert found == [(name, 1.5)]
    assert counts(job).keys() == {str(each) for each in Phase}


def test_names_are_of_bounded_length_and_told_once() -> None:
    long = ["x" * MAX_LABEL + end for end in ("a", "b")]
    job = with_progress(metrics=[{"name": name, "value": value} for value, name in enumerate([*long, "\ud800"])])
    found = {key: value for key, value in told(job).items() if "metric" in key}
    assert found == {f"dtj_job_metric metric={'x' * MAX_LABEL}": 1.0, "dtj_job_metric metric=?": 2.0}


def test_no_more_numbers_of_the_training_than_a_status_may_have() -> None:
    job = with_progress(metrics=[{"name": f"m{number}", "value": number} for number in range(100)])
    assert sum(1 for name in told(job) if name.startswith("dtj_job_metric")) == MAX_METRICS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    status=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys([*RUNNING], JSON)),
    progress=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys([*RUNNING["progress"]], JSON)),
)
def test_no_status_breaks_the_text(status: Any, progress: Any) -> None:  # noqa: ANN401
    """Whatever stands there: it can be read, and nothing is told twice."""
    both = {**status, "progress": progress} if isinstance(status, dict) else status
    found = [
        (name, tuple(sorted(labels.items()))) for name, labels, _ in all_told(a_raw(both), a_raw(RUNNING, a_job("b")))
    ]
    assert len(found) == len(set(found))
    assert any(name == "dtj_job_step" for name, _ in found)


async def page_of(store: JobStore, *, leads: bool = True) -> list[tuple[str, dict[str, str], float]]:
    return list(samples_of((await page(store, leads=leads).text()).decode()))


def page(store: JobStore, *, leads: bool = True) -> MetricsPage:
    return MetricsPage(store, Tally(), Instruments(), lambda: None, lambda: leads)


async def test_the_page_has_jobs_counters_and_the_process() -> None:
    store = JobStore()
    store.put(a_raw({**RUNNING, "startTime": rfc3339(datetime.now(UTC))}))
    found = {name: value for name, _, value in await page_of(store)}
    assert {"dtj_job_step", "dtj_attempts_ended_total", "dtj_build_info", "workqueue_depth"} <= found.keys()
    assert found.keys() >= OF_PROCESSES
    assert found["dtj_job_step"] == 50.0


async def test_who_does_not_lead_tells_of_itself_and_of_no_job() -> None:
    store = JobStore()
    store.put(a_raw(RUNNING))
    leader = [name for name, _, _ in await page_of(store)]
    standby = [name for name, _, _ in await page_of(store, leads=False)]
    assert {name for name in leader if name not in standby} >= {"dtj_jobs", "dtj_jobs_left_out", "dtj_job_step"}
    assert [name for name in leader if not name.startswith("dtj_job_") and name not in JOB_COUNTS] == standby
    assert {"workqueue_depth", "dtj_build_info", "dtj_attempts_ended_total", *OF_PROCESSES} <= {*standby}


async def test_nothing_is_told_twice_and_no_name_is_the_librarys_own() -> None:
    found = [(name, tuple(sorted(labels.items()))) for name, labels, _ in await page_of(JobStore())]
    assert len(found) == len(set(found))
    assert not [name for name, _ in found if name.endswith("_created")]


async def test_what_is_only_looked_at_on_demand_is_taken_in_before_each_page() -> None:
    instruments = Instruments()
    told = MetricsPage(JobStore(), Tally(), instruments, lambda: instruments.lag(2.5), lambda: True)
    assert b"\ndtj_event_loop_lag_seconds 2.5\n" in await told.text()


async def test_a_page_is_made_again_only_after_a_while() -> None:
    store = JobStore()
    told = page(store)
    first = await told.text()
    store.put(a_raw(RUNNING))
    assert await asyncio.gather(*[told.text() for _ in range(50)]) == [first] * 50

    await asyncio.sleep(REUSED_FOR)

    pages = await asyncio.gather(*[told.text() for _ in range(50)])
    assert b"dtj_job_step" in pages[0]
    assert len({id(each) for each in pages}) == 1


def own_metrics() -> dict[str, str]:
    """Every metric that only this operator has, with its description."""
    registries = (Tally().registry, Instruments().registry)
    families = [family for registry in registries for family in registry.collect()]
    counters = {f"{each.name}_total": each.documentation for each in families if each.type == "counter"}
    others = {each.name: each.documentation for each in families if each.type != "counter"}
    own = {name: text for name, text in (counters | others).items() if name.startswith("dtj_")}
    return own | {each.name: each.description for each in ALL}


def test_names_follow_the_conventions() -> None:
    assert len({each.name for each in ALL}) == len(ALL)
    for name, description in own_metrics().items():
        assert re.fullmatch(r"dtj_[a-z]+(_[a-z]+)*", name)
        assert description.endswith(".") or name == "dtj_build_info", name


def test_the_page_about_metrics_knows_all_of_them_and_no_others() -> None:
    documented = re.findall(r"^\| `(dtj_\w+)", PAGE, re.MULTILINE)
    assert sorted(documented) == sorted(own_metrics())


def test_the_page_about_metrics_knows_the_usual_ones_and_their_labels() -> None:
    documented = dict(
        re.findall(r"^\| `((?:controller_runtime|workqueue|rest_client|leader)\w+)` \| ([^|]*) \|", PAGE, re.MULTILINE)
    )
    instruments = Instruments()
    instruments.requests_to("https://10.0.0.1:443")("GET", "200")
    instruments.leading("dtj-operator", True)
    told: dict[str, set[str]] = {}
    for family in instruments.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        told[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    usual = {name: labels for name, labels in told.items() if not name.startswith("dtj_")}
    assert {name: set(re.findall(r"`(\w+)`", cell.partition(":")[0])) for name, cell in documented.items()} == usual


def test_the_page_about_metrics_tells_the_bounds() -> None:
    assert f"beyond {MAX_JOBS:,}" in PAGE
    assert f"A running job has {len(TOLD) - len(RUNNING['progress']['metrics'])} time series" in PAGE
    assert f"at most {MAX_METRICS} of each job" in PAGE


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable)


def test_the_dashboard_asks_for_metrics_that_exist_and_for_all_of_these() -> None:
    asked = {
        re.sub("_bucket$", "", name) for query in queries() for name in re.findall(r"\b(?:dtj|process)_\w+", query)
    }
    known = own_metrics().keys()
    assert asked <= known | OF_PROCESSES
    assert known <= asked


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])

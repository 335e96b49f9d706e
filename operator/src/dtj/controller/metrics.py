"""What the jobs look like to Prometheus. ``docs/metrics.md`` lists all of it.

Jobs are told as the API server has them: a status that another version wrote may have what this one does not expect,
and what is no number is left out. Finished jobs are only counted, so that what is told does not grow with the history.

The labels are ``job_namespace`` and ``job_name``, because ``job`` and often ``namespace`` belong to the scraper.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from sys import float_info
from typing import Any, Final, Literal, NamedTuple

from dtj import __version__
from dtj.api import names
from dtj.api.conditions import FINAL
from dtj.api.status import MAX_METRICS, Phase
from dtj.controller.jobs import RawJob

MAX_JOBS: Final = 5_000
"""Unfinished jobs that are told one by one; of the rest only the number is."""
MAX_LABEL: Final = 253
"""Characters of a label's value: a job's name fits."""
NO_PHASE: Final = "Unknown"
"""The phase of a job that the operator has not looked at yet."""
POD_STATES: Final = ("pending", "running", "succeeded", "failed")

Raw = Mapping[str, Any]


class Told(NamedTuple):
    """A metric of a job. ``name``: with ``_total`` if it only grows."""

    name: str
    description: str


class Number(NamedTuple):
    """A metric that is a number of the status. ``part``: in what of the status it stands."""

    told: Told
    part: Literal["status", "progress", "slowestRank"]
    field: str


INFO = Told("dtj_job_info", "The job exists and is not finished; its framework.")
PHASE = Told("dtj_job_phase", "1 for the phase that the job is in.")
PODS = Told("dtj_job_pods", "Pods of this attempt, all roles together, by state.")
START = Told("dtj_job_start_time_seconds", "When the operator accepted the job, in seconds since 1970.")
RATIO = Told("dtj_job_progress_ratio", "How much of the training is done, 0 to 1. It falls when a restart goes back.")
ETA = Told("dtj_job_eta_seconds", "Seconds that the training still needs.")
LOST = Told("dtj_job_lost_steps_total", "Steps that restarts threw away and that were or must be done again.")
STALE = Told("dtj_job_progress_stale", "1: nothing was heard of the training for too long.")
REPORT = Told("dtj_job_report_time_seconds", "When the training was last heard, in seconds since 1970.")
METRIC = Told("dtj_job_metric", "A number that the training reports about itself, such as its loss.")

NUMBERS: Final = (
    Number(Told("dtj_job_attempt", "Which attempt this is, from 0."), "status", "attempt"),
    Number(Told("dtj_job_restarts_total", "Failures that the job survived."), "status", "restarts"),
    Number(
        Told("dtj_job_disruptions_total", "Restarts for evictions, preemptions, drains and lost nodes."),
        "status",
        "disruptions",
    ),
    Number(Told("dtj_job_step", "The last finished step."), "progress", "step"),
    Number(Told("dtj_job_total_steps", "Steps of the whole training."), "progress", "totalSteps"),
    Number(Told("dtj_job_epoch", "The current epoch."), "progress", "epoch"),
    Number(Told("dtj_job_steps_per_second", "Steps per second, smoothed."), "progress", "stepsPerSecond"),
    Number(
        Told("dtj_job_samples_per_second", "Training samples per second, all workers together."),
        "progress",
        "samplesPerSecond",
    ),
    Number(
        Told("dtj_job_slowest_rank_behind_steps", "Steps that the slowest process is behind the furthest."),
        "slowestRank",
        "behindSteps",
    ),
    Number(
        Told("dtj_job_slowest_rank_step_seconds", "The slowest process's own time of a step."),
        "slowestRank",
        "localSeconds",
    ),
    Number(
        Told("dtj_job_typical_rank_step_seconds", "The other processes' own time of a step: their median."),
        "slowestRank",
        "typicalLocalSeconds",
    ),
)
OF_A_JOB: Final = (
    *(INFO, PHASE, PODS, START, RATIO, ETA, LOST, STALE, REPORT, METRIC),
    *(number.told for number in NUMBERS),
)
JOBS = Told("dtj_jobs", "All jobs, finished ones included.")
LEFT_OUT = Told("dtj_jobs_left_out", f"Unfinished jobs beyond {MAX_JOBS}: they are in dtj_jobs and nowhere else.")
BUILD = Told("dtj_build_info", "1; the operator's version.")
ALL: Final = (*OF_A_JOB, JOBS, LEFT_OUT, BUILD)


class Page:
    """Metrics by name, filled sample by sample.

    Written here and not by Prometheus's library, which takes three times as long for thousands of jobs.
    """

    def __init__(self, told: Iterable[Told]) -> None:
        self._lines = {each.name: [_head(each)] for each in told}

    def add(self, told: Told, labels: str, value: float | None) -> None:
        if value is not None:
            self._lines[told.name].append(f"{told.name}{{{labels}}} {value}\n")

    @property
    def text(self) -> str:
        return "".join(line for lines in self._lines.values() for line in lines)


def job_metrics(jobs: Iterable[RawJob], now: datetime) -> str:
    """All that is told of the jobs; those that another controller manages are not ours to tell of."""
    page = Page((JOBS, LEFT_OUT, *OF_A_JOB))
    phases: Counter[tuple[str, str]] = Counter()
    unfinished: dict[tuple[str, str], RawJob] = {}
    for raw in jobs:
        if _dict(raw, "spec").get("managedBy", names.MANAGER) != names.MANAGER:
            continue
        namespace, name, status = raw["metadata"]["namespace"], raw["metadata"]["name"], _dict(raw, "status")
        phases[namespace, _phase(status)] += 1
        if not _is_finished(status):
            # Of two under one name one is a deleted job that has not been dropped yet; it was there first.
            unfinished[namespace, name] = max(unfinished.get((namespace, name), raw), raw, key=_version)
    phases.update({(namespace, str(phase)): 0 for namespace, _ in tuple(phases) for phase in Phase})
    for (namespace, each), count in sorted(phases.items()):
        page.add(JOBS, f"{_label('job_namespace', namespace)},{_label('phase', each)}", count)
    page.add(LEFT_OUT, "", max(0, len(unfinished) - MAX_JOBS))
    for raw in islice(unfinished.values(), MAX_JOBS):
        _tell_job(page, raw, now)
    return page.text


def build_metrics() -> str:
    """Which version this is."""
    page = Page((BUILD,))
    page.add(BUILD, _label("version", __version__), 1)
    return page.text


def _tell_job(page: Page, raw: RawJob, now: datetime) -> None:
    status, metadata = _dict(raw, "status"), raw["metadata"]
    labels = f"{_label('job_namespace', metadata['namespace'])},{_label('job_name', metadata['name'])}"
    page.add(INFO, f"{labels},{_label('framework', _dict(raw, 'spec').get('framework'))}", 1)
    page.add(PHASE, f"{labels},{_label('phase', _phase(status))}", 1)
    page.add(START, labels, _time(status.get("startTime")))
    roles = _list(status, "roles")
    for state in POD_STATES:
        page.add(PODS, f'{labels},state="{state}"', sum(_number(role.get(state)) or 0 for role in roles))
    progress = _dict(status, "progress")
    parts = {"status": status, "progress": progress, "slowestRank": _dict(progress, "slowestRank")}
    for number in NUMBERS:
        page.add(number.told, labels, _number(parts[number.part].get(number.field)))
    if progress:
        _tell_progress(page, labels, progress, now)


def _tell_progress(page: Page, labels: str, progress: Raw, now: datetime) -> None:
    page.add(RATIO, labels, _ratio(progress))
    page.add(ETA, labels, _eta(progress, now))
    page.add(LOST, labels, _number(progress.get("lostSteps")) or 0)
    page.add(STALE, labels, 1 if progress.get("stale") is True else 0)
    page.add(REPORT, labels, _time(progress.get("reportTime")))
    numbers = _list(progress, "metrics")[:MAX_METRICS]
    by_name = {_label("metric", each.get("name")): _number(each.get("value")) for each in numbers}
    for name, value in by_name.items():
        page.add(METRIC, f"{labels},{name}", value)


def _ratio(progress: Raw) -> float | None:
    """Finer than the percent where that is possible."""
    step, total = _number(progress.get("step")), _number(progress.get("totalSteps"))
    if step is not None and total:
        return max(0.0, min(1.0, step / total))
    percent = _number(progress.get("percent"))
    return None if percent is None else percent / 100


def _eta(progress: Raw, now: datetime) -> float | None:
    """Seconds from now, while the status has them from when it was written."""
    end = _time(progress.get("estimatedCompletionTime"))
    return None if end is None else max(0, round(end - now.timestamp()))


def _phase(status: Raw) -> str:
    return str(status.get("phase") or NO_PHASE)[:MAX_LABEL]


def _is_finished(status: Raw) -> bool:
    return any(str(each.get("type")) in FINAL and each.get("status") == "True" for each in _list(status, "conditions"))


def _version(raw: RawJob) -> int:
    return int(raw["metadata"]["resourceVersion"])


def _head(told: Told) -> str:
    kind = "counter" if told.name.endswith("_total") else "gauge"
    return f"# HELP {told.name} {told.description}\n# TYPE {told.name} {kind}\n"


def _label(name: str, value: object) -> str:
    """A label as the format wants it, no longer than it need be."""
    text = str(value)[:MAX_LABEL]
    if not text.isascii():
        text = text.encode(errors="replace").decode()  # half a surrogate pair cannot be sent
    if "\\" in text or '"' in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{text}"'


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -float_info.max <= value <= float_info.max else None


def _time(value: object) -> float | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if time is None or time.tzinfo is None else time.timestamp()


def _dict(raw: Raw, name: str) -> Raw:
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def _list(raw: Raw, name: str) -> list[Raw]:
    value = raw.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []

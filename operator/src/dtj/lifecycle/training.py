"""What is known of the training of a job, from whoever told it last: its agent, or a container's last words."""

from datetime import timedelta

from dtj.api.job import DistributedTrainingJob
from dtj.api.status import JobStatus, Phase, ProgressStatus
from dtj.lifecycle.agent_report import Training
from dtj.lifecycle.agent_words import agent_words
from dtj.lifecycle.children import Pod
from dtj.lifecycle.look import Look
from dtj.lifecycle.observe import Bucket, Observed
from dtj.lifecycle.progress import ended, heard, last_told
from dtj.plan.launch import uses_agent
from dtj.plan.topology import Slot, topology_of


def progress_seen(look: Look) -> ProgressStatus | None:
    """The progress as it is now, running or not. It is never less than what the status tells already."""
    told, attempt = look.status.progress, look.status.attempt
    if told is not None and told.attempt is not None and told.attempt < attempt:
        older = _last_words(look, look.observed.pods[Bucket.OLDER], told.attempt)
        told = last_told(told, older, told.attempt) if older is not None else told
    if (words := _last_words(look, look.observed.current, attempt)) is not None:
        return last_told(told, words, attempt)
    if look.observed.training is not None and look.observed.training.report.tells_progress:
        interval = timedelta(seconds=look.job.spec.progress.interval_seconds)
        news = heard(told, look.observed.training, look.now, interval)
        return told if told is not None and _reads_alike(told, news) else news
    return told


def _reads_alike(one: ProgressStatus, other: ProgressStatus) -> bool:
    """Whether they differ in nothing but the time that has passed."""
    passing = dict.fromkeys(("report_time", "eta_seconds", "estimated_completion_time", "eta"))
    same = one.model_copy(update=passing) == other.model_copy(update=passing)
    return same and (one.eta is None) is (other.eta is None)


def progress_in(phase: Phase, look: Look) -> ProgressStatus | None:
    """The progress for a status of this phase: nothing is estimated of a training that does not run."""
    progress = progress_seen(look)
    return progress if progress is None or phase is Phase.RUNNING else ended(progress)


def has_advanced(status: JobStatus) -> bool | None:
    """Whether this attempt went further than all before it; None: no attempt ever told a step."""
    progress = status.progress
    if progress is None or (progress.step is None and progress.best_step is None):
        return None
    if progress.attempt != status.attempt or progress.step is None:
        return False
    return progress.step > (progress.best_step or 0)


def reporting_pod(job: DistributedTrainingJob, observed: Observed) -> Pod | None:
    """The running pod of rank 0 whose agent can be asked."""
    topology = topology_of(job.spec)
    if not uses_agent(job, topology.group(topology.rank_zero.role).template):
        return None
    running = (pod for pod in observed.pods[Bucket.RUNNING] if Slot(pod.role, pod.index) == topology.rank_zero)
    return next((pod for pod in running if pod.status.pod_ip), None)


def _last_words(look: Look, pods: tuple[Pod, ...], attempt: int) -> Training | None:
    for pod in pods:
        ended_with = pod.trainer.state.terminated if pod.trainer else None
        if pod.attempt == attempt and Slot(pod.role, pod.index) == look.topology.rank_zero and ended_with is not None:
            words = agent_words(ended_with.message)
            told = words.progress if words is not None else None
            return told if told is not None and told.tells_progress else None
    return None

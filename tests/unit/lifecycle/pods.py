"""Pods in any state that a kubelet, a scheduler, a user or a bug may leave them in."""

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st

from dtj.api import labels
from dtj.api.job import DistributedTrainingJob
from dtj.lifecycle.children import Pod
from tests.builders import NOW, a_pod, rfc3339

_WORDS = ["", "Error", "OOMKilled", "Evicted", "ImagePullBackOff", "ErrImagePull", "Unschedulable", "SomethingNew"]
_CONDITIONS = ["PodScheduled", "DisruptionTarget", "Ready"]

texts = st.one_of(
    st.sampled_from(["", "\n", "boom", "connection reset by peer", "x" * 10_000, "ß\U0001f600" * 3_000, "a\n" * 500]),
    st.text(max_size=30),
)
words = st.sampled_from(_WORDS)
times = st.one_of(st.none(), st.integers(-10, 10).map(lambda seconds: rfc3339(NOW + timedelta(seconds=seconds))))
_int32 = st.integers(-(2**31), 2**31 - 1)
exit_codes = st.one_of(st.sampled_from([0, 1, 3, 127, 128, 129, 134, 137, 143, 255]), _int32)
_states: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"waiting": st.fixed_dictionaries({"reason": words, "message": texts})}),
    st.just({"running": {}}),
    st.fixed_dictionaries(
        {
            "terminated": st.fixed_dictionaries(
                {
                    "exitCode": exit_codes,
                    "signal": st.one_of(st.just(0), _int32),
                    "reason": words,
                    "message": texts,
                    "finishedAt": times,
                }
            )
        }
    ),
)
_container_statuses = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["trainer", "sidecar"]), "state": _states}),
    max_size=2,
    unique_by=lambda status: str(status["name"]),
)
_statuses = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        "reason": words,
        "message": texts,
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(_CONDITIONS),
                    "status": st.sampled_from(["True", "False", "Unknown"]),
                    "reason": words,
                    "message": texts,
                }
            ),
            max_size=2,
        ),
        "containerStatuses": _container_statuses,
        "initContainerStatuses": _container_statuses,
    }
)
_tampering: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            labels.INDEX: st.sampled_from(["", "x", "-1", "7", "99999999999"]),
            labels.ROLE: st.sampled_from(["", "Master_1", "r" * 63]),
            labels.TRAINER: st.sampled_from(["", "nobody"]),
        },
    ),
)
_tolerations: st.SearchStrategy[list[dict[str, Any]]] = st.sampled_from(
    [
        [],
        [{"operator": "Exists"}],
        [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "tolerationSeconds": 30}],
        [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "tolerationSeconds": 300}],
    ]
)


@st.composite
def any_pod(draw: st.DrawFn, job: DistributedTrainingJob) -> Pod:
    """A pod of the job: of this or another attempt, in any state, with labels that somebody may have changed."""
    attempts = st.sampled_from([job.status.attempt, job.status.attempt, job.status.attempt + 1])
    raw = a_pod(job, draw(st.integers(0, 3)), attempt=draw(attempts)).raw()
    raw["metadata"]["labels"] |= draw(_tampering)
    raw["metadata"]["deletionTimestamp"] = draw(times)
    raw["metadata"]["creationTimestamp"] = draw(times)
    raw["spec"]["tolerations"] = draw(_tolerations)
    raw["status"] = draw(_statuses)
    return msgspec.convert(raw, Pod)

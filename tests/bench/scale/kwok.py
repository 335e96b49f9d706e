"""Nodes that do not exist, and their kubelets: a placed pod runs at once and stays, a deleted one goes at once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster import build, processes
from tests.cluster.processes import Process

MANAGED = "kwok.x-k8s.io/node"
"""Annotation of nodes that KWOK plays."""
ADDRESSES = "198.18.0.1/16"
"""Of pods: the block that is reserved for benchmarks (RFC 2544), so none is somebody else's."""
CRASHES = {"bench.dtj.dev/crashes": "true"}
"""Labels of pods that fail as soon as they run."""
PARALLELISM = 16
LOG = "kwok.log"

_NODE_READY = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
  message: {{ .message | Quote }}
  reason: {{ .reason | Quote }}
  status: {{ .status | Quote }}
  type: {{ .type | Quote }}
{{ end }}
allocatable: {cpu: 64, memory: 512Gi, pods: 10k}
capacity: {cpu: 64, memory: 512Gi, pods: 10k}
phase: Running
"""
_POD_RUNS = """
{{ $now := Now }}
conditions:
{{ range $type := list "Initialized" "Ready" "ContainersReady" }}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: {{ $type }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
{{ range PodIPsWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ . | Quote }}
podIPs: [{ip: {{ . | Quote }}}]
{{ end }}
phase: Running
startTime: {{ $now | Quote }}
"""
_POD_CRASHES = """
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  restartCount: 0
  state: {terminated: {exitCode: 1, reason: Error, finishedAt: {{ Now | Quote }}}}
{{ end }}
phase: Failed
"""


def start(kubeconfig: Path, directory: Path) -> Process:
    """Start KWOK for all nodes of ``node``; its configuration and log lie in ``directory``."""
    configuration = directory / "kwok.json"
    configuration.write_text("\n---\n".join(map(json.dumps, _documents())), encoding="utf-8")
    command = [
        str(build.KWOK.directory() / "kwok"),
        f"--config={configuration}",
        f"--kubeconfig={kubeconfig}",
        f"--manage-nodes-with-annotation-selector={MANAGED}=fake",
        "--manage-all-nodes=false",
        f"--cidr={ADDRESSES}",
        "--node-lease-duration-seconds=40",
        "--v=WARN",  # else a line for each pod
    ]
    return processes.start("kwok", command, directory / LOG)


def node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {MANAGED: "fake"}, "labels": {"kubernetes.io/hostname": name}},
    }


def silence(since: str) -> dict[str, Any]:
    """What the node controller writes into the status of a node that it has not heard of for its grace period."""
    condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "it says nothing"}
    return {"conditions": [{**condition, "lastHeartbeatTime": since, "lastTransitionTime": since}]}


def _documents() -> list[dict[str, Any]]:
    few = ("nodePlayStageParallelism", "nodeLeaseParallelism", "podsOnNodeSyncParallelism")
    options = {**dict.fromkeys(few, 2), "podPlayStageParallelism": PARALLELISM}
    return [
        {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options},
        _stage("node-ready", "Node", [_is_not_ready()], {"statusTemplate": _NODE_READY}),
        _stage("pod-runs", "Pod", [_deletion("DoesNotExist"), _is_in("Pending")], {"statusTemplate": _POD_RUNS}),
        _stage(
            "pod-crashes",
            "Pod",
            [_deletion("DoesNotExist"), _is_in("Running"), *_has(CRASHES)],
            {"statusTemplate": _POD_CRASHES},
        ),
        _stage("pod-goes", "Pod", [_deletion("Exists")], {"delete": True}),
    ]


def _stage(name: str, kind: str, conditions: list[dict[str, Any]], following: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": conditions},
            "next": following,
        },
    }


def _is_not_ready() -> dict[str, Any]:
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    return {"key": ready, "operator": "NotIn", "values": ["True"]}


def _is_in(phase: str) -> dict[str, Any]:
    return {"key": ".status.phase", "operator": "In", "values": [phase]}


def _has(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": f'.metadata.labels["{key}"]', "operator": "In", "values": [labels[key]]} for key in labels]


def _deletion(operator: str) -> dict[str, Any]:
    return {"key": ".metadata.deletionTimestamp", "operator": operator}

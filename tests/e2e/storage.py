"""Storage that pods on every node of a bed share and that outlives them: a directory of this machine."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.state import Layout
from tests.kubectl import Kubectl, Object, eventually

CLAIM = "checkpoints"


@contextmanager
def claimed(bed: str, kubectl: Kubectl) -> Iterator[str]:
    """The name of a claim, for the block, on a volume of its own."""
    with shared_volume(bed, kubectl, CLAIM):
        kubectl.apply(_claim(CLAIM))
        yield CLAIM


@contextmanager
def shared_volume(bed: str, kubectl: Kubectl, claim: str) -> Iterator[None]:
    """A volume that all nodes of ``bed`` see, for the block and for one claim of the namespace.

    It is a directory of the machine, which pods of a `restricted` namespace reach by a claim only. At the end the jobs
    of the namespace are deleted with the claim, then volume and directory.
    """
    # In the bed's own directory: nodes see it whatever they have mounted over /tmp, and it goes with the bed.
    directory = Layout(bed).directory / "volumes" / kubectl.namespace
    directory.mkdir(parents=True)
    directory.chmod(0o777)  # the trainers' user is nobody that this machine knows
    try:
        kubectl.apply(_volume(kubectl.namespace, str(directory), claim))
        yield
    finally:
        kubectl("delete", "dtj", "--all")
        eventually(lambda: [pod["metadata"]["name"] for pod in kubectl.all("pods")], lambda names: names == [])
        kubectl("delete", "pvc", "--all")
        kubectl("delete", "pv", kubectl.namespace, "--ignore-not-found")
        shutil.rmtree(directory)


def _volume(name: str, path: str, claim: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": path, "type": "Directory"},
            "claimRef": {"namespace": name, "name": claim},
        },
    }


def _claim(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    }

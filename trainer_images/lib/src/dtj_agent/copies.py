"""The environment of the started processes: the container's own, and what each of several copies needs besides."""

# Paths are strings here: importing pathlib would take a good part of the time that the agent takes to start.
# ruff: noqa: PTH100, PTH113, PTH120, PTH123

from __future__ import annotations

import os
from collections.abc import Mapping

from dtj_agent import shell_environment
from dtj_agent.protocol import LOCAL_RANK, NODE_RANK

LOCATION = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""What Python finds this package in: the zip file, or a folder of sources."""

JAX_DEVICES = "JAX_LOCAL_DEVICE_IDS"


class MisuseError(Exception):
    """The agent was started with options or variables that do not fit together; no user can do that."""


def number(environ: Mapping[str, str], name: str, minimum: int = 0) -> int:
    """Read a whole number; raises MisuseError, naming the variable."""
    text = environ.get(name, "")
    if not (text.isascii() and text.isdigit()) or int(text) < minimum:
        raise MisuseError(f"{name} is {text!r}: it must be a whole number of at least {minimum}")
    return int(text)


def base_environment(lost_environment: str = "") -> dict[str, str]:
    """The environment of the container, and this library for the programs that are started.

    ``lost_environment``: what the shell that started the agent has changed of it (``shell_environment.lost``).
    """
    environ = without_locale_coercion(dict(os.environ))
    if lost_environment:
        shell_environment.restore(lost_environment, environ)
    return with_library(environ)


def with_library(environ: dict[str, str]) -> dict[str, str]:
    """``import dtj_trainer`` finds the library that came with the agent, and everything else what it found before."""
    if os.path.isfile(LOCATION):
        environ["PYTHONPATH"] = ":".join(filter(None, (environ.get("PYTHONPATH"), LOCATION)))
    return environ


def without_locale_coercion(environ: dict[str, str]) -> dict[str, str]:
    """Take back what the agent's own interpreter did to LC_CTYPE when it started in the C locale (PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as file:
            given = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
    except OSError:  # no /proc: then it stays, as it would for any program that Python starts
        return environ
    environ.pop("LC_CTYPE", None)
    if b"LC_CTYPE" in given:
        environ["LC_CTYPE"] = os.fsdecode(given[b"LC_CTYPE"])
    return environ


def variables(framework: str, local_rank: int, processes: int, environ: Mapping[str, str]) -> dict[str, str]:
    """What one of several copies gets on top of ``environ``, which the operator made for the pod as a whole.

    PyTorch: the variables that torchrun gives its workers
    (https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables). Like torchrun (``config_from_args``
    in torch/distributed/run.py) a copy computes with one thread unless OMP_NUM_THREADS says otherwise: several copies
    that each take all cores are slower than one.

    JAX: each copy takes the accelerator with its own index (``initialize`` in jax/_src/distributed.py reads that); all
    would take all of them otherwise, and fail.
    """
    own = {LOCAL_RANK: str(local_rank)}
    if framework not in ("PyTorch", "Horovod", "JAX"):
        return own
    rank = str(number(environ, NODE_RANK) * processes + local_rank)
    if framework == "JAX":
        devices = {} if JAX_DEVICES in environ else {JAX_DEVICES: str(local_rank)}
        return {**own, **devices, "JAX_PROCESS_ID": rank}
    if "OMP_NUM_THREADS" not in environ:
        own["OMP_NUM_THREADS"] = "1"
    if framework == "Horovod":
        return {**own, "HOROVOD_RANK": rank, "HOROVOD_LOCAL_RANK": str(local_rank)}
    return {**own, "RANK": rank, "LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(processes)}


def label(local_rank: int, processes: int, environ: Mapping[str, str]) -> str:
    """What a copy is called in messages."""
    if environ.get(NODE_RANK):
        return f"rank {number(environ, NODE_RANK) * processes + local_rank} (local {local_rank})"
    return f"process {local_rank} of this pod"

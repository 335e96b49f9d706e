"""Which resources count as accelerators, and how many a container asks for."""

from typing import Any

import pytest

from dtj.plan.accelerators import accelerators, is_accelerator


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/mig-3g.20gb",
        "nvidia.com/mig-1g.10gb.me",
        "nvidia.com/mig-1g.5gb.me.all",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "google.com/tpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "huawei.com/Ascend910",
    ],
)
def test_is_an_accelerator(resource: str) -> None:
    assert is_accelerator(resource)


@pytest.mark.parametrize(
    "resource",
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "nvidia.com/gpumem",
        "nvidia.com/gpucores",
        "volcano.sh/gpu-memory",
        "gpu.intel.com/millicores",
        "gpu.intel.com/memory.max",
        "example.com/gpu-licence",
        "nvidia.com/mig-",
        "xnvidia.com/gpu",
        "rdma/hca",
    ],
)
def test_is_no_accelerator_although_its_name_may_look_like_one(resource: str) -> None:
    assert not is_accelerator(resource)


COUNTS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "no resources": ({}, {}),
    "resources left empty": ({"resources": None}, {}),
    "parts left empty": ({"resources": {"limits": None, "requests": None}}, {}),
    "limits": ({"resources": {"limits": {"nvidia.com/gpu": 4, "cpu": 8}}}, {"nvidia.com/gpu": 4}),
    "a number written as text": ({"resources": {"limits": {"nvidia.com/gpu": "2"}}}, {"nvidia.com/gpu": 2}),
    "requests alone": ({"resources": {"requests": {"amd.com/gpu": 1}}}, {"amd.com/gpu": 1}),
    "limits rule": (
        {"resources": {"requests": {"amd.com/gpu": 1}, "limits": {"amd.com/gpu": 2}}},
        {"amd.com/gpu": 2},
    ),
    "none of them": ({"resources": {"limits": {"nvidia.com/gpu": 0}}}, {}),
    "an amount that no device plugin knows": ({"resources": {"limits": {"nvidia.com/gpu": "1.5"}}}, {}),
    "slices of two sizes": (
        {"resources": {"limits": {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": 1}}},
        {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": 1},
    ),
}


@pytest.mark.parametrize(("container", "counted"), COUNTS.values(), ids=COUNTS.keys())
def test_accelerators_of_a_container(container: dict[str, Any], counted: dict[str, int]) -> None:
    assert accelerators(container) == counted

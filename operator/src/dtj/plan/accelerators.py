"""Which extended resources are accelerators, and how many a container asks for.

An explicit table, because names mislead: MIG slices are one process each, ``gpumem`` is no device at all.
Sources: the device plugins' documentation of NVIDIA, AMD, Intel, Habana, Google, AWS and Huawei.
"""

import re
from typing import Any

_NAMES = frozenset({
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "aws.amazon.com/neurondevice",
    "huawei.com/Ascend310",
    "huawei.com/Ascend310P",
    "huawei.com/Ascend910",
})  # fmt: skip
_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb(\.me(\.all)?)?")
_WHOLE_NUMBER = re.compile(r"\d+")


def is_accelerator(resource: str) -> bool:
    return resource in _NAMES or _MIG.fullmatch(resource) is not None


def accelerators(container: dict[str, Any]) -> dict[str, int]:
    """Accelerators the container asks for, by resource name. Limits rule, as they do for every extended resource."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return {
        name: int(str(amount))
        for name, amount in asked.items()
        if is_accelerator(name) and _WHOLE_NUMBER.fullmatch(str(amount)) and int(str(amount)) > 0
    }

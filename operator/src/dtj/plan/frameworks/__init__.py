"""Wiring, one file per framework: what a pod is told of its place in the gang."""

from collections.abc import Callable

from dtj.api.spec import Framework
from dtj.plan.frameworks import custom, horovod, jax, pytorch, tensorflow
from dtj.plan.frameworks.place import Place

Wiring = Callable[[Place], dict[str, str]]

WIRINGS: dict[Framework, Wiring] = {
    Framework.PYTORCH: pytorch.environment,
    Framework.TENSORFLOW: tensorflow.environment,
    Framework.HOROVOD: horovod.environment,
    Framework.JAX: jax.environment,
    Framework.CUSTOM: custom.environment,
}
"""Environment of the trainer container, by framework; the common variables come on top of it for all."""

"""What ``dtj convert`` makes of the samples passes the definition's own rules, strictly read."""

from typing import Any

import pytest

from tests.api.conftest import LATER_GROUP, LATER_KIND
from tests.api.resource import Resource
from tests.unit.convert.manifests import NAMES, converted, sample

pytestmark = pytest.mark.api


@pytest.mark.parametrize("name", NAMES)
def test_a_converted_sample_is_accepted(later_resource: Resource, name: str) -> None:
    manifest: dict[str, Any] = converted(*sample(name)).manifest
    own = {"apiVersion": f"{LATER_GROUP}/v1alpha1", "kind": LATER_KIND}
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    answer = later_resource.try_to_create({**manifest, **own, "metadata": metadata})

    assert answer.accepted, answer.message

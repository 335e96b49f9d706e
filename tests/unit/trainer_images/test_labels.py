"""What the images say of themselves, in the labels that the OCI image specification names."""

import re

import pytest

from trainer_images.build import IMAGES, ROOT, Image

PREFIX = "org.opencontainers.image."
each = pytest.mark.parametrize("image", IMAGES.values(), ids=lambda image: image.name)


def last_stage(image: Image) -> str:
    return (ROOT / image.dockerfile).read_text().split("\nFROM ")[-1]


@each
def test_every_image_has_the_same_labels(image: Image) -> None:
    (instruction,) = re.findall(r"^LABEL (?:.*\\\n)*.*$", last_stage(image), re.MULTILINE)
    labels = dict(re.findall(r'(\S+)="([^"]+)"', re.sub(r"\$\{(\w+)\}", r"$\1", instruction)))
    assert labels.pop(f"{PREFIX}description")
    assert labels == {
        f"{PREFIX}title": f"dtj/{image.name}",
        f"{PREFIX}licenses": "Apache-2.0",
        f"{PREFIX}version": "$VERSION",
        f"{PREFIX}revision": "$REVISION",
    }


@each
def test_version_and_revision_are_build_arguments_with_defaults(image: Image) -> None:
    before, label, _ = last_stage(image).partition("\nLABEL ")
    assert label
    assert dict(re.findall(r"^ARG (VERSION|REVISION)=(\S+)$", before, re.MULTILINE)) == {
        "VERSION": "dev",
        "REVISION": "unknown",
    }

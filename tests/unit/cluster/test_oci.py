"""Images as files: names, layouts, archives."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.cluster import oci
from tests.cluster.errors import BedError

NAME = "docker.io/dtj/try:1"


@pytest.fixture
def image(tmp_path: Path) -> oci.Image:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    layout = tmp_path / "layout"
    layout.mkdir()
    return oci.write_program_image(layout, NAME, program, {"data": b"some"})


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("dtj/pytorch:dev", "docker.io/dtj/pytorch:dev"),
        ("docker.io/dtj/pytorch:dev", "docker.io/dtj/pytorch:dev"),
        ("registry.example:5000/team/x", "registry.example:5000/team/x:latest"),
        ("localhost/x:1", "localhost/x:1"),
        ("example.org/x@sha256:00", "example.org/x@sha256:00"),
    ],
)
def test_names_are_completed_as_the_runtime_does(given: str, full: str) -> None:
    assert oci.full_name(given) == full


def test_a_written_image_is_read_back(image: oci.Image) -> None:
    assert oci.read_layout(image.layout) == oci.read_layout(image.layout, ["dtj/try:1"])
    found = oci.read_layout(image.layout)[0]
    assert (found.name, found.digest) == (NAME, image.digest)
    kinds = [descriptor["mediaType"] for descriptor in found.descriptors()]
    assert kinds == [oci.MANIFEST, oci.CONFIG, oci.LAYER]
    with tarfile.open(oci.blob(image.layout, list(found.descriptors())[2]["digest"])) as layer:
        assert {member.name: member.mode for member in layer} == {"program": 0o755, "data": 0o644}


@pytest.mark.parametrize("known", [0, 1, 3])
def test_an_archive_leaves_out_what_the_receiver_has(image: oci.Image, known: int) -> None:
    digests = [descriptor["digest"] for descriptor in image.descriptors()]
    written = io.BytesIO()
    oci.write_archive([image, image], written, without=set(digests[:known]))
    written.seek(0)
    with tarfile.open(fileobj=written) as archive:
        names = archive.getnames()
    blobs = [f"blobs/{digest.replace(':', '/')}" for digest in digests[known:]]
    assert names == ["oci-layout", "index.json", *blobs]


def archive(path: Path, members: dict[str, object]) -> Path:
    with tarfile.open(path, "w") as opened:
        for name, document in members.items():
            content = json.dumps(document).encode()
            information = tarfile.TarInfo(name)
            information.size = len(content)
            opened.addfile(information, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("members", "found"),
    [
        (
            {"index.json": {"manifests": [{"digest": "sha256:1", "annotations": {oci.CONTAINERD_NAME: "a/b:1"}}]}},
            {"docker.io/a/b:1": "sha256:1"},
        ),
        ({"index.json": {"manifests": [{"digest": "sha256:1"}]}}, {}),
        (
            {
                "manifest.json": [
                    {"Config": "2.json", "RepoTags": ["x:1", "x:2"]},
                    {"Config": "3.json", "RepoTags": None},
                ]
            },
            {"docker.io/library/x:1": "2.json", "docker.io/library/x:2": "2.json"},
        ),
    ],
    ids=["OCI", "OCI without a name", "Docker"],
)
def test_the_images_of_an_archive_are_listed(tmp_path: Path, members: dict[str, object], found: dict[str, str]) -> None:
    assert oci.read_archive(archive(tmp_path / "x.tar", members)) == found


def test_what_is_no_image_is_refused(tmp_path: Path, image: oci.Image) -> None:
    (tmp_path / "text.tar").write_text("text")
    with pytest.raises(BedError, match=r"text\.tar is no image archive"):
        oci.read_archive(tmp_path / "text.tar")
    with pytest.raises(BedError, match=r"neither index\.json nor manifest\.json"):
        oci.read_archive(archive(tmp_path / "other.tar", {"x": 1}))
    with pytest.raises(BedError, match="no OCI image layout"):
        oci.read_layout(tmp_path)
    with pytest.raises(BedError, match=r"holds no image docker\.io/dtj/other:1; it holds docker\.io/dtj/try:1"):
        oci.read_layout(image.layout, ["dtj/other:1"])

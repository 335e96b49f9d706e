"""The shared layout: images come and go, blobs in common are kept once, nothing is left over."""

import hashlib
import json
from pathlib import Path

from trainer_images import oci_layout


def export(folder: Path, *layers: bytes) -> Path:
    """An image as buildah's `dir:` transport writes it: blobs by their hash, and a manifest."""
    folder.mkdir()
    config = json.dumps({"layers": [layer.decode() for layer in layers]}).encode()

    def blob(content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (folder / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(config),
        "layers": [blob(layer) for layer in layers],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def blobs(layout: Path) -> list[bytes]:
    return [path.read_bytes() for path in (layout / "blobs" / "sha256").iterdir()]


def test_no_layout_has_no_images(tmp_path: Path) -> None:
    assert oci_layout.references(tmp_path / "none") == {}


def test_an_image_is_found_under_its_name(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    oci_layout.add(layout, export(tmp_path / "a", b"base", b"own"), "docker.io/dtj/a:dev")
    manifest = oci_layout.references(layout)["docker.io/dtj/a:dev"]
    assert list(oci_layout.layers(layout, manifest).values()) == [len(b"base"), len(b"own")]
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}


def test_every_blob_is_named_by_its_hash(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    oci_layout.add(layout, export(tmp_path / "a", b"base", b"own"), "docker.io/dtj/a:dev")
    paths = list((layout / "blobs" / "sha256").iterdir())
    assert len(paths) == 4  # the manifest, the configuration, two layers
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in paths)


def test_a_layer_in_common_is_stored_once(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    oci_layout.add(layout, export(tmp_path / "a", b"base", b"a"), "docker.io/dtj/a:dev")
    oci_layout.add(layout, export(tmp_path / "b", b"base", b"b"), "docker.io/dtj/b:dev")
    assert sorted(oci_layout.references(layout)) == ["docker.io/dtj/a:dev", "docker.io/dtj/b:dev"]
    assert blobs(layout).count(b"base") == 1
    assert oci_layout.prune(layout) == 0


def test_what_only_a_replaced_image_used_is_deleted(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    oci_layout.add(layout, export(tmp_path / "old", b"base", b"old"), "docker.io/dtj/a:dev")
    oci_layout.add(layout, export(tmp_path / "new", b"base", b"new"), "docker.io/dtj/a:dev")
    assert oci_layout.prune(layout) > len(b"old")
    assert len(oci_layout.references(layout)) == 1
    assert b"old" not in blobs(layout)
    assert {b"base", b"new"} < set(blobs(layout))

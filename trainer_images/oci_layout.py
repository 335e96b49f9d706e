"""An OCI image layout: a folder that holds images as plain files, with the blobs they share stored once.

Format: https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

REFERENCE: Final = "org.opencontainers.image.ref.name"
CONTAINERD_NAME: Final = "io.containerd.image.name"
"""Read by containerd before the standard annotation, which it takes for a tag only."""


def references(layout: Path) -> dict[str, str]:
    """Name of each image in the layout, with the digest of its manifest. Empty when there is no layout yet."""
    return {entry["annotations"][REFERENCE]: entry["digest"] for entry in _index(layout)["manifests"]}


def layers(layout: Path, manifest: str) -> dict[str, int]:
    """Digests of an image's layers, lowest first, with their sizes in bytes."""
    return {layer["digest"]: layer["size"] for layer in json.loads(_blob(layout, manifest).read_text())["layers"]}


def add(layout: Path, exported: Path, reference: str) -> None:
    """Move an image that was exported as a flat folder (the `dir:` transport) into the layout under a name.

    The index is replaced last, so that the layout is whole at every moment.
    """
    content = (exported / "manifest.json").read_bytes()
    manifest = json.loads(content)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    target = _blob(layout, digest)
    target.parent.mkdir(parents=True, exist_ok=True)
    (layout / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    for blob in (manifest["config"], *manifest["layers"]):
        (exported / blob["digest"].partition(":")[2]).replace(_blob(layout, blob["digest"]))
    target.write_bytes(content)
    entry = {
        "mediaType": manifest["mediaType"],
        "digest": digest,
        "size": len(content),
        "annotations": {REFERENCE: reference, CONTAINERD_NAME: reference},
    }
    index = _index(layout)
    others = [other for other in index["manifests"] if other["annotations"][REFERENCE] != reference]
    replacement = layout / "index.json.new"
    replacement.write_text(json.dumps({**index, "manifests": [*others, entry]}, indent=2))
    replacement.replace(layout / "index.json")


def prune(layout: Path) -> int:
    """Delete the blobs that no image uses any more; the bytes freed."""
    used = {blob for manifest in references(layout).values() for blob in _blobs(layout, manifest)}
    stale = [path for path in (layout / "blobs" / "sha256").iterdir() if f"sha256:{path.name}" not in used]
    freed = sum(path.stat().st_size for path in stale)
    for path in stale:
        path.unlink()
    return freed


def _index(layout: Path) -> dict[str, Any]:
    path = layout / "index.json"
    if not path.exists():
        return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}
    index: dict[str, Any] = json.loads(path.read_text())
    return index


def _blobs(layout: Path, manifest: str) -> set[str]:
    document = json.loads(_blob(layout, manifest).read_text())
    return {manifest, document["config"]["digest"], *(layer["digest"] for layer in document["layers"])}


def _blob(layout: Path, digest: str) -> Path:
    algorithm, _, name = digest.partition(":")
    return layout / "blobs" / algorithm / name

"""Images as files: OCI layout directories and image archives, read and written with the standard library."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.cluster.errors import BedError

REF_NAME = "org.opencontainers.image.ref.name"
CONTAINERD_NAME = "io.containerd.image.name"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
INDEX_TYPES = {INDEX, "application/vnd.docker.distribution.manifest.list.v2+json"}
Descriptor = dict[str, Any]


@dataclass(frozen=True)
class Image:
    """An image of a layout directory: its full name and the descriptor of its manifest (or index)."""

    layout: Path
    name: str
    descriptor: Descriptor

    @property
    def digest(self) -> str:
        return str(self.descriptor["digest"])

    def descriptors(self) -> Iterator[Descriptor]:
        """Yield the descriptor of every blob the image consists of, the manifest first."""
        waiting = [self.descriptor]
        while waiting:
            descriptor = waiting.pop(0)
            yield descriptor
            if descriptor.get("mediaType") in INDEX_TYPES or _is_manifest(descriptor):
                document = json.loads(blob(self.layout, descriptor["digest"]).read_bytes())
                waiting += document.get("manifests", [])
                waiting += [document["config"]] if "config" in document else []
                waiting += document.get("layers", [])


def _is_manifest(descriptor: Descriptor) -> bool:
    return "manifest" in str(descriptor.get("mediaType"))


def blob(layout: Path, digest: str) -> Path:
    algorithm, _, encoded = digest.partition(":")
    return layout / "blobs" / algorithm / encoded


def read_layout(layout: Path, names: Sequence[str] = ()) -> list[Image]:
    """Return the images of an OCI layout directory: those called `names`, all when none is given.

    Raises BedError when `layout` is no OCI layout or holds no image of one of the names.
    """
    index_file = layout / "index.json"
    if not index_file.is_file():
        raise BedError(f"{layout} is no OCI image layout: it has no index.json")
    found = {}
    for descriptor in json.loads(index_file.read_text())["manifests"]:
        if name := _name(descriptor):
            found[full_name(name)] = Image(layout, full_name(name), descriptor)
    wanted = [full_name(name) for name in names] or list(found)
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise BedError(f"{layout} holds no image {', '.join(unknown)}; it holds {', '.join(found) or 'no named image'}")
    return [found[name] for name in wanted]


def full_name(name: str) -> str:
    """Return an image's name as the runtime knows it: `dtj/x:1` becomes `docker.io/dtj/x:1`, a missing tag `latest`."""
    host, slash, rest = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif "." not in host and ":" not in host and host != "localhost":
        name = f"docker.io/{host}/{rest}"
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


def write_archive(images: Sequence[Image], output: IO[bytes], *, without: set[str]) -> None:
    """Write an image archive of `images` to a pipe, leaving out the blobs whose digests the receiver already has."""
    with tarfile.open(fileobj=output, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        manifests = [image.descriptor | {"annotations": {CONTAINERD_NAME: image.name}} for image in images]
        _add(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())
        sent = set(without)
        for image in images:
            for digest in (d["digest"] for d in image.descriptors()):
                if digest in sent:
                    continue
                sent.add(digest)
                source = blob(image.layout, digest)
                information = tarfile.TarInfo(f"blobs/{digest.replace(':', '/')}")
                information.size = source.stat().st_size
                with source.open("rb") as content:
                    archive.addfile(information, content)


def read_archive(archive: Path) -> dict[str, str]:
    """Return {image name: digest of its manifest or configuration} of an OCI or Docker archive."""
    try:
        with tarfile.open(archive) as opened:
            index, docker_manifest = _member(opened, "index.json"), _member(opened, "manifest.json")
    except tarfile.TarError as error:
        raise BedError(f"{archive} is no image archive: {error}") from error
    if index is not None:
        named = ((_name(descriptor), descriptor["digest"]) for descriptor in json.loads(index)["manifests"])
        return {full_name(name): digest for name, digest in named if name}
    if docker_manifest is not None:
        entries = json.loads(docker_manifest)
        return {full_name(tag): entry["Config"] for entry in entries for tag in entry["RepoTags"] or ()}
    raise BedError(f"{archive} is no image archive: it has neither index.json nor manifest.json")


def write_program_image(layout: Path, name: str, program: Path, files: Mapping[str, bytes] | None = None) -> Image:
    """Write an OCI layout with an image of one static program, run as an ordinary user, and some small `files`."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        information = tarfile.TarInfo(program.name)
        information.size, information.mode = program.stat().st_size, 0o755
        with program.open("rb") as content:
            archive.addfile(information, content)
        for path, data in (files or {}).items():
            _add(archive, path, data)
    layer_bytes = layer.getvalue()
    configuration = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer_bytes)]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _write_blob(layout, CONFIG, json.dumps(configuration).encode()),
        "layers": [_write_blob(layout, LAYER, layer_bytes)],
    }
    descriptor = _write_blob(layout, MANIFEST, json.dumps(manifest).encode())
    index = {"schemaVersion": 2, "manifests": [descriptor | {"annotations": {REF_NAME: name}}]}
    (layout / "index.json").write_text(json.dumps(index))
    (layout / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    return Image(layout, name, descriptor)


def _write_blob(layout: Path, media_type: str, content: bytes) -> Descriptor:
    target = blob(layout, _digest(content))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    information = tarfile.TarInfo(name)
    information.size = len(content)
    archive.addfile(information, io.BytesIO(content))


def _member(archive: tarfile.TarFile, name: str) -> bytes | None:
    try:
        content = archive.extractfile(name)
    except KeyError:
        return None
    return content.read() if content is not None else None


def _name(descriptor: Descriptor) -> str | None:
    annotations: dict[str, str] = descriptor.get("annotations", {})
    return annotations.get(CONTAINERD_NAME) or annotations.get(REF_NAME)

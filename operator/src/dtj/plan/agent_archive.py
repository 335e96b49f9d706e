"""The agent as one file, and the ConfigMap that brings it to the pods: nothing has to be in their images.

The file is a zip archive that Python runs (https://docs.python.org/3/library/zipapp.html) and imports from. It is made
of the packages that the operator was installed with, and its name is the digest of its content: an agent is never
changed under a running job.
"""

import io
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import metadata
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from dtj.api import labels, names

DISTRIBUTION: Final = "dtj-trainer"
PACKAGES: Final = ("dtj_agent", "dtj_trainer")
_MAIN: Final = b"""\
import sys

if sys.version_info < (3, 9):
    sys.exit("dtj-agent: Python 3.9 or newer is needed")

if sys.argv[1:] == ["--lost-environment"]:
    from dtj_agent.shell_environment import lost

    print(lost())
else:
    from dtj_agent.main import main

    sys.exit(main())
"""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The first moment that the format knows: the same files always give the same archive."""
_READABLE: Final = 0o100644 << 16


@dataclass(frozen=True)
class Archive:
    """``digest``: SHA-256 of the content, hexadecimal."""

    content: bytes
    digest: str


@cache
def agent_archive() -> Archive:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in [("__main__.py", _MAIN), *_sources(), *_metadata()]:
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = _READABLE
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    return Archive(content, sha256(content).hexdigest())


def agent_config_map(namespace: str) -> dict[str, Any]:
    """One for all jobs of a namespace: it belongs to none of them, and is used again by the next."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.agent_config_map_name(agent_archive().digest),
            "namespace": namespace,
            "labels": {labels.MANAGED_BY: labels.OPERATOR, labels.COMPONENT: labels.AGENT},
        },
        "immutable": True,
        "binaryData": {names.AGENT_FILE: _encoded()},
    }


@cache
def _encoded() -> str:
    return b64encode(agent_archive().content).decode()


def _sources() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        yield from _sources_below(files(package), package)


def _metadata() -> Iterator[tuple[str, bytes]]:
    """By its entry points Lightning finds its callback (https://packaging.python.org/en/latest/specifications/entry-points)."""
    distribution = metadata.distribution(DISTRIBUTION)
    folder = f"{DISTRIBUTION.replace('-', '_')}-{distribution.version}.dist-info"
    yield (
        f"{folder}/METADATA",
        f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {distribution.version}\n".encode(),
    )
    groups = groupby(sorted(distribution.entry_points, key=attrgetter("group", "name")), key=attrgetter("group"))
    sections = (
        "\n".join([f"[{group}]", *(f"{each.name} = {each.value}" for each in each_of)]) for group, each_of in groups
    )
    yield f"{folder}/entry_points.txt", ("\n\n".join(sections) + "\n").encode()


def _sources_below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _sources_below(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry.read_bytes()

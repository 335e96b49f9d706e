"""Build the images on a Linux machine that has neither Docker nor an image registry: `python3 -m trainer_images.build`.

The Dockerfiles are those that `docker build` takes. They are built with buildah on a Debian base system made by
mmdebstrap, and written to one OCI layout that containerd imports: layers uncompressed, those in common stored once.
An image is built again only when something it is made of has changed. Needs root.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from trainer_images import oci_layout

ROOT: Final = Path(__file__).resolve().parent.parent
TOOLS: Final = {"buildah": "buildah", "mmdebstrap": "mmdebstrap", "unshare": "util-linux"}
"""Commands, with the Debian packages that have them."""

BASE: Final = "localhost/dtj/base:dev"
BASE_RELEASE: Final = "trixie"
BASE_PACKAGES: Final = ("ca-certificates", "python-is-python3", "python3", "python3-venv")
BASE_LEAVES_OUT: Final = ("doc", "info", "lintian", "locale", "man", "zoneinfo")
"""Folders of /usr/share that slim images leave out as well."""

STEP_TIMEOUT_S: Final = 3600
LOG_LINES_SHOWN: Final = 30


@dataclass(frozen=True)
class Image:
    """What one image is built from; its Dockerfile has an ignore file beside it that lists everything else it reads."""

    name: str
    dockerfile: Path
    arguments: dict[str, str] = field(default_factory=dict)
    base: str | None = None
    """The image of ours that it starts from; the base system when there is none."""

    @property
    def reference(self) -> str:
        return f"docker.io/dtj/{self.name}:dev"

    @property
    def ignore_file(self) -> Path:
        return self.dockerfile.with_name(self.dockerfile.name + ".dockerignore")


IMAGES: Final = {
    image.name: image
    for image in (
        Image("pytorch", Path("trainer_images/pytorch/Dockerfile"), {"TORCH_VARIANT": "stubs"}),
        Image("horovod", Path("trainer_images/horovod/Dockerfile"), base="pytorch"),
        Image("tensorflow", Path("trainer_images/tensorflow/Dockerfile"), {"TENSORFLOW_VARIANT": "cpu"}),
        Image("jax", Path("trainer_images/jax/Dockerfile"), {"JAX_VARIANT": "cpu"}),
        Image("operator", Path("operator/Dockerfile")),
    )
}


class BuildError(Exception):
    """A step failed, or something it needs is missing; the message is for the person who ran the program."""


@dataclass(frozen=True)
class Store:
    """Where everything lies that this program keeps between runs."""

    folder: Path

    @property
    def layout(self) -> Path:
        return self.folder / "layout"

    @property
    def log(self) -> Path:
        return self.folder / "build.log"

    def stamp(self, name: str) -> Path:
        return self.folder / "stamps" / name

    def is_current(self, name: str, key: str) -> bool:
        stamp = self.stamp(name)
        return stamp.exists() and stamp.read_text() == key

    def mark(self, name: str, key: str) -> None:
        self.stamp(name).parent.mkdir(exist_ok=True)
        self.stamp(name).write_text(key)


def cache_folder() -> Path:
    """The folder for everything that can be made again: DTJ_CACHE_DIR, else dtj in the user's cache folder."""
    if own := os.environ.get("DTJ_CACHE_DIR"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dtj"


def input_files(image: Image, root: Path = ROOT) -> list[Path]:
    """Everything that can change what the image holds, in a fixed order, relative to ``root``."""
    allowed = [line[1:] for line in (root / image.ignore_file).read_text().splitlines() if line.startswith("!")]
    found = {image.dockerfile, image.ignore_file}
    for entry in (root / path for path in allowed):
        if not entry.exists():
            raise BuildError(f"{image.ignore_file} names {entry.relative_to(root)}, which does not exist")
        files = entry.rglob("*") if entry.is_dir() else [entry]
        found.update(f.relative_to(root) for f in files if f.is_file() and "__pycache__" not in f.parts)
    return sorted(found)


def input_key(image: Image, root: Path = ROOT) -> str:
    """A hash that changes when the image has to be built again."""
    start = input_key(IMAGES[image.base], root) if image.base else base_key()
    parts = [start, json.dumps(image.arguments, sort_keys=True)]
    for path in input_files(image, root):
        executable = os.access(root / path, os.X_OK)
        parts.append(f"{path} {executable} {hashlib.sha256((root / path).read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def with_bases(names: Iterable[str]) -> list[str]:
    """The names, each after that of the image it starts from, and none twice."""
    return list(dict.fromkeys(name for wanted in names for name in (IMAGES[wanted].base, wanted) if name))


def base_key() -> str:
    recipe = (BASE_RELEASE, BASE_PACKAGES, BASE_LEAVES_OUT, (ROOT / "trainer_images/base/Dockerfile").read_text())
    return hashlib.sha256(repr(recipe).encode()).hexdigest()


def run(store: Store, *command: str | Path) -> None:
    """Run one step with its output in the log; its last lines are shown when it fails."""
    scratch = store.folder / "tmp"  # buildah keeps the cache of package downloads there as well
    scratch.mkdir(exist_ok=True)
    with store.log.open("a") as log:
        print(f"\n$ {' '.join(map(str, command))}", file=log, flush=True)
        start = log.tell()
        # Mounts of its own, so that an interrupted build leaves none behind.
        done = subprocess.run(
            ["unshare", "--mount", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(scratch)},
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        with store.log.open() as log:
            log.seek(start)
            tail = log.read().splitlines()[-LOG_LINES_SHOWN:]
        shown = "\n".join(f"  | {line}" for line in tail)
        raise BuildError(f"{command[0]} ended with exit code {done.returncode}:\n{shown}\nThe whole log: {store.log}")


def buildah(store: Store, *arguments: str | Path) -> None:
    # State about mounts belongs to the life of one command, because the mounts do.
    state = store.folder / "run"
    shutil.rmtree(state, ignore_errors=True)
    run(store, "buildah", "--root", store.folder / "storage", "--runroot", state, *arguments)


def build_base(store: Store) -> None:
    if store.is_current("base", base_key()):
        return
    with timed(f"base system (Debian {BASE_RELEASE})"):
        context = store.folder / "base"
        context.mkdir(exist_ok=True)
        rootfs = context / "rootfs.tar"
        options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in BASE_LEAVES_OUT]
        packages = ",".join(BASE_PACKAGES)
        run(store, "mmdebstrap", "--variant=minbase", f"--include={packages}", *options, BASE_RELEASE, rootfs)
        buildah(store, "build", "--file", ROOT / "trainer_images/base/Dockerfile", "--tag", BASE, context)
        rootfs.unlink()
        store.mark("base", base_key())


def host_options() -> Iterator[str]:
    """Options that let package downloads in a build use what this machine uses: certificates and package index."""
    if certificates := os.environ.get("SSL_CERT_FILE"):
        yield f"--volume={certificates}:/etc/ssl/certs/ca-certificates.crt:ro"
    if index := os.environ.get("PIP_INDEX_URL"):
        yield f"--build-arg=PIP_INDEX_URL={index}"


def build_image(store: Store, image: Image) -> None:
    key = input_key(image)
    if store.is_current(image.name, key) and image.reference in oci_layout.references(store.layout):
        print(f"{image.name}: unchanged")
        return
    build_base(store)
    arguments = {"BASE_IMAGE": IMAGES[image.base].reference if image.base else BASE, **image.arguments}
    with timed(f"{image.name}: build"):
        buildah(
            store,
            *("build", "--isolation", "chroot", "--layers", "--pull-never", *host_options()),
            *(f"--build-arg={name}={value}" for name, value in arguments.items()),
            *("--file", ROOT / image.dockerfile, "--ignorefile", ROOT / image.ignore_file),
            *("--tag", image.reference, ROOT),
        )
    with timed(f"{image.name}: write to the layout"):
        # Not straight to a layout, because buildah compresses what it writes there whatever it is told.
        exported = store.folder / "exported"
        shutil.rmtree(exported, ignore_errors=True)
        buildah(store, "push", "--disable-compression", "--format", "oci", image.reference, f"dir:{exported}")
        oci_layout.add(store.layout, exported, image.reference)
        oci_layout.prune(store.layout)
        shutil.rmtree(exported)
    store.mark(image.name, key)


@contextmanager
def timed(what: str) -> Iterator[None]:
    print(f"{what} ...", flush=True)
    start = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - start:.1f} s", flush=True)


@contextmanager
def only_one(store: Store) -> Iterator[TextIO]:
    """Keep other runs of this program out of the store."""
    store.folder.mkdir(parents=True, exist_ok=True)
    with (store.folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"another build uses {store.folder}: let it finish, then run this again") from None
        yield lock


def check_machine() -> None:
    if missing := [package for command, package in TOOLS.items() if shutil.which(command) is None]:
        raise BuildError(f"missing here: {', '.join(missing)}. On Debian: apt-get install {' '.join(missing)}")
    if os.geteuid() != 0:
        raise BuildError("building images without Docker needs root; with Docker, see trainer_images/README.md")


def show(store: Store) -> None:
    for reference, manifest in sorted(oci_layout.references(store.layout).items()):
        sizes = oci_layout.layers(store.layout, manifest)
        print(f"{reference}: {sum(sizes.values()) / 1e6:.0f} MB in {len(sizes)} layers")
    print(f"layout: {store.layout}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m trainer_images.build", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("image", nargs="*", help=f"what to build: {', '.join(IMAGES)}; all when none is named")
    wanted = parser.parse_args().image or list(IMAGES)
    if unknown := [name for name in wanted if name not in IMAGES]:
        parser.error(f"no image is named {', '.join(unknown)}; there are {', '.join(IMAGES)}")
    store = Store(cache_folder() / "images")
    try:
        check_machine()
        with only_one(store):
            for name in with_bases(wanted):
                build_image(store, IMAGES[name])
            show(store)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run it again to go on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

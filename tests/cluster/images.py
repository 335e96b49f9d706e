"""Images of all beds without a registry: one seed store, unpacked once, of which every node gets a copy of hard links.

Shared by hard links are the files that containerd never writes again: content blobs (written elsewhere, then renamed)
and the trees of committed snapshots (a container writes to a layer of its own). The *.db files are bolt databases,
written in place, and therefore really copied.
"""

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.cluster import build, containerd, locking, oci, paths, processes
from tests.cluster.console import say, step
from tests.cluster.containerd import Ctr
from tests.cluster.errors import BedError

SHARED_DIRECTORIES = (
    "io.containerd.content.v1.content",
    "io.containerd.metadata.v1.bolt",
    f"io.containerd.snapshotter.v1.{containerd.SNAPSHOTTER}",
)
DATABASES = "*.db"
LOADED = "loaded.json"
LOCK_SECONDS = 1800.0
START_SECONDS = 30.0
COPY_SECONDS = 300.0
PIPE = subprocess.PIPE
# It dies with the command that runs it, however that ends: the databases have room for one containerd at a time.
# Whatever its configuration says, it makes a directory below /run: let that be one that goes away.
ISOLATED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh"),
)


@dataclass(frozen=True)
class Source:
    """Images to load: their names with what identifies their content, and how to send them to one store."""

    digests: dict[str, str]
    send: Callable[[Ctr], None]


@dataclass(frozen=True)
class Store:
    """A containerd that images are loaded into, and the directory that remembers what was."""

    name: str
    directory: Path
    open: Callable[[], contextlib.AbstractContextManager[Ctr]]

    def loaded(self) -> dict[str, str]:
        record = self.directory / LOADED
        loaded: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
        return loaded

    def remember(self, digests: dict[str, str]) -> None:
        (self.directory / LOADED).write_text(json.dumps(self.loaded() | digests, indent=2))


def source(path: Path, names: Sequence[str]) -> Source:
    """Return what to load from an OCI layout directory or an image archive; raise BedError if it is neither."""
    if path.is_dir():
        chosen = oci.read_layout(path, names)
        return Source({image.name: image.digest for image in chosen}, lambda ctr: _send_layout(ctr, chosen))
    if not path.is_file():
        raise BedError(f"{path}: there is neither an OCI layout directory nor an image archive")
    if names:
        raise BedError(f"{path} is an archive, which is loaded whole: leave out {', '.join(names)}")
    return Source(oci.read_archive(path), lambda ctr: _send_archive(ctr, path))


def load(what: Source, nodes: Sequence[Store]) -> None:
    """Load images into the seed store and, at the same time for all, into the stores of running nodes."""
    with _seed_locked():
        _load_into(_seed(), what)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: _load_into(node, what), nodes))


def give_copy(root: Path, directory: Path) -> None:
    """Make `root` a containerd root directory with every image of the seed store, remembered in `directory`."""
    with _seed_locked():
        seed = _seed()
        if containerd.PAUSE_IMAGE not in seed.loaded():
            _load_into(seed, _pause_image())
        root.mkdir(parents=True)
        for name in SHARED_DIRECTORIES:
            origin = seed.directory / "containerd" / name
            _checked("cp", "--archive", "--link", str(origin), str(root / name))
            for database in origin.glob(DATABASES):
                (root / name / database.name).unlink()
                shutil.copy2(database, root / name / database.name)
        shutil.copy2(seed.directory / LOADED, directory / LOADED)


def _seed_locked() -> contextlib.AbstractContextManager[None]:
    return locking.held(paths.cache_dir() / "seed.lock", purpose="the image store", timeout=LOCK_SECONDS)


def _seed() -> Store:
    directory = paths.seed_dir()
    directory.mkdir(parents=True, exist_ok=True)
    return Store("image store", directory, lambda: _seed_daemon(directory / "containerd"))


def _load_into(store: Store, what: Source) -> None:
    known = store.loaded()
    if all(known.get(name) == digest for name, digest in what.digests.items()):
        say(f"  {store.name}: nothing new")
        return
    with step(f"load into {store.name}"), store.open() as ctr:
        what.send(ctr)
        lacking = what.digests.keys() - ctr.images()
        if lacking:
            raise BedError(f"{store.name}: {', '.join(lacking)} did not arrive")
        store.remember(what.digests)


@contextlib.contextmanager
def _seed_daemon(root: Path) -> Iterator[Ctr]:
    """Run a private containerd for the block, in namespaces that take its mounts away with it."""
    with tempfile.TemporaryDirectory(prefix="dtj-seed-") as temporary:
        daemon = containerd.Daemon(root, Path(temporary) / "state")
        configuration = Path(temporary) / "containerd.toml"
        configuration.write_text(containerd.store_configuration(daemon))
        program = str(build.CONTAINERD.directory() / "containerd")
        log = Path(temporary) / "containerd.log"
        process = processes.start("containerd", [*ISOLATED, program, "--config", str(configuration)], log)
        try:
            ctr = Ctr(daemon.socket)
            processes.wait_until(ctr.is_serving, what="the image store", timeout=START_SECONDS, watched={process: log})
            yield ctr
        finally:
            processes.kill([process])


def _pause_image() -> Source:
    layout = paths.seed_dir() / "pause"
    image = oci.write_program_image(layout, containerd.PAUSE_IMAGE, build.PAUSE.directory() / "pause")
    return Source({image.name: image.digest}, lambda ctr: _send_layout(ctr, [image]))


def _send_layout(ctr: Ctr, chosen: Sequence[oci.Image]) -> None:
    known = ctr.blobs()

    def write(pipe: IO[bytes]) -> None:
        oci.write_archive(chosen, pipe, without=known)

    _import(ctr, PIPE, write)


def _send_archive(ctr: Ctr, archive: Path) -> None:
    with archive.open("rb") as content:
        _import(ctr, content, lambda _: None)


def _import(ctr: Ctr, archive: IO[bytes] | int, write: Callable[[IO[bytes]], None]) -> None:
    with tempfile.TemporaryFile() as output:
        running = ctr.start_import(archive, output)
        try:
            if running.stdin is not None:
                with running.stdin as pipe, contextlib.suppress(BrokenPipeError):  # its exit status tells more
                    write(pipe)
            status = running.wait(containerd.IMPORT_SECONDS)
        finally:
            running.kill()
            running.wait()
        output.seek(0)
        if status != 0:
            raise BedError(f"ctr images import failed: {output.read().decode(errors='replace').strip()[-2000:]}")


def _checked(*command: str) -> None:
    done = subprocess.run(command, check=False, text=True, capture_output=True, timeout=COPY_SECONDS)
    if done.returncode != 0:
        raise BedError(f"{command[0]} failed: {done.stderr.strip()[-1000:]}")

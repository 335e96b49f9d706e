"""containerd's configuration, and its client `ctr`."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.cluster import build, requirements
from tests.cluster.errors import BedError

NAMESPACE = "k8s.io"
SNAPSHOTTER = "overlayfs"
PAUSE_IMAGE = "docker.io/dtj-bed/pause:1"
SHORT_SECONDS = 30.0
IMPORT_SECONDS = 1200.0
# Snapshotters and services that a bed never uses; "opt" would make directories under /opt.
UNUSED_PLUGINS = (
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.native",
)
CRI_PLUGINS = ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")


@dataclass(frozen=True)
class Daemon:
    """One containerd: its persistent files, its volatile files, its socket."""

    root: Path
    state: Path

    @property
    def socket(self) -> Path:
        return self.state / "containerd.sock"


def store_configuration(daemon: Daemon) -> str:
    """Return the configuration of a containerd that only keeps images."""
    return _common(daemon, disabled=UNUSED_PLUGINS + CRI_PLUGINS)


def node_configuration(daemon: Daemon, *, cni_configuration: Path) -> str:
    """Return the configuration of a node's containerd."""
    cni_plugins = requirements.cni_directory()
    runc = requirements.which("runc")
    return f"""{_common(daemon, disabled=UNUSED_PLUGINS)}
[plugins.'io.containerd.metadata.v1.bolt']
# A node's files may be lost with the machine.
no_sync = true

[plugins.'io.containerd.cri.v1.images']
snapshotter = '{SNAPSHOTTER}'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{PAUSE_IMAGE}'

[plugins.'io.containerd.cri.v1.runtime']
# Lowering a process's score takes a capability that root in a container or a sandboxed machine lacks.
restrict_oom_score_adj = true
# Loading a profile would change the whole machine.
disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{cni_plugins}']
conf_dir = '{cni_configuration}'
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'runc'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '{runc}'
SystemdCgroup = false
"""


def _common(daemon: Daemon, *, disabled: Sequence[str]) -> str:
    return f"""version = 3
root = '{daemon.root}'
state = '{daemon.state}'
disabled_plugins = {list(disabled)}
[grpc]
address = '{daemon.socket}'
"""


@dataclass(frozen=True)
class Ctr:
    """The client of one containerd; `prefix` is what enters the namespaces in which its socket lies."""

    socket: Path
    prefix: tuple[str, ...] = ()

    def is_serving(self) -> bool:
        return self._run("version", timeout=SHORT_SECONDS).returncode == 0

    def blobs(self) -> set[str]:
        """Return the digests of everything in the content store."""
        return set(self._checked("content", "ls", "--quiet").split())

    def images(self) -> set[str]:
        """Return the names of all images."""
        return set(self._checked("images", "ls", "--quiet").split())

    def remove(self, image: str) -> None:
        """Delete an image and wait until the content that nothing else needs is gone."""
        self._checked("images", "rm", "--sync", image)

    def start_import(self, archive: IO[bytes] | int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start to import an image archive, read from a file or from a pipe to write to."""
        command = self._command("images", "import", "--snapshotter", SNAPSHOTTER, "-")
        return subprocess.Popen(command, stdin=archive, stdout=output, stderr=subprocess.STDOUT)

    def _command(self, *arguments: str) -> list[str]:
        program = str(build.CONTAINERD.directory() / "ctr")
        return [*self.prefix, program, "--address", str(self.socket), "--namespace", NAMESPACE, *arguments]

    def _run(self, *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._command(*arguments), check=False, text=True, capture_output=True, timeout=timeout)

    def _checked(self, *arguments: str) -> str:
        done = self._run(*arguments, timeout=SHORT_SECONDS)
        if done.returncode != 0:
            raise BedError(f"ctr {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

"""Compile the programs of the cluster from their Go modules, once for each set of inputs."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import locking, paths, state
from tests.cluster.console import say, step
from tests.cluster.errors import BedError

KUBERNETES_VERSION = "v1.36.2"
HELM_VERSION = "v4.2.4"
CONTAINERD_VERSION = "v2.2.5"
GO_MINIMUM = (1, 26)
COMPILE_TIMEOUT = 3600.0

LINKER_VARIABLES = {
    "k8s.io/component-base/version.gitVersion": KUBERNETES_VERSION,
    "k8s.io/component-base/version.gitMajor": KUBERNETES_VERSION.removeprefix("v").split(".")[0],
    "k8s.io/component-base/version.gitMinor": KUBERNETES_VERSION.removeprefix("v").split(".")[1],
    "k8s.io/component-base/version.gitCommit": "unknown",
    "k8s.io/component-base/version.gitTreeState": "clean",
    "k8s.io/client-go/pkg/version.gitVersion": KUBERNETES_VERSION,
    "helm.sh/helm/v4/internal/version.version": HELM_VERSION,
    "github.com/containerd/containerd/v2/version.Version": CONTAINERD_VERSION,
}
# No debug information: nobody debugs these programs, and it takes time and space to make.
GO_FLAGS = (
    "-trimpath",
    "-mod=readonly",
    "-buildvcs=false",
    "-gcflags=all=-dwarf=false",
    "-tags=no_btrfs,no_devmapper,no_zfs",
    "-ldflags=-s -w " + " ".join(f"-X {name}={value}" for name, value in LINKER_VARIABLES.items()),
)
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOGC": "400", "GOFLAGS": "", "GOWORK": "off"}


@dataclass(frozen=True)
class Part:
    """Programs that are built together: a directory of the cache named by a hash of their inputs."""

    name: str
    module: str
    programs: tuple[str, ...]
    links: tuple[str, ...] = ()

    @property
    def module_dir(self) -> Path:
        return paths.GO_SOURCES / self.module

    def inputs(self) -> Iterable[Path]:
        yield self.module_dir / "go.mod"
        yield self.module_dir / "go.sum"
        for program in self.programs:
            yield from sorted((self.module_dir / program).glob("*.go"))

    def directory(self) -> Path:
        """Return where the built programs lie, whether they are there or not."""
        digest = hashlib.sha256("\0".join(GO_FLAGS).encode())
        for source in self.inputs():
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
        return paths.binaries_dir() / f"{self.name}-{digest.hexdigest()[:16]}"

    def is_built(self) -> bool:
        return self.directory().is_dir()


KUBE_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl")
ETCD = Part("etcd", ".", ("etcd",))
KUBE = Part("kube", ".", ("kube",), links=KUBE_PROGRAMS)
CONTAINERD = Part("containerd", "runtime", ("containerd", "containerd-shim-runc-v2", "ctr"))
COREDNS = Part("coredns", ".", ("coredns",))
HELM = Part("helm", ".", ("helm",))
PAUSE = Part("pause", ".", ("pause",))
CONTROL_PLANE_PARTS = (ETCD, KUBE)
PROBE = Part("probe", ".", ("probe",))
PARTS = (ETCD, KUBE, CONTAINERD, COREDNS, HELM, PAUSE, PROBE)
# Only the benchmark needs it: no bed has a part of it.
KWOK = Part("kwok", "kwok", ("kwok",))


def require(parts: Iterable[Part]) -> None:
    """Raise BedError unless every one of `parts` is built."""
    lacking = [part.name for part in parts if not part.is_built()]
    if lacking:
        raise BedError(f"not built yet: {', '.join(lacking)}. Run `python3 -m tests.cluster build` first")


def build(parts: Iterable[Part] = PARTS) -> None:
    """Compile those of `parts` that are missing; each is kept as soon as it is done."""
    with locking.held(paths.cache_dir() / "build.lock", purpose="building", timeout=COMPILE_TIMEOUT):
        for part in parts:
            if part.is_built():
                say(f"  {part.name:<44} built already")
                continue
            go = _go()
            with step(f"build {part.name}"):
                _compile(go, part)
        if not state.all_states():
            _remove_outdated()


def _compile(go: str, part: Part) -> None:
    target = part.directory()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{part.name}-") as temporary:
        output = Path(temporary) / "out"
        output.mkdir()
        packages = [f"./{program}" for program in part.programs]
        done = subprocess.run(
            [go, "build", *GO_FLAGS, "-o", f"{output}/", *packages],
            cwd=part.module_dir,
            env=os.environ | GO_ENVIRONMENT,
            check=False,
            text=True,
            capture_output=True,
            timeout=COMPILE_TIMEOUT,
        )
        if done.returncode != 0:
            raise BedError(f"cannot build {part.name}:\n{done.stderr.strip()}")
        for link in part.links:
            (output / link).symlink_to(part.programs[0])
        output.rename(target)


def _remove_outdated() -> None:
    """Delete what was built from other inputs; only called while no bed could still need it."""
    current = {part.directory() for part in (*PARTS, KWOK)}
    for directory in paths.binaries_dir().iterdir():
        if directory not in current and directory.is_dir():
            shutil.rmtree(directory)


def _go() -> str:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    wanted = ".".join(map(str, GO_MINIMUM))
    if go is None:
        raise BedError(f"the Go compiler is missing: install Go {wanted} or newer and put `go` on the PATH")
    done = subprocess.run([go, "env", "GOVERSION"], check=True, text=True, capture_output=True, timeout=60)
    version = done.stdout.strip().removeprefix("go")
    found = tuple(int(number) for number in version.split("-")[0].split(".")[:2] if number.isdigit())
    if found < GO_MINIMUM:
        raise BedError(f"{go} is version {version}, but Go {wanted} or newer is needed")
    return go

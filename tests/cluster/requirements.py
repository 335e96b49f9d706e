"""What must be on the machine before a bed can run: commands, network plugins, rights."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.console import say, step
from tests.cluster.errors import BedError

CNI_DIRECTORIES = (Path("/opt/cni/bin"), Path("/usr/lib/cni"), Path("/usr/libexec/cni"))
CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
APT_TIMEOUT = 600.0


@dataclass(frozen=True)
class Requirement:
    """A command and the Debian package that brings it."""

    command: str
    package: str


CONTROL_PLANE = (Requirement("openssl", "openssl"),)
NODES = (
    Requirement("runc", "runc"),
    Requirement("nft", "nftables"),
    Requirement("iptables", "iptables"),
    Requirement("ip", "iproute2"),
    Requirement("mount", "mount"),
    Requirement("setpriv", "util-linux"),
    Requirement("unshare", "util-linux"),
    Requirement("nsenter", "util-linux"),
)
CNI_PACKAGE = "containernetworking-plugins"


def which(command: str) -> str | None:
    """Find `command`, also where an ordinary user's PATH does not look."""
    return shutil.which(command) or shutil.which(command, path=SYSTEM_PATH)


def cni_directory() -> Path | None:
    """Return the directory that holds every network plugin a node needs."""
    return next((d for d in CNI_DIRECTORIES if all((d / plugin).exists() for plugin in CNI_PLUGINS)), None)


def missing(*, nodes: bool) -> dict[str, str]:
    """Return what is missing, as {what: Debian package}."""
    wanted = CONTROL_PLANE + (NODES if nodes else ())
    lacking = {r.command: r.package for r in wanted if which(r.command) is None}
    if nodes and cni_directory() is None:
        lacking[f"network plugins {', '.join(CNI_PLUGINS)}"] = CNI_PACKAGE
    return lacking


def check(*, nodes: bool) -> None:
    """Raise BedError when this machine or this user cannot run a bed (with nodes or only a control plane)."""
    if nodes and os.geteuid() != 0:
        raise BedError(
            "a bed with nodes needs root (namespaces, links, cgroups): run this command as root, with sudo -E"
        )
    lacking = missing(nodes=nodes)
    if lacking:
        packages = " ".join(sorted(set(lacking.values())))
        raise BedError(
            f"missing on this machine: {', '.join(lacking)}. On Debian or Ubuntu `python3 -m tests.cluster packages` "
            f"installs them (packages {packages}); elsewhere install what they are called there"
        )


def install() -> None:
    """Install the missing Debian packages; raise BedError where that is not possible."""
    lacking = missing(nodes=True)
    if not lacking:
        say("every needed package is installed")
        return
    packages = sorted(set(lacking.values()))
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BedError(f"cannot install {' '.join(packages)} here: that needs root and apt-get; install them yourself")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages]):
        with step(f"install packages: apt-get {arguments[0]}"):
            done = subprocess.run(
                ["apt-get", *arguments],
                env=environment,
                check=False,
                text=True,
                capture_output=True,
                timeout=APT_TIMEOUT,
            )
        if done.returncode != 0:
            raise BedError(f"apt-get {' '.join(arguments)} failed:\n{done.stderr.strip() or done.stdout.strip()}")

"""Prometheus, which the API tier asks the dashboard's queries of, and promtool, which tries the alerts: those of the
PATH, else Debian's, kept in the cache.

Of the package only the programs are taken. To install it would start a server on this machine.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.cluster import locking, paths
from tests.cluster.console import step
from tests.cluster.errors import BedError

PACKAGE = "prometheus"
SERVER = "prometheus"
PROMTOOL = "promtool"
TIMEOUT = 300.0
HINT = "put Prometheus 2.40 or newer on the PATH"


def program(name: str = SERVER) -> Path:
    """Return a program of the package. Raises BedError where there is none."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    if not _kept(name).exists():
        raise BedError(f"there is no {name} yet: run `make prometheus`")
    return _kept(name)


def fetch() -> None:
    """See to it that there is each program. Raises BedError."""
    with locking.held(paths.cache_dir() / "prometheus.lock", purpose="fetching Prometheus", timeout=TIMEOUT):
        lacking = [each for each in (SERVER, PROMTOOL) if shutil.which(each) is None and not _kept(each).exists()]
        if not lacking:
            return
        if shutil.which("apt-get") is None:
            raise BedError(f"Prometheus is missing: {HINT}")
        with step("install Prometheus"), tempfile.TemporaryDirectory(dir=paths.cache_dir()) as temporary:
            _download(Path(temporary))
            unpacked = Path(temporary) / "unpacked"
            (package,) = Path(temporary).glob("*.deb")
            _run(Path(temporary), "dpkg-deb", "--extract", str(package), str(unpacked))
            for each in lacking:
                _kept(each).parent.mkdir(exist_ok=True)
                (unpacked / "usr" / "bin" / each).rename(_kept(each))


def _kept(name: str) -> Path:
    return paths.cache_dir() / "prometheus" / name


def _download(directory: Path) -> None:
    try:
        _run(directory, "apt-get", "download", "-q", PACKAGE)
    except BedError:  # a fresh machine has no list of packages
        _run(directory, "apt-get", "update", "-q")
        _run(directory, "apt-get", "download", "-q", PACKAGE)


def _run(directory: Path, *command: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, cwd=directory, env=environment, check=False, text=True, capture_output=True, timeout=TIMEOUT
    )
    if done.returncode != 0:
        raise BedError(f"{' '.join(command[:2])} failed; {HINT}:\n{done.stderr.strip() or done.stdout.strip()}")

"""Prometheus, which the API tier asks the dashboard's queries of: that of the PATH, else Debian's, kept in the cache.

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
TIMEOUT = 300.0
HINT = "put Prometheus 2.40 or newer on the PATH"


def program() -> Path:
    """Return the program. Raises BedError where there is none."""
    found = shutil.which("prometheus")
    if found is not None:
        return Path(found)
    if not _kept().exists():
        raise BedError("there is no Prometheus yet: run `make prometheus`")
    return _kept()


def fetch() -> None:
    """See to it that there is one. Raises BedError."""
    with locking.held(paths.cache_dir() / "prometheus.lock", purpose="fetching Prometheus", timeout=TIMEOUT):
        if shutil.which("prometheus") is not None or _kept().exists():
            return
        if shutil.which("apt-get") is None:
            raise BedError(f"Prometheus is missing: {HINT}")
        with step("install Prometheus"), tempfile.TemporaryDirectory(dir=paths.cache_dir()) as temporary:
            _download(Path(temporary))
            unpacked = Path(temporary) / "unpacked"
            (package,) = Path(temporary).glob("*.deb")
            _run(Path(temporary), "dpkg-deb", "--extract", str(package), str(unpacked))
            _kept().parent.mkdir(exist_ok=True)
            (unpacked / "usr" / "bin" / "prometheus").rename(_kept())


def _kept() -> Path:
    return paths.cache_dir() / "prometheus" / "prometheus"


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

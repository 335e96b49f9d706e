"""Where the test bed keeps its files, all below one cache directory."""

import os
from pathlib import Path

GO_SOURCES = Path(__file__).parent / "go"


def cache_dir() -> Path:
    """Return the directory of everything that is kept: `DTJ_CACHE_DIR`, else `dtj` in the user's cache directory."""
    chosen = os.environ.get("DTJ_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "dtj"


def binaries_dir() -> Path:
    return cache_dir() / "bin"


def beds_dir() -> Path:
    return cache_dir() / "beds"


def seed_dir() -> Path:
    return cache_dir() / "seed"

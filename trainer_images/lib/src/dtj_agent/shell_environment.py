"""What a shell does to the environment of what it starts: found out beneath it, and put right above it.

``sh`` is often dash or busybox, which pass on only variables whose names they could use themselves (not ``my.key``,
which a ConfigMap may well have), and shells set some of their own. The container's environment, as it was, is that of
the shell's own process. It travels in an option of the agent, because the shell becomes the agent.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

SHELLS_OWN = ("PWD", "OLDPWD", "SHLVL", "_")
_SEPARATOR = b"\0"


def lost() -> str:
    """Those variables of the parent process, a shell, that it changes or drops, as text for ``restore``.

    Empty where the parent cannot be looked at.
    """
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:  # noqa: PTH123 - importing pathlib takes long
            entries = file.read().split(_SEPARATOR)
    except OSError:
        return ""
    return _SEPARATOR.join(entry for entry in entries if _is_at_risk(entry.partition(b"=")[0])).hex()


def restore(lost_entries: str, environ: MutableMapping[str, str]) -> None:
    """Make ``environ`` what it was before the shell. Raises ValueError for what ``lost`` has not written."""
    before = dict(_pair(entry) for entry in bytes.fromhex(lost_entries).split(_SEPARATOR) if entry.partition(b"=")[1])
    for name in SHELLS_OWN:
        environ.pop(name, None)
    environ.update(before)


def _is_at_risk(name: bytes) -> bool:
    text = name.decode("latin-1")
    return bool(name) and (text in SHELLS_OWN or not (text.isascii() and text.isidentifier()))


def _pair(entry: bytes) -> tuple[str, str]:
    name, _, value = entry.partition(b"=")
    return os.fsdecode(name), os.fsdecode(value)

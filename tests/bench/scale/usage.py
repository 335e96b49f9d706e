"""Processor time and memory of processes, from /proc."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_FORGET_THE_PEAK = "5"
"""What /proc/PID/clear_refs takes for that (proc(5))."""


@dataclass(frozen=True)
class Usage:
    """Of one process: CPU in seconds, memory in MB, the highest since the beginning of the measurement."""

    cpu_s: float
    peak_rss_mb: float


class Meter:
    """What processes use from now on; their names are the caller's."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        for pid in self._pids.values():
            Path(f"/proc/{pid}/clear_refs").write_text(_FORGET_THE_PEAK, encoding="ascii")
        self._before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    def read(self) -> dict[str, Usage]:
        return {
            name: Usage(cpu_seconds(pid) - self._before[name], peak_rss_mb(pid)) for name, pid in self._pids.items()
        }


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads; that of its children does not count."""
    return cpu_of(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")) / _TICKS


def cpu_of(stat: str) -> int:
    """Clock ticks in the content of /proc/PID/stat, whatever the program is called."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def peak_rss_mb(pid: int) -> float:
    return peak_of(Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))


def peak_of(status: str) -> float:
    """MB in the content of /proc/PID/status, which says kB and means KiB."""
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6

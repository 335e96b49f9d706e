"""What happens to a pod from outside of Kubernetes: its processes are this machine's, so the machine can end them."""

import os
import signal
import time
from pathlib import Path

from tests.kubectl import Object


def kill(pod: Object, container: str) -> float:
    """End all processes of a running container by SIGKILL; the time of it in seconds since 1970."""
    processes = processes_of(pod, container)
    moment = time.time()
    for process in processes:
        os.kill(process, signal.SIGKILL)
    return moment


def processes_of(pod: Object, container: str) -> list[int]:
    """Ids of a container's processes, found by the cgroup that is named after the container."""
    name = pod["metadata"]["name"]
    known = {status["name"]: status.get("containerID", "") for status in pod["status"].get("containerStatuses", [])}
    identity = known.get(container, "").rpartition("/")[2]
    assert identity, f"container {container} of pod {name} has not started"
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cgroup") if identity in _text(path)]
    assert found, f"no process of container {container} of pod {name} runs on this machine"
    return found


def _text(path: Path) -> str:
    """Processes end while one looks at them."""
    try:
        return path.read_text()
    except OSError:
        return ""

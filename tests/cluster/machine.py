"""The first process of a node's own namespaces: prepares them, runs the node's daemons, reaps what they leave.

Run as a program of its own (by `unshare`), told what to do by one JSON document on its standard input. Whoever kills
it ends every process, mount and interface of the node: the kernel takes them away with the namespaces.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NODE = "/run/node"
PRIVATE_TREES = ("/etc", "/opt", "/var")
RESTART_SECONDS = 1.0
POLL_SECONDS = 0.02
COMMAND_SECONDS = 30.0
# What kubelet would otherwise write into the kernel of the whole machine; it leaves alone what already reads like this.
KUBELET_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def main() -> None:
    configuration = json.load(sys.stdin)
    if not configuration:
        sys.exit("no configuration: the command that started this node has gone")
    prepare_files(configuration)
    prepare_network(configuration)
    os.environ.update({"PATH": configuration["path"], "TMPDIR": "/run/tmp", "HOME": "/run"})
    supervise(configuration["daemons"], Path(configuration["runtime_socket"]))


def prepare_files(configuration: dict[str, Any]) -> None:
    """Make what the daemons write outside of the node's directory private to this mount namespace."""
    node = os.open(configuration["directory"], os.O_PATH)
    cache = os.open(configuration["cache"], os.O_PATH)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for tree in PRIVATE_TREES:
        upper, work = Path(f"/run/private{tree}/upper"), Path(f"/run/private{tree}/work")
        upper.mkdir(parents=True)
        work.mkdir()
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={tree},upperdir={upper},workdir={work}", tree)
    # The cache may lie below one of those trees, where containerd's own overlays would not work.
    bind_descriptor(cache, configuration["cache"])
    Path(NODE).mkdir()
    bind_descriptor(node, NODE)
    Path("/run/tmp").mkdir(mode=0o1777)
    for name, value in KUBELET_SYSCTLS.items():
        stand_in = Path("/run/sysctl") / name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.write_text(value + "\n")
        run("mount", "--bind", str(stand_in), f"/proc/sys/{name}")
    resolver = Path("/etc/resolv.conf")
    resolver.unlink(missing_ok=True)  # it may be a link to a file below /run, which is empty now
    resolver.write_text(configuration["resolver"])


def bind_descriptor(descriptor: int, target: str) -> None:
    """Mount the directory opened before, wherever its path leads by now."""
    run("mount", "--bind", f"/proc/self/fd/{descriptor}", target, descriptors=(descriptor,))
    os.close(descriptor)


def prepare_network(configuration: dict[str, Any]) -> None:
    socket.sethostname(configuration["name"])
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", configuration["address"], "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    for destination, via in configuration["routes"].items():
        run("ip", "route", "add", destination, *(("via", via) if via else ()), "dev", "eth0")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def supervise(daemons: dict[str, list[str]], runtime_socket: Path) -> None:
    """Start the daemons, and again whenever one ends; wait for every orphan. Ends only by being killed."""
    running: dict[int, str] = {}
    for name, command in daemons.items():
        running[start(name, command)] = name
        # The first is the container runtime, without which kubelet gives up at once.
        wait_for(runtime_socket)
    while True:
        pid, status = os.wait()
        name = running.pop(pid, "")
        if name:
            print(f"{name} ended with wait status {status}; starting it again", flush=True)
            time.sleep(RESTART_SECONDS)
            running[start(name, daemons[name])] = name


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + COMMAND_SECONDS
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def start(name: str, command: list[str]) -> int:
    with Path(NODE, "logs", f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True).pid


def run(*command: str, descriptors: tuple[int, ...] = ()) -> None:
    subprocess.run(command, check=True, timeout=COMMAND_SECONDS, pass_fds=descriptors)


if __name__ == "__main__":
    main()

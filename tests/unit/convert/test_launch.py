"""Command lines of launchers: what they start, how often, and with which variables."""

import pytest

from dtj.convert.launch import Launch, read_launch

TRAIN = ["python", "train.py"]

READ: dict[str, tuple[list[str], Launch]] = {
    "horovodrun": (["horovodrun", "-np", "4", *TRAIN], Launch("horovodrun", TRAIN, 4)),
    "with a path": (["/usr/local/bin/mpirun", "--np", "2", *TRAIN], Launch("mpirun", TRAIN, 2)),
    "joined by =": (["mpirun", "--np=2", *TRAIN], Launch("mpirun", TRAIN, 2)),
    "no number": (["mpiexec", *TRAIN], Launch("mpiexec", TRAIN)),
    "an end of the options": (["mpirun", "-n", "2", "--", *TRAIN], Launch("mpirun", TRAIN, 2)),
    "variables of Open MPI": (
        ["mpirun", "-x", "A=b=c", "-x", "PATH", *TRAIN],
        Launch("mpirun", TRAIN, None, {"A": "b=c", "PATH": None}),
    ),
    "variables of Intel MPI": (["mpirun", "-genv", "A", "b", *TRAIN], Launch("mpirun", TRAIN, None, {"A": "b"})),
    "a directory": (["mpirun", "-wdir", "/src", *TRAIN], Launch("mpirun", TRAIN, directory="/src")),
    "options with no, one and two values": (
        ["mpirun", "--allow-run-as-root", "-bind-to", "none", "-mca", "btl", "^openib", *TRAIN],
        Launch("mpirun", TRAIN, stripped=["--allow-run-as-root", "-bind-to none", "-mca btl ^openib"]),
    ),
    "elastic": (["horovodrun", "--min-np", "1", *TRAIN], Launch("horovodrun", TRAIN, elastic=["--min-np 1"])),
    "tuning": (["horovodrun", "--log-level", "INFO", *TRAIN], Launch("horovodrun", TRAIN, tuning=["--log-level INFO"])),
    "a shell": (["bash", "-c", "exec mpirun -n 2 \\\n  python 'train.py'"], Launch("mpirun", TRAIN, 2)),
}


@pytest.mark.parametrize(("words", "expected"), READ.values(), ids=READ.keys())
def test_read(words: list[str], expected: Launch) -> None:
    assert read_launch(words) == expected


NOT_READ = {
    "nothing": [],
    "another launcher": ["deepspeed", "train.py"],
    "an unknown option": ["mpirun", "--colour", "blue", *TRAIN],
    "a number that is none": ["mpirun", "-np", "$N", *TRAIN],
    "an option without its value": ["mpirun", "-bind-to"],
    "a variable without a name": ["mpirun", "-x"],
    "a variable without a value": ["mpirun", "-genv", "A"],
    "no program": ["mpirun", "-np", "2"],
    "a shell with more to do": ["sh", "-c", "sleep 9 && mpirun -n 2 python train.py"],
    "a shell's variables": ["sh", "-c", "mpirun -n $N python train.py"],
    "a quotation that does not end": ["sh", "-c", "mpirun -n 2 python 'train.py"],
}


@pytest.mark.parametrize("words", NOT_READ.values(), ids=NOT_READ.keys())
def test_not_read(words: list[str]) -> None:
    assert read_launch(words) is None

"""Which commands surely start one process."""

import pytest

from dtj.plan.commands import is_one_process

COMMANDS = {
    "python train.py": True,
    "/usr/bin/python3.12 -u train.py": True,
    "python -c print(1)": True,
    "python -W error -X dev train.py": True,
    "python -m train": True,
    "python train.py --launcher torch.distributed.run": True,
    "python -c import-torch torchrun": True,
    "python": True,
    "python -m torch.distributed.run train.py": False,
    "python -mtorch.distributed.run train.py": False,
    "python -u -m accelerate.commands.launch train.py": False,
    "python -m deepspeed.launcher.runner train.py": False,
    "python /opt/venv/bin/torchrun train.py": False,
    "torchrun train.py": False,
    "bash train.sh": False,
    "./train": False,
    "pythonic train.py": False,
    "": False,
}


@pytest.mark.parametrize(("command", "one"), COMMANDS.items())
def test_one_process(command: str, one: bool) -> None:
    assert is_one_process(command.split()) is one

"""Reading commands: does one start a single process, or something that starts several?"""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

_PYTHON: Final = re.compile(r"python[0-9.]*")
_LAUNCHERS: Final = frozenset(
    {
        # modules
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
        "accelerate.commands.accelerate_cli",
        "deepspeed.launcher.runner",
        # the scripts that start them
        "torchrun",
        "accelerate",
        "deepspeed",
        "horovodrun",
    }
)
_OPTIONS_WITH_A_VALUE: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def is_python(word: str) -> bool:
    return _PYTHON.fullmatch(PurePosixPath(word).name) is not None


def is_one_process(words: Sequence[str]) -> bool:
    """Only a plain ``python`` is surely one process; an image's own entry point or a script may well start several."""
    return bool(words) and is_python(words[0]) and _what_python_runs(words[1:]) not in _LAUNCHERS


def _what_python_runs(words: Sequence[str]) -> str:
    """The module, or the last part of the script's path; empty for code, for standard input and for nothing."""
    rest = iter(words)
    for word in rest:
        if word == "-m":
            return next(rest, "")
        if word.startswith("-m"):
            return word.removeprefix("-m")
        if word in {"-c", "-"}:
            return ""
        if word in _OPTIONS_WITH_A_VALUE:
            next(rest, "")
        elif not word.startswith("-"):
            return PurePosixPath(word).name
    return ""

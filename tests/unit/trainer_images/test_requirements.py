"""The lock of the PyTorch image, and what each torch variant takes from it."""

import re

import pytest

from trainer_images.build import ROOT
from trainer_images.pytorch.select_requirements import LEFT_OUT, select

FOLDER = ROOT / "trainer_images"
LOCK = (FOLDER / "pytorch/requirements.lock").read_text()
LOCKS = {"pytorch/requirements": FOLDER / "pytorch", "build-tools": FOLDER}


def names(lines: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", lines, re.MULTILINE))


@pytest.mark.parametrize(
    ("variant", "present", "absent"),
    [
        pytest.param("cuda", {"torch", "triton", "nvidia-nccl-cu13", "numpy", "scikit-learn"}, set(), id="cuda"),
        pytest.param("stubs", {"torch", "numpy", "scikit-learn"}, {"triton", "nvidia-nccl-cu13"}, id="stubs"),
        pytest.param("cpu-index", {"numpy", "scikit-learn"}, {"torch", "triton", "cuda-toolkit"}, id="cpu-index"),
    ],
)
def test_a_variant_differs_in_what_it_leaves_out(variant: str, present: set[str], absent: set[str]) -> None:
    selected = names("\n".join(select(LOCK, variant)))
    assert present <= selected
    assert not absent & selected


def test_the_cuda_variant_installs_the_whole_lock() -> None:
    assert list(select(LOCK, "cuda")) == LOCK.splitlines()


@pytest.mark.parametrize("variant", LEFT_OUT)
def test_hashes_go_with_their_package(variant: str) -> None:
    lock = "torch==1 \\\n    --hash=sha256:aa\nzipp==1 \\\n    --hash=sha256:bb"
    assert list(select(lock, variant))[-2:] == ["zipp==1 \\", "    --hash=sha256:bb"]
    assert ("    --hash=sha256:aa" in select(lock, variant)) is (variant != "cpu-index")


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_what_was_asked_for_with_hashes(name: str) -> None:
    asked = (FOLDER / f"{name}.in").read_text()
    lock = (FOLDER / f"{name}.lock").read_text()
    entries = re.split(r"^(?=[a-z])", lock, flags=re.MULTILINE)[1:]
    assert all(" --hash=sha256:" in entry for entry in entries)
    assert set(re.findall(r"^([a-z-]+)", asked, re.MULTILINE)) <= names(lock)
    assert set(re.findall(r"^[a-z-]+==\S+", asked, re.MULTILINE)) <= set(re.findall(r"^\S+", lock, re.MULTILINE))

"""The locks of the images: whole, at one in what they share, and what each variant takes from them."""

import itertools
import re

import pytest

from trainer_images.build import ROOT
from trainer_images.pytorch.select_requirements import LEFT_OUT, select

FOLDER = ROOT / "trainer_images"
LOCK = (FOLDER / "pytorch/requirements.lock").read_text()
LOCKS = sorted(str(path.relative_to(FOLDER)).removesuffix(".lock") for path in FOLDER.rglob("*.lock"))
IMAGE_LOCKS = [name for name in LOCKS if name.endswith("/requirements")]


def names(lines: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", lines, re.MULTILINE))


def versions(lock: str) -> dict[str, set[str]]:
    """Each package with its version on Linux, or versions where they depend on Python's."""
    found: dict[str, set[str]] = {}
    for name, pinned in re.findall(r"^([a-z0-9-]+)(==[^\\\n]+)", (FOLDER / f"{lock}.lock").read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(pinned.strip().removesuffix(" ; sys_platform == 'linux'"))
    return found


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
    pins = re.findall(r"^([a-z-]+)(?:\[.*\])?(==\S+)", asked, re.MULTILINE)
    assert {"".join(pin) for pin in pins} <= set(re.findall(r"^\S+", lock, re.MULTILINE))


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(IMAGE_LOCKS, 2)))
def test_what_two_images_both_have_has_one_version(one: str, other: str) -> None:
    first, second = versions(one), versions(other)
    common = first.keys() & second.keys()
    assert common
    assert {name: first[name] for name in common} == {name: second[name] for name in common}


@pytest.mark.parametrize(
    ("image", "variant", "present", "absent"),
    [
        pytest.param(
            "tensorflow",
            "cuda",
            {"tensorflow", "tf-keras", "nvidia-nccl-cu12"},
            {"tensorflow-cpu", "libclang"},
            id="TensorFlow for GPUs",
        ),
        pytest.param(
            "tensorflow",
            "cpu",
            {"tensorflow-cpu", "tf-keras"},
            {"tensorflow", "nvidia-nccl-cu12", "libclang"},
            id="TensorFlow for CPUs",
        ),
        pytest.param(
            "jax",
            "cuda",
            {"jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt", "nvidia-nccl-cu12"},
            set(),
            id="JAX for GPUs",
        ),
        pytest.param(
            "jax",
            "cpu",
            {"jax", "jaxlib"},
            {"jax-cuda12-plugin", "jax-cuda12-pjrt", "nvidia-nccl-cu12"},
            id="JAX for CPUs",
        ),
    ],
)
def test_a_variant_leaves_out_the_other(image: str, variant: str, present: set[str], absent: set[str]) -> None:
    dockerfile = (FOLDER / image / "Dockerfile").read_text()
    patterns = dict(re.findall(r"^ +(\w+)\) left_out='(.+)' ;;", dockerfile, re.MULTILINE))
    assert patterns.keys() == {"cuda", "cpu"}
    entries = re.findall(r"^[a-z].*", (FOLDER / image / "requirements.lock").read_text(), re.MULTILINE)
    selected = names("\n".join(entry for entry in entries if not re.search(patterns[variant], entry)))
    assert present | {"numpy", "scikit-learn"} <= selected
    assert not absent & selected

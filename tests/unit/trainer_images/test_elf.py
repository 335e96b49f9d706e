"""The two build steps that make a CUDA build of torch load on a machine without CUDA, on tiny libraries."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainer_images.pytorch.cuda_stubs import missing_symbols, write_stub
from trainer_images.pytorch.drop_gpu_code import drop_gpu_code

pytestmark = pytest.mark.skipif(shutil.which("ld") is None, reason="needs as and ld (binutils)")

MEBIBYTE = 1 << 20


def link(library: Path, assembly: str, *options: str | Path) -> Path:
    source, compiled = library.with_name("source.s"), library.with_name("compiled.o")
    source.write_text('.section .note.GNU-stack,"",%progbits\n.text\n' + assembly)
    subprocess.run(["as", source, "-o", compiled], check=True, timeout=60)
    subprocess.run(
        ["ld", "-shared", "-soname", library.name, compiled, *options, "-o", library], check=True, timeout=60
    )
    return library


def loaded(library: Path, expression: str) -> subprocess.CompletedProcess[str]:
    """Load the library in a process of its own and print the value of an expression about it."""
    code = f"import ctypes; library = ctypes.CDLL({str(library)!r}); number = ctypes.c_int; print({expression})"
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)


def consumer_of(folder: Path, library: str, *options: str | Path) -> Path:
    """A library that holds the address of a function of another one, which is then deleted."""
    other = link(folder / library, ".globl gpu_call\n.type gpu_call,%function\ngpu_call: .quad 1\n", *options)
    consumer = link(
        folder / "libconsumer.so", ".data\n.globl table\ntable: .quad gpu_call\n", other, "-rpath", "$ORIGIN"
    )
    other.unlink()
    return consumer


@pytest.mark.parametrize("version", ["", "libgpu.so.1"], ids=["without symbol versions", "with symbol versions"])
def test_a_library_loads_with_the_stub_of_what_it_lacks(tmp_path: Path, version: str) -> None:
    script = tmp_path / "versions"
    script.write_text(f"{version} {{ gpu_call; }};")
    options: list[str | Path] = ["--version-script", script] if version else []
    consumer = consumer_of(tmp_path, "libgpu.so.1", *options)
    assert "libgpu.so.1: cannot open shared object file" in loaded(consumer, "library").stderr
    missing = missing_symbols(tmp_path)
    assert missing == {"libgpu.so.1": {version: {"gpu_call"}}}
    write_stub(tmp_path, "libgpu.so.1", missing["libgpu.so.1"])
    assert loaded(consumer, "library.gpu_call()").stdout == "0\n"
    assert missing_symbols(tmp_path) == {}


def library_with_gpu_code(folder: Path, megabytes: int) -> Path:
    return link(
        folder / "libgpu.so",
        f"""
        .section .rodata
        .globl before
        before: .long 41
        .section .nv_fatbin, "a"
        .fill {megabytes} * {MEBIBYTE} / 4, 4, 0x12345678
        .section .zz_constants, "a"
        .globl after
        after: .long 42
        .data
        .globl written
        written: .long 43
        .globl pointer
        pointer: .quad after
        """,
        "--build-id",
    )


def test_gpu_code_is_cut_out_and_all_else_stays_in_place(tmp_path: Path) -> None:
    library = library_with_gpu_code(tmp_path, 4)
    size, mode = library.stat().st_size, library.stat().st_mode
    saved = drop_gpu_code(library)
    assert saved > 3 * MEBIBYTE
    assert library.stat().st_size == size - saved
    assert library.stat().st_mode == mode
    values = "[number.in_dll(library, name).value for name in ('before', 'after', 'written')]"
    assert loaded(library, values).stdout == "[41, 42, 43]\n"
    pointed_at = "ctypes.POINTER(number).in_dll(library, 'pointer').contents.value"
    assert loaded(library, pointed_at).stdout == "42\n"


def test_gpu_code_is_cut_out_once(tmp_path: Path) -> None:
    library = library_with_gpu_code(tmp_path, 4)
    drop_gpu_code(library)
    once = library.read_bytes()
    assert drop_gpu_code(library) == 0
    assert library.read_bytes() == once


def test_a_library_with_little_gpu_code_is_left_alone(tmp_path: Path) -> None:
    library = library_with_gpu_code(tmp_path, 0)
    before = library.read_bytes()
    assert drop_gpu_code(library) == 0
    assert library.read_bytes() == before

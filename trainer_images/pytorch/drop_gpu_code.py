"""Take the GPU code out of torch's CUDA libraries where it can never run, so that the image is a third smaller.

Build step of the PyTorch image, variant "stubs". The code (ELF section .nv_fatbin) is only ever handed to the CUDA
driver, which is not there. Its pages are cut out of the file and out of the loaded segments; every other address
stays as it was.
"""

import argparse
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

GPU_CODE = b".nv_fatbin"
PAGE = 4096
WORTHWHILE = 1 << 20
"""Bytes below which a library is left as it is."""

# The three records of a 64-bit little-endian ELF file, as in elf(5).
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENTS_AT, SECTIONS_AT, SEGMENT_COUNT, SECTION_COUNT, NAMES_INDEX = 5, 6, 10, 12, 13
"""Positions of the header's fields."""
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
PT_LOAD, PT_NOTE, SHT_NOBITS = 1, 4, 8


class Segment(NamedTuple):
    """A program header of a 64-bit ELF file."""

    type: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    alignment: int


class Section(NamedTuple):
    """A section header of a 64-bit ELF file."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    data = file.read(size)
    if len(data) != size:
        raise ValueError(f"{file.name} ends before byte {offset + size}")
    return data


def without(segments: list[Segment], start: int, end: int) -> Iterator[Segment]:
    """The program headers once the file's bytes ``start:end``, inside one loaded segment, are gone.

    That segment becomes two, and the table must not grow: the build's note, which nothing loads, makes room.
    """
    for segment in segments:
        before, after = start - segment.offset, segment.offset + segment.file_size - end
        if segment.type == PT_NOTE:
            continue
        if segment.type == PT_LOAD and before >= 0 and after >= 0:
            yield segment._replace(file_size=before, memory_size=before)
            skipped = end - segment.offset
            yield segment._replace(
                offset=start,
                address=segment.address + skipped,
                physical=segment.physical + skipped,
                file_size=after,
                memory_size=segment.memory_size - skipped,
            )
        elif segment.offset >= end:
            yield segment._replace(offset=segment.offset - (end - start))
        else:
            yield segment


def headers(file: BinaryIO) -> tuple[list[int], list[Segment], list[Section]]:
    """The ELF header's fields, and the two tables that it points to."""
    header = list(HEADER.unpack(read_at(file, 0, HEADER.size)))
    segments = read_at(file, header[SEGMENTS_AT], header[SEGMENT_COUNT] * SEGMENT.size)
    sections = read_at(file, header[SECTIONS_AT], header[SECTION_COUNT] * SECTION.size)
    return (
        header,
        [Segment(*fields) for fields in SEGMENT.iter_unpack(segments)],
        [Section(*fields) for fields in SECTION.iter_unpack(sections)],
    )


def gpu_code(file: BinaryIO, sections: list[Section], names: Section) -> Section | None:
    """The section with the GPU code, when there is enough of it to be worth a rewrite."""
    text = read_at(file, names.offset, names.size)
    for section in sections:
        named = text[section.name :].partition(b"\0")[0] == GPU_CODE
        if named and section.type != SHT_NOBITS and section.size >= WORTHWHILE:
            return section
    return None


def drop_gpu_code(path: Path) -> int:
    """Rewrite the library without its GPU code; the bytes saved, 0 when there is nothing worth it."""
    smaller = path.with_name(path.name + ".smaller")
    with path.open("rb") as file:
        header, segments, sections = headers(file)
        code = gpu_code(file, sections, sections[header[NAMES_INDEX]])
        if code is None:
            return 0
        start = -(-code.offset // PAGE) * PAGE
        end = (code.offset + code.size) // PAGE * PAGE
        saved = end - start
        kept = list(without(segments, start, end))
        if len(kept) > len(segments):
            raise ValueError(f"{path}: no room in the program header table")
        moved = [
            s._replace(type=SHT_NOBITS) if s is code else s._replace(offset=s.offset - saved * (s.offset >= end))
            for s in sections
        ]
        header[SEGMENT_COUNT] = len(kept)
        header[SECTIONS_AT] -= saved * (header[SECTIONS_AT] >= end)
        with smaller.open("wb") as target:
            copy(file, target, 0, start)
            copy(file, target, end, path.stat().st_size)
            write_at(target, 0, HEADER.pack(*header))
            write_at(target, header[SEGMENTS_AT], b"".join(SEGMENT.pack(*s) for s in kept))
            write_at(target, header[SECTIONS_AT], b"".join(SECTION.pack(*s) for s in moved))
    smaller.chmod(path.stat().st_mode)
    smaller.replace(path)
    return saved


def copy(source: BinaryIO, target: BinaryIO, start: int, end: int) -> None:
    source.seek(start)
    while start < end:
        block = source.read(min(1 << 20, end - start))
        target.write(block)
        start += len(block)


def write_at(file: BinaryIO, offset: int, data: bytes) -> None:
    file.seek(offset)
    file.write(data)


def main() -> int:
    parser = argparse.ArgumentParser(description="Take the GPU code out of shared libraries that will never use it.")
    parser.add_argument("directory", type=Path, help="torch/lib in site-packages")
    directory: Path = parser.parse_args().directory
    for path in sorted(directory.glob("lib*cuda*.so")) + sorted(directory.glob("lib*nvshmem.so")):
        print(f"{path.name}: {drop_gpu_code(path) >> 20} MiB dropped")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Let a CUDA build of PyTorch be imported where no CUDA library is installed.

Build step of the PyTorch image, variant "stubs". The libraries of torch are linked against CUDA's, so the dynamic
linker refuses to load them without. For each such library that is missing, this writes a shared object of the same
name next to torch's own whose functions do nothing but return 0; `torch.cuda.is_available()` is then False.

Needs readelf, nm, as and ld (Debian package binutils).
"""

import argparse
import platform
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

RETURN_ZERO = {"x86_64": "xorl %eax, %eax\n ret", "aarch64": "mov x0, #0\n ret"}

FROM_INTERPRETER = re.compile(r"_?Py")
UNVERSIONED = ""
Versions = dict[str, set[str]]
"""Symbols by their version."""


@dataclass
class SharedObject:
    """What one library asks of others, as the dynamic linker sees it."""

    needed: set[str]
    version_files: dict[str, str]
    """Symbol version to the library that has it."""
    undefined: list[tuple[str, str]]
    """Symbol and version; the version is empty where the library asks for none."""
    defined: set[str]


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def read(path: Path) -> SharedObject:
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-dW", path)))
    version_files: dict[str, str] = {}
    library = ""
    for kind, name in re.findall(r"\b(File|Name): (\S+)", output_of("readelf", "-VW", path)):
        if kind == "File":
            library = name
        elif library:
            version_files[name] = library
    undefined = []
    # Strong references only: a weak one may stay unresolved.
    for line in re.findall(r"^ +U (\S+)$", output_of("nm", "-D", "--undefined-only", path), re.MULTILINE):
        symbol, _, version = line.partition("@")
        undefined.append((symbol, version.lstrip("@")))
    defined = re.findall(r" (\S+)$", output_of("nm", "-D", "--defined-only", path), re.MULTILINE)
    return SharedObject(needed, version_files, undefined, {symbol.partition("@")[0] for symbol in defined})


def installed_libraries() -> dict[str, Path]:
    """Names that the dynamic linker finds by itself, with their paths."""
    known = re.findall(r"^\s+(\S+) .*=> (\S+)$", output_of("ldconfig", "-p"), re.MULTILINE)
    return {name: Path(path) for name, path in known}


def missing_symbols(directory: Path) -> dict[str, Versions]:
    """What each library would have to export that the libraries in ``directory`` need and that is nowhere."""
    ours = {path.name: read(path) for path in sorted(directory.glob("*.so*")) if path.is_file()}
    installed = installed_libraries()
    needed = set().union(*(consumer.needed for consumer in ours.values()))
    theirs = [read(installed[name]) for name in sorted(needed & installed.keys())]
    provided = set().union(*(library.defined for library in (*ours.values(), *theirs)))
    absent = needed - ours.keys() - installed.keys()
    stubs: dict[str, Versions] = {library: defaultdict(set) for library in absent}
    for consumer in ours.values():
        # Nothing says which library has a symbol without a version, and the linker takes it from any.
        candidates = (consumer.needed & absent) - set(consumer.version_files.values())
        for symbol, version in consumer.undefined:
            if version and consumer.version_files[version] in absent:
                stubs[consumer.version_files[version]][version].add(symbol)
            elif not version and symbol not in provided and not FROM_INTERPRETER.match(symbol):
                for library in candidates:
                    stubs[library][UNVERSIONED].add(symbol)
    return stubs


def write_stub(directory: Path, library: str, versions: Versions) -> None:
    """Write a shared object whose functions are all the same one: it returns 0."""
    assembly = ['.section .note.GNU-stack,"",%progbits', ".text"]
    for symbol in sorted(set().union(*versions.values())):
        assembly += [f".globl {symbol}", f".type {symbol}, %function", f"{symbol}:"]
    assembly += [RETURN_ZERO[platform.machine()], ""]
    script = [f"{version} {{ {'; '.join(sorted(symbols))}; }};" for version, symbols in versions.items() if version]
    with tempfile.TemporaryDirectory() as scratch:
        source, compiled, version_script = (Path(scratch, name) for name in ("stub.s", "stub.o", "versions"))
        source.write_text("\n".join(assembly))
        version_script.write_text("\n".join(script))
        output_of("as", source, "-o", compiled)
        versioned: list[str | Path] = ["--version-script", version_script] if script else []
        output_of("ld", "-shared", "-soname", library, *versioned, compiled, "-o", directory / library)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write stand-ins for the CUDA libraries that torch needs.")
    parser.add_argument("directory", type=Path, help="torch/lib in site-packages")
    directory: Path = parser.parse_args().directory
    if platform.machine() not in RETURN_ZERO:
        sys.exit(f"no stubs for {platform.machine()}: known are {', '.join(RETURN_ZERO)}")
    for library, versions in sorted(missing_symbols(directory).items()):
        write_stub(directory, library, versions)
        print(f"{library}: {len(set().union(*versions.values()))} symbols")
    return 0


if __name__ == "__main__":
    sys.exit(main())

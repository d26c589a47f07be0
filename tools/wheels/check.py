"""Check a built wheel for faults that auditwheel and abi3audit miss.

    python tools/wheels/check.py WHEEL SOURCE

The list of its files, its size, the exported names, and undefined symbols without a version or
newer than the platform tag allows: a cross-linker that misses a helper of the compiler leaves it
undefined without a word.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

#: Of a board's wheel, and of a PC's, which has each kernel for AVX2, too.
MAX_BYTES, MAX_PC_BYTES = 1_000_000, 1 << 20
MAX_GLIBC = (2, 17)
EXTENSION = "rknn_runtime/_rkr.abi3.so"
SIMULATED = "rknn_runtime/sim/librknn_sim.so"
OPEN = "rknn_runtime/sim/librknn_open.so"
BOARD = "rknn_runtime/sim/librknn_board.so"
LINKED = "rknn_runtime/librknn_linked.so"
DIST_INFO = {
    *("METADATA", "RECORD", "WHEEL", "licenses/LICENSE", "top_level.txt", "entry_points.txt")
}
#: Imports without a version: CPython's, hooks that the dynamic linker may leave empty, and
#: marks of ARM's unwind tables, which stand for no relocation.
UNVERSIONED = re.compile(
    r"_?Py[A-Z_]|__gmon_start__|_ITM_|__cxa_finalize|_Jv_|__aeabi_unwind_cpp_pr[012]$"
)
NEEDED = re.compile(
    r"(lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux-(aarch64|armhf|x86-64)\.so\.\d|libc\.musl-\w+\.so\.1)$"
)
EXPORTS = {
    EXTENSION: re.compile(r"(PyInit|_cffi_pypyinit)__rkr$"),
    SIMULATED: re.compile(r"(rknn|rkr)_\w+$"),
    OPEN: re.compile(r"rknn_\w+$"),
    BOARD: re.compile(r"\w+$"),  # functions of the C library
    LINKED: re.compile(r"rknn_\w+$"),
}


def expected_files(source: Path, metadata: str, *, linked: bool) -> set[str]:
    """Return the names of the files that a wheel of these sources holds."""
    files = {str(path.relative_to(source)) for path in source.glob("rknn_runtime/**/*.py")}
    for pattern in ("rknn_runtime/**/*.xz", "rknn_runtime/**/*.html"):
        files |= {str(path.relative_to(source)) for path in source.glob(pattern)}
    files |= {str(path.relative_to(source)) for path in source.glob("rknn_runtime/*/data/*")}
    files |= {"rknn_runtime/py.typed", EXTENSION, SIMULATED, OPEN, BOARD}
    files |= {LINKED} if linked else set()
    return files | {metadata.replace("METADATA", name) for name in DIST_INFO}


def glibc_version(name: str) -> tuple[int, ...]:
    """Return the number in the name of a symbol version, as in GLIBC_2.17."""
    return tuple(map(int, name[len("GLIBC_") :].split(".")))


def faults_of_library(name: str, elf: ELFFile, *, musl: bool) -> list[str]:
    """Return the faults of one shared library of the wheel.

    The open runtime uses the emulator and the reader of the simulated one, in the same folder.
    """
    beside = Path(SIMULATED).name if name == OPEN else None
    versions: dict[int, str] = {}
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, auxiliaries in section.iter_versions():
                versions.update({aux["vna_other"]: aux.name for aux in auxiliaries})
    faults = []
    table = elf.get_section_by_name(".gnu.version")
    for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        if not symbol.name:
            continue
        if symbol["st_shndx"] != "SHN_UNDEF":
            if not EXPORTS[name].match(symbol.name):
                faults.append(f"exports {symbol.name}")
            continue
        version = versions.get(table.get_symbol(index)["ndx"]) if table is not None else None
        weak = symbol["st_info"]["bind"] == "STB_WEAK"
        if beside is not None and symbol.name.startswith("rkr_"):
            continue
        if version is None and not musl and not weak and not UNVERSIONED.match(symbol.name):
            faults.append(f"needs {symbol.name}, which no library is named for")
        if (version or "").startswith("GLIBC_") and glibc_version(version) > MAX_GLIBC:
            faults.append(f"needs {symbol.name}@{version}")
    for tag in elf.get_section_by_name(".dynamic").iter_tags():
        if tag.entry.d_tag == "DT_NEEDED" and tag.needed != beside:
            faults += [] if NEEDED.match(tag.needed) else [f"needs the library {tag.needed}"]
        if tag.entry.d_tag == "DT_RUNPATH" and beside is not None and tag.runpath == "$ORIGIN":
            continue
        if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH", "DT_TEXTREL"):
            faults.append(f"has {tag.entry.d_tag}")
    return [f"{name}: {fault}" for fault in faults]


def program(name: str, source: bytes) -> str:
    """Return a Python file as a tree that tells equal programs, with the numbers of lines.

    Comments are ignored, and docstrings of private names, ``_x``, of all within them, and of all
    within private files: the command line's, and those with such a name.
    """
    tree = ast.parse(source)
    file = Path(name)
    is_private = file.parent.name == "cli" or re.match("_(?!_)", file.name) is not None
    drop_docstrings(tree, is_private=is_private)
    return ast.dump(tree, include_attributes=True)


def drop_docstrings(node: ast.AST, *, is_private: bool) -> None:
    """Take away the docstrings of private functions and undecorated classes."""
    for child in ast.iter_child_nodes(node):
        is_inside = is_private
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            is_inside = is_private or re.match("_(?!_)", child.name) is not None
            has_text = ast.get_docstring(child) is not None and len(child.body) > 1
            is_made = isinstance(child, ast.ClassDef) and child.decorator_list
            if is_inside and has_text and not is_made:
                del child.body[0]
        drop_docstrings(child, is_private=is_inside)


def check_wheel(wheel: Path, source: Path, *, linked: bool = False) -> None:
    """Stop the program with the list of faults if `wheel` differs from `source`.

    A wheel with a linked-in runtime holds one library more and may be of any size.
    """
    faults = []
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        expected = expected_files(source, metadata, linked=linked)
        faults += [f"missing: {name}" for name in sorted(expected - names)]
        faults += [f"does not belong here: {name}" for name in sorted(names - expected)]
        for name in sorted(n for n in expected & names if n.endswith(".py")):
            ours, theirs = (source / name).read_bytes(), archive.read(name)
            is_exact = name.endswith("torch_standin.py")
            if theirs != ours and (is_exact or program(name, theirs) != program(name, ours)):
                faults.append(f"{name}: another program than its source")
        for name in sorted(EXPORTS.keys() & names):
            elf = ELFFile(io.BytesIO(archive.read(name)))
            faults += faults_of_library(name, elf, musl="musllinux" in wheel.name)
    size = wheel.stat().st_size
    most = MAX_PC_BYTES if "x86_64" in wheel.name else MAX_BYTES
    if size > most and not linked:
        faults.append(f"{size} bytes, at most {most} are wanted")
    if faults:
        raise SystemExit("\n".join([f"{wheel.name}:", *faults]))


if __name__ == "__main__":
    check_wheel(Path(sys.argv[1]), Path(sys.argv[2]))

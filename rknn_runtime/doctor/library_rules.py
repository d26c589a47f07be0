"""Rules about the vendor's libraries."""

from __future__ import annotations

import re
from collections.abc import Callable

from rknn_runtime.doctor.cures import STATIC, fetch, wanted_library
from rknn_runtime.doctor.facts import Facts, LibraryFacts
from rknn_runtime.doctor.log import first_match
from rknn_runtime.doctor.rule import PROBLEM, WARNING, Cause, Judge, Rule, logged

__all__ = ["RULES"]

_WANTED_PATH = re.compile(r"/[\w./-]*librknnm?rt\.so(?=: cannot open)")
_DEPENDENCY = re.compile(r"(lib(?!rknn)[^/ ]+?)\.so\.(\d+)\S* cannot open")
#: Of librknnrt: the first that knows RK3562, and RK3576.
_KNOWS_RK3562, _KNOWS_RK3576 = (1, 5, 0), (2, 0, 0)


def _no_library(facts: Facts) -> Cause | None:
    on_npu = facts.soc or facts.nodes or facts.container or facts.driver == "rknpu"
    if facts.libraries or not on_npu or facts.is_pc:
        return None
    wanted = f"{wanted_library(facts)}.so"
    if facts.container:
        return Cause(
            f"this container has no {wanted}: mount the board's own",
            f"docker run -v /usr/lib/{wanted}:/usr/lib/{wanted}:ro ...",
        )
    return Cause(
        f"there is no {wanted} where it is looked for; fetch it, or name the file in "
        "RKNN_RUNTIME_LIBRARY",
        fetch(facts),
    )


def _misfit(kind: str, text: str, cure: str | Callable[[Facts, LibraryFacts], str]) -> Judge:
    """Judge where no library can be loaded, and this is why the first cannot.

    Args:
        kind: As `LibraryFacts.misfit` returns it; several with commas between them.
        text: With ``{path}``, ``{target}``, ``{libc}``, ``{missing}`` and ``{python}``.
        cure: What repairs it.
    """

    def judge(facts: Facts) -> Cause | None:
        if not facts.libraries or facts.library is not None:
            return None
        named = [each for each in facts.libraries if each.name == f"{wanted_library(facts)}.so"]
        found = (named or list(facts.libraries))[0]
        mine = facts.surroundings.interpreter
        if found.misfit(mine) not in kind.split(","):
            return None
        told = text.format(
            path=found.path,
            target=found.elf.target if found.elf else "",
            libc=found.elf.libc if found.elf else "",
            missing=", ".join(found.missing),
            python=mine.target if mine else "another",
        )
        return Cause(told, cure if isinstance(cure, str) else cure(facts, found))

    return judge


def _refetch(facts: Facts, found: LibraryFacts) -> str:
    right = found.name == f"{wanted_library(facts)}.so"
    return fetch(facts, found.path if right else "")


def _wrong_library(facts: Facts) -> Cause | None:
    runtime = facts.runtime
    if facts.soc is None or runtime is None or runtime.name == facts.soc.runtime:
        return None
    return Cause(
        f"{facts.soc.name} wants {facts.soc.runtime}.so, and there is only {runtime}",
        fetch(facts),
    )


def _older_than_chip(facts: Facts) -> Cause | None:
    runtime, chip = facts.runtime, facts.soc.name if facts.soc else ""
    first = {"rk3562": _KNOWS_RK3562, "rk3576": _KNOWS_RK3576}.get(chip, (0,))
    known = runtime is not None and runtime.version < first
    told = facts.signs & {"unknown target", "hardware version"} and not facts.container
    if not known and not told:
        return None
    return Cause(
        f"{runtime or 'the library that was loaded'} does not know the chip"
        + (f" {chip}: it is older" if known else ": it is older, or of another chip"),
        fetch(facts),
    )


def _log_no_library(facts: Facts) -> Cause | None:
    if "no library" not in facts.signs or facts.library is None:
        return None
    folder, _, name = facts.library.path.rpartition("/")
    wanted = first_match(_WANTED_PATH, facts.log)
    cure = f"export LD_LIBRARY_PATH={folder} && sudo ldconfig {folder}"
    if wanted is not None and wanted[0] != facts.library.path:  # programs with one fixed path
        other = wanted[0].rpartition("/")[0]
        cure = f"sudo mkdir -p {other} && sudo ln -s {facts.library.path} {other}/{name}"
    return Cause(
        f"the program did not find the library, though it is there: {facts.library.path}", cure
    )


def _missing_dependency(facts: Facts) -> Cause | None:
    if "dependency" not in facts.signs:
        return None
    found = first_match(_DEPENDENCY, facts.log)
    name, version = (found[1], found[2]) if found else ("a library", "")
    dash = "-" if name[-1].isdigit() else ""
    return Cause(
        f"the vendor's library needs {name}.so.{version}, which this system does not have",
        f"sudo apt install {name}{dash}{version}",
    )


def _without_core_mask(facts: Facts) -> Cause | None:
    library = facts.library
    if library is None or library.has_core_mask or facts.soc is None or facts.soc.cores < 2:
        return None
    return Cause(
        f"{library.path} has no rknn_set_core_mask: it is older than 1.3, or of another chip, and "
        "cannot choose among the cores",
        fetch(facts),
    )


def _several_libraries(facts: Facts) -> Cause | None:
    found = {
        each.path: each.runtime
        for each in facts.libraries
        if each.runtime and not each.misfit(facts.surroundings.interpreter)
        and each.runtime.name == wanted_library(facts)
    }  # fmt: skip
    if len(set(found.values())) < 2:
        return None
    newest = max(found, key=lambda path: found[path].version if found[path] else (0,))
    listed = ", ".join(f"{path} ({runtime})" for path, runtime in found.items())
    return Cause(
        f"there are several runtimes, and programs differ in which they load: {listed}",
        f"export RKNN_RUNTIME_LIBRARY={newest}",
    )


RULES = (
    Rule("no-library", PROBLEM, "library", _no_library),
    Rule("library-no-elf", PROBLEM, "library", _misfit(
        "foreign",
        "{path} is no library: perhaps the web page of one, or a Git LFS pointer; fetch the raw "
        "file", _refetch)),
    Rule("library-cut", PROBLEM, "library", _misfit(
        "cut", "{path} lacks its end: the copy was interrupted", _refetch)),
    Rule("library-unreadable", PROBLEM, "library", _misfit(
        "unreadable", "{path} cannot be read by this user",
        lambda facts, found: f"sudo chmod 755 {found.path}")),
    Rule("library-machine", PROBLEM, "library", _misfit(
        "machine", "{path} is built for {target}, and this Python is {python}", _refetch)),
    Rule("library-uclibc", PROBLEM, "library", _misfit(
        "uClibc",
        "{path} is made for uClibc, and this Python is not: link the vendor's static archive into "
        "this package, on a PC (docs/boards.md), or take a glibc build of it",
        f'{STATIC} TARGETS="--target manylinux-armv7l"')),
    Rule("library-libc", PROBLEM, "library", _misfit(
        "glibc,musl",
        "{path} is made for {libc}, and this Python is not: the vendor has no library for musl; "
        "take a container or a system with glibc, such as Debian",
        "docker run ... python:3.12-slim-bookworm")),
    Rule("library-no-runtime", PROBLEM, "library", _misfit(
        "symbols", "{path} lacks {missing}: it is no RKNN runtime, or a damaged one", _refetch)),
    Rule("library-chip", PROBLEM, "library", _wrong_library),
    Rule("library-older-than-chip", PROBLEM, "library", _older_than_chip),
    Rule("log-no-elf", PROBLEM, "library", logged(
        "not elf", "the log says that the library is no ELF file of this machine: fetch the raw "
        "file", fetch)),
    Rule("log-no-library", PROBLEM, "library", _log_no_library),
    Rule("missing-dependency", PROBLEM, "library", _missing_dependency),
    Rule("missing-symbol", PROBLEM, "library", logged(
        "symbol",
        "a function is missing in the library that was loaded: it is older than the program, or "
        "another file of that name comes first; take the newest", fetch)),
    Rule("old-header", PROBLEM, "library", logged(
        "old header",
        "the program was built with an older header than the library that was loaded: build it "
        "with the header that came with the library (this package asks for the size that fits)")),
    Rule("no-core-mask", WARNING, "library", _without_core_mask),
    Rule("several-libraries", WARNING, "library", _several_libraries),
)  # fmt: skip

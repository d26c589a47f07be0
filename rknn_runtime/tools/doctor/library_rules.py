"""Rules about the vendor's libraries."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rknn_runtime.modelfile.compatibility import Runtime
from rknn_runtime.tools.doctor.cures import STATIC, fetch, wanted_library
from rknn_runtime.tools.doctor.facts import Facts, LibraryFacts
from rknn_runtime.tools.doctor.log import first_match
from rknn_runtime.tools.doctor.packages import SharedLibrary, lacking_library
from rknn_runtime.tools.doctor.rule import PROBLEM, WARNING, Rule, When, logged

__all__ = ["RULES"]

_WANTED = re.compile(r"(/[\w./-]*/)?(librknn\w*\.so)(?=[.\d]*: (?:cannot open|No such))")
_LATER = 'export LD_LIBRARY_PATH="$PWD/lib:$LD_LIBRARY_PATH"'
#: It looks into fixed folders itself, before the dynamic linker is asked.
_RKNNLITE = re.compile("can ?not find dynamic library on", re.IGNORECASE)
#: Of librknnrt: the first that knows RK3562, and RK3576.
_KNOWS = {"rk3562": (1, 5, 0), "rk3576": (2, 0, 0)}


def _no_library(facts: Facts) -> str:
    on_npu = facts.soc or facts.nodes or facts.container or facts.driver == "rknpu"
    was_loaded = "glibc's symbols" in facts.signs  # by a program that has one of its own
    if facts.libraries or was_loaded or not on_npu or facts.is_pc:
        return ""
    return f"{wanted_library(facts)}.so"


def _unfit(facts: Facts) -> LibraryFacts | None:
    """The library that should be loaded where none can be."""
    if not facts.libraries or facts.library is not None:
        return None
    named = [each for each in facts.libraries if each.name == f"{wanted_library(facts)}.so"]
    return (named or list(facts.libraries))[0]


def _misfit(*kinds: str) -> When:
    """Look whether no library can be loaded, and this is why: see `LibraryFacts.misfit`."""

    def found(facts: Facts) -> LibraryFacts | None:
        unfit = _unfit(facts)
        fits = unfit is None or unfit.misfit(facts.surroundings.interpreter) not in kinds
        return None if fits else unfit

    return found


def _unfit_path(facts: Facts) -> str:
    unfit = _unfit(facts)
    return unfit.path if unfit is not None else ""


def _refetch(facts: Facts) -> str:
    unfit = _unfit(facts)
    right = unfit is not None and unfit.name == f"{wanted_library(facts)}.so"
    return fetch(facts, unfit.path if unfit is not None and right else "")


def _wrong_library(facts: Facts) -> Runtime | None:
    runtime = facts.runtime
    if facts.soc is None or runtime is None or runtime.name == facts.soc.runtime:
        return None
    return runtime


def _older_than_chip(facts: Facts) -> str:
    runtime, chip = facts.runtime, facts.soc.name if facts.soc else ""
    if runtime is not None and runtime.version < _KNOWS.get(chip, (0,)):
        return f"{runtime} does not know the chip {chip}: it is older"
    if facts.container or not facts.signs & {"unknown target", "hardware version"}:
        return ""
    loaded = runtime or "the library that was loaded"
    return f"{loaded} does not know the chip: it is older, or of another chip"


def _log_no_library(facts: Facts) -> LibraryFacts | None:
    return facts.library if "no library" in facts.signs else None


def _let_it_be_found(facts: Facts) -> str:
    path = facts.library.path if facts.library is not None else ""
    folder, _, name = path.rpartition("/")
    match = first_match(_WANTED, facts.log)
    place, wanted = (match[1] or "", match[2]) if match else ("", name)
    if first_match(_RKNNLITE, facts.log):
        place, wanted = "/usr/lib/", name
    if wanted != name and not place:  # the name of older releases, librknn_api.so
        place = "/usr/lib/"
    if place + wanted in (name, path):
        return f"export LD_LIBRARY_PATH={folder} && sudo ldconfig {folder}"
    other = place.rstrip("/")  # programs with one fixed path
    return f"sudo mkdir -p {other} && sudo ln -s {path} {other}/{wanted}"


def _missing_library(facts: Facts, packaged: bool = False) -> SharedLibrary | None:
    """Which library a program did not find; with ``packaged`` only one that a package has."""
    library = lacking_library(facts) if "program's library" in facts.signs else None
    return library if library is None or library.package or not packaged else None


def _without_core_mask(facts: Facts) -> LibraryFacts | None:
    library = facts.library
    if library is None or library.has_core_mask or facts.soc is None or facts.soc.cores < 2:
        return None
    return library


def _runtimes(facts: Facts) -> Mapping[str, Runtime]:
    """What could be loaded, by path."""
    return {
        each.path: each.runtime
        for each in facts.libraries
        if each.runtime and not each.misfit(facts.surroundings.interpreter)
        and each.runtime.name == wanted_library(facts)
    }  # fmt: skip


def _several_libraries(facts: Facts) -> str:
    runtimes = _runtimes(facts)
    if len(set(runtimes.values())) < 2:
        return ""
    return ", ".join(f"{path} ({runtime})" for path, runtime in runtimes.items())


def _take_newest(facts: Facts) -> str:
    runtimes = _runtimes(facts)
    return f"export RKNN_RUNTIME_LIBRARY={max(runtimes, key=lambda path: runtimes[path].version)}"


RULES = (
    Rule("no-library", PROBLEM, "library",
         lambda facts: facts.container and _no_library(facts),
         "docker run -v /usr/lib/{found}:/usr/lib/{found}:ro ...", """
        this container has no {found}: mount the board's own"""),
    Rule("no-library", PROBLEM, "library", _no_library, fetch, """
        there is no {found} where it is looked for; fetch it, or name the file in
        RKNN_RUNTIME_LIBRARY"""),
    Rule("library-damaged", PROBLEM, "library", _misfit("foreign"), _refetch, """
        {found.path} is no library: perhaps the web page of one, or a Git LFS pointer; fetch the
        raw file"""),
    Rule("library-damaged", PROBLEM, "library", _misfit("cut"), _refetch, """
        {found.path} lacks its end: the copy was interrupted"""),
    Rule("library-damaged", PROBLEM, "library", _misfit("symbols"), _refetch, """
        {found.path} lacks {found.missing}: it is no RKNN runtime, or a damaged one"""),
    Rule("library-damaged", PROBLEM, "library", logged("not elf"), fetch, """
        the log says that the library is no ELF file of this machine: fetch the raw file"""),
    Rule("library-folder", PROBLEM, "library", _misfit("folder"),
         lambda facts: f"sudo rmdir {_unfit_path(facts)}\n{_refetch(facts)}", """
        {found.path} is a folder: Docker makes one where the host has no file of a name that -v
        gives; remove it on the host, and put the library in its place"""),
    Rule("library-folder", PROBLEM, "library", logged("mounted folder"), _refetch, """
        the host has no file of a name that -v gives, or a folder: put the library there
        ({found})"""),
    Rule("library-unreadable", PROBLEM, "library", _misfit("unreadable"),
         "sudo chmod 755 {found.path}", """
        {found.path} cannot be read by this user"""),
    Rule("library-machine", PROBLEM, "library", _misfit("machine"), _refetch, """
        {found.path} is built for {found.elf.target}, and this Python is
        {facts.surroundings.interpreter.target}"""),
    Rule("library-libc", PROBLEM, "library", _misfit("uClibc"),
         f'{STATIC} TARGETS="--target manylinux-armv7l"', """
        {found.path} is made for uClibc, and this Python is not: link the vendor's static archive
        into this package, on a PC (docs/boards.md), or take a glibc build of it"""),
    Rule("library-libc", PROBLEM, "library", _misfit("glibc", "musl"),
         "docker run ... python:3.12-slim-bookworm", """
        {found.path} is made for {found.elf.libc}, and this Python is not: the vendor has no
        library for musl; take a container or a system with glibc, such as Debian"""),
    Rule("library-libc", PROBLEM, "library", logged("glibc's symbols"),
         "docker run ... python:3.12-slim-bookworm", """
        a library that was made for glibc was loaded by a program of musl, such as Alpine's
        ({found}): take a container or a system with glibc, such as Debian"""),
    Rule("library-chip", PROBLEM, "library", _wrong_library, fetch, """
        {facts.soc.name} wants {facts.soc.runtime}.so, and there is only {found}"""),
    Rule("library-older-than-chip", PROBLEM, "library", _older_than_chip, fetch, "{found}"),
    Rule("log-no-library", PROBLEM, "library", _log_no_library, _let_it_be_found, """
        the program did not find the library, though it is there: {found.path}"""),
    Rule("missing-dependency", PROBLEM, "library",
         lambda facts: "dependency" in facts.signs and lacking_library(facts),
         "sudo apt install {found.package}", """
        the vendor's library needs {found.file}, which this system does not have"""),
    Rule("missing-dependency", PROBLEM, "library",
         lambda facts: _missing_library(facts, packaged=True),
         f"sudo apt install {{found.package}}\n{_LATER}", """
        the system lacks {found.file}, or the program brought it in a folder where nobody looks"""),
    Rule("missing-dependency", PROBLEM, "library", _missing_library, _LATER, """
        the program did not find {found.file}, which it mostly has in a folder of its own"""),
    Rule("missing-symbol", PROBLEM, "library", logged("symbol"), fetch, """
        a function is missing in the library that was loaded: it is older than the program, or
        another file of that name comes first; take the newest"""),
    Rule("old-header", PROBLEM, "library", logged("old header"), "", """
        the program was built with an older header than the library that was loaded: build it with
        the header that came with the library (this package asks for the size that fits)"""),
    Rule("no-core-mask", WARNING, "library", _without_core_mask, fetch, """
        {found.path} has no rknn_set_core_mask: it is older than 1.3, or of another chip, and
        cannot choose among the cores"""),
    Rule("several-libraries", WARNING, "library", _several_libraries, _take_newest, """
        there are several runtimes, and programs differ in which they load: {found}"""),
)  # fmt: skip

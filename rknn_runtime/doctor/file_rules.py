"""Rules about the vendor's libraries and the model."""

from __future__ import annotations

import re

from rknn_runtime.doctor.facts import Facts, LibraryFacts
from rknn_runtime.doctor.rule import PROBLEM, WARNING, Cause, Rule
from rknn_runtime.modelfile.compatibility import REFUSALS, newer_toolkit, problems
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME

__all__ = ["RULES"]

_PUBLISHED = "https://github.com/airockchip/rknn-toolkit2/raw"
_STATIC = "make wheel-static RKNN_STATIC_LIBRARY=librknnmrt.a"

_WANTED_PATH = re.compile(r"/[\w./-]*librknnm?rt\.so(?=: cannot open)")


def fetch(facts: Facts, target: str = "/usr/lib/librknnrt.so", release: str = "master") -> str:
    """The command that gets the vendor's library: the newest, or of a release as ``v2.3.0``."""
    if _wanted(facts) == MINI_RUNTIME:
        return _STATIC
    interpreter = facts.surroundings.interpreter
    folder = "armhf" if interpreter is not None and interpreter.bits == 32 else "aarch64"
    place = f"{_PUBLISHED}/{release}/rknpu2/runtime/Linux/librknn_api/{folder}"
    return f"sudo wget -O {target} {place}/librknnrt.so && sudo ldconfig"


def _wanted(facts: Facts) -> str:
    return facts.soc.runtime if facts.soc is not None else FULL_RUNTIME


def _on_npu(facts: Facts) -> bool:
    """There is a board whose library matters."""
    known = facts.soc or facts.nodes or facts.container or facts.driver == "rknpu"
    return bool(known) and not facts.is_pc


def _no_library(facts: Facts) -> Cause | None:
    if facts.libraries or not _on_npu(facts):
        return None
    wanted = f"{_wanted(facts)}.so"
    if facts.container:
        return Cause(
            f"this container has no {wanted}: mount the board's own",
            f"docker run -v /usr/lib/{wanted}:/usr/lib/{wanted}:ro ...",
        )
    text = (
        f"there is no {wanted} where it is looked for; fetch it, or name the file in "
        "RKNN_RUNTIME_LIBRARY"
    )
    return Cause(text, fetch(facts))


def _misfitting(facts: Facts, *misfits: str) -> LibraryFacts | None:
    """The first library, where none can be loaded and this is why the first cannot."""
    if not facts.libraries or facts.library is not None:
        return None
    wanted = [each for each in facts.libraries if each.name == f"{_wanted(facts)}.so"]
    first = (wanted or list(facts.libraries))[0]
    return first if first.misfit(facts.surroundings.interpreter) in misfits else None


def _uclibc(facts: Facts) -> Cause | None:
    found = _misfitting(facts, "uClibc")
    if found is None:
        return None
    return Cause(
        f"{found.path} is made for uClibc, and this Python is not: link the vendor's static "
        "archive into this package, on a PC (docs/boards.md), or take a glibc build of it",
        f'{_STATIC} TARGETS="--target manylinux-armv7l"',
    )


def _other_libc(facts: Facts) -> Cause | None:
    found = _misfitting(facts, "glibc", "musl")
    if found is None or found.elf is None:
        return None
    return Cause(
        f"{found.path} is made for {found.elf.libc}, and this Python is not: the vendor has no "
        "library for musl; take a container or a system with glibc, such as Debian",
        "docker run ... python:3.12-slim-bookworm",
    )


def _other_machine(facts: Facts) -> Cause | None:
    found = _misfitting(facts, "machine")
    if found is None or found.elf is None:
        return None
    mine = facts.surroundings.interpreter
    return Cause(
        f"{found.path} is built for {found.elf.target}, and this Python is "
        f"{mine.target if mine else 'another'}",
        fetch(facts, found.path),
    )


def _no_elf(facts: Facts) -> Cause | None:
    found = _misfitting(facts, "foreign")
    if found is None:
        return None
    return Cause(
        f"{found.path} is no library: perhaps the web page of one, or a Git LFS pointer; fetch "
        "the raw file",
        fetch(facts, found.path),
    )


def _cut_library(facts: Facts) -> Cause | None:
    found = _misfitting(facts, "cut")
    if found is None:
        return None
    return Cause(f"{found.path} lacks its end: the copy was interrupted", fetch(facts, found.path))


def _unreadable_library(facts: Facts) -> Cause | None:
    found = _misfitting(facts, "unreadable")
    if found is None:
        return None
    return Cause(f"{found.path} cannot be read by this user", f"sudo chmod 755 {found.path}")


def _no_runtime(facts: Facts) -> Cause | None:
    found = _misfitting(facts, "symbols")
    if found is None:
        return None
    return Cause(
        f"{found.path} lacks {', '.join(found.missing)}: it is no RKNN runtime, or a damaged one",
        fetch(facts, found.path),
    )


def _wrong_library(facts: Facts) -> Cause | None:
    runtime = facts.runtime
    if facts.soc is None or runtime is None or runtime.name == facts.soc.runtime:
        return None
    return Cause(
        f"{facts.soc.name} wants {facts.soc.runtime}.so, and there is only {runtime}",
        fetch(facts),
    )


def _several_libraries(facts: Facts) -> Cause | None:
    found = {
        each.path: each.runtime
        for each in facts.libraries
        if each.runtime and not each.misfit(facts.surroundings.interpreter)
        and each.runtime.name == _wanted(facts)
    }  # fmt: skip
    if len(set(found.values())) < 2:
        return None
    newest = max(found, key=lambda path: found[path].version if found[path] else (0,))
    listed = ", ".join(f"{path} ({runtime})" for path, runtime in found.items())
    return Cause(
        f"there are several runtimes, and programs differ in which they load: {listed}",
        f"export RKNN_RUNTIME_LIBRARY={newest}",
    )


def _older_loaded(facts: Facts) -> Cause | None:
    last, _ = REFUSALS[FULL_RUNTIME]
    runtime = facts.runtime
    if runtime is None or facts.library is None or runtime.version <= last:
        return None
    logged = facts.logged_runtime
    refused = "model version" in facts.signs and runtime.name == FULL_RUNTIME
    if not (logged and logged < runtime.version) and not (refused and not logged):
        return None
    which = ".".join(map(str, logged)) if logged else f"one of {'.'.join(map(str, last))} or older"
    return Cause(
        f"the log is of another library than {facts.library.path} ({runtime}): {which} was "
        "loaded; look for it (find / -name 'librknn*rt.so'), or name the right one",
        f"export RKNN_RUNTIME_LIBRARY={facts.library.path} "
        f"LD_LIBRARY_PATH={facts.library.path.rpartition('/')[0]}",
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


def _missing_symbol(facts: Facts) -> Cause | None:
    if "symbol" not in facts.signs:
        return None
    return Cause(
        "a function is missing in the library that was loaded: it is older than the program, or "
        "another file of that name comes first; take the newest",
        fetch(facts),
    )


def _old_header(facts: Facts) -> Cause | None:
    if "old header" not in facts.signs:
        return None
    return Cause(
        "the program was built with an older header than the library that was loaded: build it "
        "with the header that came with the library (this package asks for the size that fits)"
    )


def _log_no_elf(facts: Facts) -> Cause | None:
    if "not elf" not in facts.signs:
        return None
    return Cause(
        "the log says that the library is no ELF file of this machine: fetch the raw file",
        fetch(facts),
    )


def _log_no_library(facts: Facts) -> Cause | None:
    if "no library" not in facts.signs or facts.library is None:
        return None
    folder, _, name = facts.library.path.rpartition("/")
    wanted = next(filter(None, (_WANTED_PATH.search(line) for line in facts.log)), None)
    cure = f"export LD_LIBRARY_PATH={folder} && sudo ldconfig {folder}"
    if wanted is not None and wanted[0] != facts.library.path:  # programs with one fixed path
        other = wanted[0].rpartition("/")[0]
        cure = f"sudo mkdir -p {other} && sudo ln -s {facts.library.path} {other}/{name}"
    return Cause(
        f"the program did not find the library, though it is there: {facts.library.path}", cure
    )


def _model_cause(facts: Facts, kind: str) -> str:
    model = facts.model
    return f"{model.path}: {model.message}" if model is not None and model.kind == kind else ""


def _rknn1_model(facts: Facts) -> Cause | None:
    text = _model_cause(facts, "rknn1")
    if text:
        return Cause(text, _convert(facts))
    return None


def _rknn3_model(facts: Facts) -> Cause | None:
    text = _model_cause(facts, "rknn3")
    return Cause(text, _convert(facts)) if text else None


def _damaged_model(facts: Facts) -> Cause | None:
    text = _model_cause(facts, "damaged")
    if text and facts.model is not None:
        name = facts.model.path.rpartition("/")[2]
        return Cause(f"{text} (compare the sums of both copies)", f"sha256sum {name}")
    if "magic" in facts.signs and facts.model is None:
        return Cause(
            "the runtime says that the file is no RKNN model: damaged on its way, or of another "
            "kind; compare the sums of both copies",
            "sha256sum model.rknn",
        )
    return None


def _no_model(facts: Facts) -> Cause | None:
    text = _model_cause(facts, "other")
    return Cause(text, _convert(facts)) if text else None


def _convert(facts: Facts) -> str:
    name = facts.soc.name if facts.soc is not None else "rk3588"
    return f"rknn.config(..., target_platform={name!r})  # of rknn-toolkit2, and convert again"


def _encrypted_refused(facts: Facts) -> Cause | None:
    if "encrypted magic" not in facts.signs:
        return None
    return Cause(
        "the runtime does not know encrypted models (it reads the mark CYPTRKNN as a wrong "
        "beginning): use the model as it was before encryption, or a newer runtime",
        fetch(facts),
    )


def _other_target(facts: Facts) -> Cause | None:
    header = facts.model.header if facts.model is not None else None
    if header is not None and facts.soc is not None and header.npu != facts.soc.npu:
        return Cause(problems(header, soc=facts.soc)[0], _convert(facts))
    if header is None and "target" in facts.signs:
        return Cause("the runtime says that the model is for another chip", _convert(facts))
    return None


def _other_container(facts: Facts) -> Cause | None:
    header = facts.model.header if facts.model is not None else None
    runtime = facts.runtime
    if header is None or runtime is None or runtime.name == header.runtime:
        return None
    return Cause(problems(header, runtime=runtime)[0], _convert(facts))


def _model_too_new(facts: Facts) -> Cause | None:
    header = facts.model.header if facts.model is not None else None
    if header is not None and facts.runtime is not None:
        found = problems(header, runtime=facts.runtime)
        if found and facts.runtime.name == header.runtime:
            return Cause(found[0], fetch(facts))
    if "model version" in facts.signs and _wanted(facts) == MINI_RUNTIME:
        return Cause(
            "the runtime refuses the version of the model's container: convert it for this chip "
            "with the toolkit of the runtime",
            _convert(facts),
        )
    last, _ = REFUSALS[FULL_RUNTIME]
    known = facts.runtime.version if facts.runtime else facts.logged_runtime
    if "model version" in facts.signs and (not known or known <= last):
        shown = ".".join(map(str, known)) or "that was loaded"
        return Cause(
            f"the runtime {shown} cannot read the model's container: it is older than the toolkit "
            "that made it; install the newest, or convert the model with the toolkit of the "
            "runtime",
            fetch(facts),
        )
    return None


def _failing_model(facts: Facts) -> Cause | None:
    model, runtime = facts.model, facts.runtime
    if model is None or runtime is None or runtime.name != FULL_RUNTIME:
        return None
    words = [each.words for each in model.failures if runtime.version <= each.last]
    return Cause(f"{runtime} {words[0]}", fetch(facts)) if words else None


def _newer_toolkit(facts: Facts) -> Cause | None:
    header = facts.model.header if facts.model is not None else None
    text = newer_toolkit(header, facts.runtime) if header is not None else ""
    return Cause(f"{facts.model.path}: {text}", fetch(facts)) if text and facts.model else None


def _newer_toolkit_fails(facts: Facts) -> Cause | None:
    return _newer_toolkit(facts) if facts.signs & {"crash", "magic", "submit"} else None


def _encrypted(facts: Facts) -> Cause | None:
    if facts.model is None or facts.model.kind != "encrypted":
        return None
    return Cause(
        f"{facts.model.path} is encrypted: the vendor's runtime may load it, but nothing here can "
        "look into it; if it is refused, try the model as it was before encryption"
    )


def _language_model(facts: Facts) -> Cause | None:
    if "language model" not in facts.signs:
        return None
    return Cause(
        "the file is no model of the RKLLM runtime that was to load it: convert it with the "
        "rkllm-toolkit of that runtime; RKLLM is not a part of this package"
    )


RULES = (
    Rule("no-library", PROBLEM, "library", _no_library),
    Rule("library-no-elf", PROBLEM, "library", _no_elf),
    Rule("library-cut", PROBLEM, "library", _cut_library),
    Rule("library-unreadable", PROBLEM, "library", _unreadable_library),
    Rule("library-machine", PROBLEM, "library", _other_machine),
    Rule("library-uclibc", PROBLEM, "library", _uclibc),
    Rule("library-libc", PROBLEM, "library", _other_libc),
    Rule("library-no-runtime", PROBLEM, "library", _no_runtime),
    Rule("library-chip", PROBLEM, "library", _wrong_library),
    Rule("log-no-elf", PROBLEM, "library", _log_no_elf),
    Rule("log-no-library", PROBLEM, "library", _log_no_library),
    Rule("model-rknn1", PROBLEM, "model", _rknn1_model),
    Rule("model-rknn3", PROBLEM, "model", _rknn3_model),
    Rule("model-damaged", PROBLEM, "model", _damaged_model),
    Rule("model-foreign", PROBLEM, "model", _no_model),
    Rule("model-encrypted-refused", PROBLEM, "model", _encrypted_refused),
    Rule("model-language", PROBLEM, "model", _language_model),
    Rule("model-target", PROBLEM, "model", _other_target),
    Rule("model-container", PROBLEM, "model", _other_container),
    Rule("older-library-loaded", PROBLEM, "library", _older_loaded),
    Rule("model-too-new", PROBLEM, "model", _model_too_new),
    Rule("model-fails", PROBLEM, "model", _failing_model),
    Rule("toolkit-newer-fails", PROBLEM, "model", _newer_toolkit_fails),
    Rule("missing-symbol", PROBLEM, "library", _missing_symbol),
    Rule("old-header", PROBLEM, "library", _old_header),
    Rule("no-core-mask", WARNING, "library", _without_core_mask),
    Rule("toolkit-newer", WARNING, "model", _newer_toolkit),
    Rule("model-encrypted", WARNING, "model", _encrypted),
    Rule("several-libraries", WARNING, "library", _several_libraries),
)

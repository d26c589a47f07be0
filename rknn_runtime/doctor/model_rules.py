"""Rules about the model, by itself and against the runtime that is to load it."""

from __future__ import annotations

from rknn_runtime.doctor.cures import convert, fetch, wanted_library
from rknn_runtime.doctor.facts import Facts
from rknn_runtime.doctor.rule import PROBLEM, WARNING, Cause, Cure, Judge, Rule, logged
from rknn_runtime.modelfile.compatibility import REFUSALS, newer_toolkit, problems
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME

__all__ = ["RULES"]


def _of_kind(kind: str, cure: Cure, text: str = "") -> Judge:
    """Judge a file that is no model, or none that can be looked into.

    Args:
        kind: As in `ModelFacts`.
        cure: What repairs it.
        text: What is said of it; empty: what the reader said.
    """

    def judge(facts: Facts) -> Cause | None:
        model = facts.model
        if model is None or model.kind != kind:
            return None
        told = f"{model.path} {text}" if text else f"{model.path}: {model.message}"
        return Cause(told, cure if isinstance(cure, str) else cure(facts))

    return judge


def _compare_sums(facts: Facts) -> str:
    name = facts.model.path.rpartition("/")[2] if facts.model else "model.rknn"
    return f"sha256sum {name}  # on both machines; then copy it again, in binary mode"


def _other_target(facts: Facts) -> Cause | None:
    header = facts.model.header if facts.model is not None else None
    if header is not None and facts.soc is not None and header.npu != facts.soc.npu:
        return Cause(problems(header, soc=facts.soc)[0], convert(facts))
    if header is None and "target" in facts.signs:
        return Cause("the runtime says that the model is for another chip", convert(facts))
    return None


def _other_container(facts: Facts) -> Cause | None:
    header = facts.model.header if facts.model is not None else None
    runtime = facts.runtime
    if header is None or runtime is None or runtime.name == header.runtime:
        return None
    return Cause(problems(header, runtime=runtime)[0], convert(facts))


def _older_loaded(facts: Facts) -> Cause | None:
    last, _ = REFUSALS[FULL_RUNTIME]
    runtime = facts.runtime
    if runtime is None or facts.library is None or runtime.version <= last:
        return None
    logged_one = facts.logged_runtime
    refused = "model version" in facts.signs and runtime.name == FULL_RUNTIME
    if not (logged_one and logged_one < runtime.version) and not (refused and not logged_one):
        return None
    which = ".".join(map(str, logged_one or last)) + ("" if logged_one else " or older")
    return Cause(
        f"the log is of another library than {facts.library.path} ({runtime}): {which} was "
        "loaded; look for it (find / -name 'librknn*rt.so'), or name the right one",
        f"export RKNN_RUNTIME_LIBRARY={facts.library.path} "
        f"LD_LIBRARY_PATH={facts.library.path.rpartition('/')[0]}",
    )


def _too_new(facts: Facts) -> Cause | None:
    header = facts.model.header if facts.model is not None else None
    if header is not None and facts.runtime is not None:
        found = problems(header, runtime=facts.runtime)
        if found and facts.runtime.name == header.runtime:
            return Cause(found[0], fetch(facts))
    if "model version" not in facts.signs:
        return None
    if wanted_library(facts) == MINI_RUNTIME:
        return Cause(
            "the runtime refuses the version of the model's container: convert it for this chip "
            "with the toolkit of the runtime",
            convert(facts),
        )
    last, _ = REFUSALS[FULL_RUNTIME]
    known = facts.runtime.version if facts.runtime else facts.logged_runtime
    if known > last:
        return None
    shown = ".".join(map(str, known)) or "that was loaded"
    return Cause(
        f"the runtime {shown} cannot read the model's container: it is older than the toolkit that "
        "made it; install the newest, or convert the model with the toolkit of the runtime",
        fetch(facts),
    )


def _fails(facts: Facts) -> Cause | None:
    model, runtime = facts.model, facts.runtime
    if model is None or runtime is None or runtime.name != FULL_RUNTIME:
        return None
    words = [each.words for each in model.failures if runtime.version <= each.last]
    return Cause(f"{runtime} {words[0]}", fetch(facts)) if words else None


def _toolkit_newer(facts: Facts) -> Cause | None:
    header = facts.model.header if facts.model is not None else None
    text = newer_toolkit(header, facts.runtime) if header is not None else ""
    return Cause(f"{facts.model.path}: {text}", fetch(facts)) if text and facts.model else None


def _toolkit_newer_fails(facts: Facts) -> Cause | None:
    failed = facts.signs & {"crash", "magic", "submit", "model refused"}
    return _toolkit_newer(facts) if failed else None


def _damaged_by_log(facts: Facts) -> Cause | None:
    if facts.model is not None or "magic" not in facts.signs:  # a file tells more than a log
        return None
    return Cause(
        "the runtime says that the file is no RKNN model: damaged on its way, or of another kind",
        _compare_sums(facts),
    )


def _refused(facts: Facts) -> Cause | None:
    if "model refused" not in facts.signs:
        return None
    if facts.model is None:
        return Cause(
            "the runtime refused the model: it is for another chip, of a newer toolkit than the "
            "runtime, or damaged; this command tells which, given the model",
            "rknn-runtime doctor model.rknn",
        )
    return Cause(
        "the runtime refused the model, though nothing is known against it: take the newest "
        "runtime, and convert the model with its toolkit",
        fetch(facts),
    )


RULES = (
    Rule("model-rknn1", PROBLEM, "model", _of_kind("rknn1", convert)),
    Rule("model-rknn3", PROBLEM, "model", _of_kind("rknn3", convert)),
    Rule("model-damaged", PROBLEM, "model", _of_kind("damaged", _compare_sums)),
    Rule("model-foreign", PROBLEM, "model", _of_kind("other", convert)),
    Rule("log-no-model", PROBLEM, "model", _damaged_by_log),
    Rule("model-not-found", PROBLEM, "model", logged(
        "no model file",
        "the program did not find the model's file, or may not read it: a relative path starts "
        "at the folder in which the program is started",
        "ls -l \"$(realpath model.rknn)\"")),
    Rule("model-encrypted-refused", PROBLEM, "model", logged(
        "encrypted magic",
        "the runtime does not know encrypted models (it reads the mark CYPTRKNN as a wrong "
        "beginning): use the model as it was before encryption, or a newer runtime", fetch)),
    Rule("language-chip", PROBLEM, "model", logged(
        "language chip",
        "the vendor's runtime for language models, RKLLM, does not serve this chip; RKLLM is not a "
        "part of this package")),
    Rule("model-language", PROBLEM, "model", logged(
        "language model",
        "the file is no model of the RKLLM runtime that was to load it: convert it with the "
        "rkllm-toolkit of that runtime; RKLLM is not a part of this package")),
    Rule("model-target", PROBLEM, "model", _other_target),
    Rule("model-container", PROBLEM, "model", _other_container),
    Rule("older-library-loaded", PROBLEM, "library", _older_loaded),
    Rule("model-too-new", PROBLEM, "model", _too_new),
    Rule("model-fails", PROBLEM, "model", _fails),
    Rule("toolkit-newer-fails", PROBLEM, "model", _toolkit_newer_fails),
    Rule("operator-unknown", PROBLEM, "model", logged(
        "operator",
        "the runtime cannot run an operator of the model (the log names it): a newer runtime may, "
        "or cut it off and compute it on the CPU, or register it as a custom operator", fetch)),
    Rule("model-refused", PROBLEM, "model", _refused),
    Rule("call-refused", PROBLEM, "model", logged(
        "call",
        "the runtime refuses what the program gives it (the log names the call): a size, type or "
        "shape that is not the model's, or a call that this chip's runtime does not have",
        "rknn-runtime info model.rknn")),
    Rule("toolkit-newer", WARNING, "model", _toolkit_newer),
    Rule("versions-differ", WARNING, "model", logged(
        "versions",
        "the runtime says that the model is of another version than it: take the runtime of the "
        "model's toolkit, or a newer one", fetch)),
    Rule("model-encrypted", WARNING, "model", _of_kind(
        "encrypted", "",
        "is encrypted: the vendor's runtime may load it, but nothing here can look into it; if it "
        "is refused, try the model as it was before encryption")),
)  # fmt: skip

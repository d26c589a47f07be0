"""Rules about the model, by itself and against the runtime that is to load it."""

from __future__ import annotations

from rknn_runtime.modelfile.compatibility import REFUSALS, newer_toolkit, problems
from rknn_runtime.modelfile.info import ModelHeader
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME
from rknn_runtime.tools.doctor.cures import convert, fetch, quantized, wanted_library
from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.rule import PROBLEM, WARNING, Rule, When, logged, matched

__all__ = ["RULES"]

#: The last librknnrt that refuses containers for being newer.
_LAST_REFUSING = REFUSALS[FULL_RUNTIME][0]
#: What fails where library and model, or library and program, are of different versions.
_OF_VERSIONS = frozenset(
    ("model version", "magic", "model refused", "symbol", "unknown target", "operator", "crash")
)
#: What the reader said of the file.
_AS_READ = "{facts.model.path}: {facts.model.message}"


def _of_kind(*kinds: str) -> When:
    """Look for a file that is no model, or none that can be looked into: see `ModelFacts`."""
    return lambda facts: facts.model is not None and facts.model.kind in kinds


def _header(facts: Facts) -> ModelHeader | None:
    return facts.model.header if facts.model is not None else None


def _compare_sums(facts: Facts) -> str:
    name = facts.model.path.rpartition("/")[2] if facts.model else "model.rknn"
    return f"sha256sum {name}  # on both machines; then copy it again, in binary mode"


def _take_this_one(facts: Facts) -> str:
    path = facts.library.path if facts.library is not None else ""
    folder = path.rpartition("/")[0]
    return f"export RKNN_RUNTIME_LIBRARY={path} LD_LIBRARY_PATH={folder}"


def _other_target(facts: Facts) -> str:
    header = _header(facts)
    if header is not None and facts.soc is not None and header.npu != facts.soc.npu:
        return problems(header, soc=facts.soc)[0]
    told = header is None and "target" in facts.signs
    return "the runtime says that the model is for another chip" if told else ""


def _other_container(facts: Facts) -> str:
    header, runtime = _header(facts), facts.runtime
    if header is None or runtime is None or runtime.name == header.runtime:
        return ""
    return problems(header, runtime=runtime)[0]


def _older_loaded(facts: Facts) -> str:
    """Which library the log is of, where that is not the one that is found."""
    runtime, logged_one = facts.runtime, facts.logged_runtime
    if runtime is None or runtime.version <= _LAST_REFUSING:
        return ""
    if logged_one and facts.signs & _OF_VERSIONS:
        return ".".join(map(str, logged_one)) if logged_one < runtime.version else ""
    refused = "model version" in facts.signs and runtime.name == FULL_RUNTIME
    return f"{'.'.join(map(str, _LAST_REFUSING))} or older" if refused else ""


def _container_too_new(facts: Facts) -> str:
    header, runtime = _header(facts), facts.runtime
    if header is None or runtime is None or runtime.name != header.runtime:
        return ""
    return next(iter(problems(header, runtime=runtime)), "")


def _mini_refuses(facts: Facts) -> bool:
    return "model version" in facts.signs and wanted_library(facts) == MINI_RUNTIME


def _refuses_version(facts: Facts) -> str:
    if "model version" not in facts.signs:
        return ""
    known = facts.runtime.version if facts.runtime else facts.logged_runtime
    if known > _LAST_REFUSING:
        return ""
    return ".".join(map(str, known)) or "that was loaded"


def _fails(facts: Facts) -> str:
    model, runtime = facts.model, facts.runtime
    if model is None or runtime is None or runtime.name != FULL_RUNTIME:
        return ""
    return next((each.words for each in model.failures if runtime.version <= each.last), "")


def _refused(facts: Facts) -> bool:
    # The demo leaves no memory for it; a board that a PC reached has its server and library.
    otherwise = facts.has_demo or "connection" in facts.signs
    return "model refused" in facts.signs and not otherwise


def _toolkit_newer(facts: Facts) -> str:
    header = _header(facts)
    return newer_toolkit(header, facts.runtime) if header is not None else ""


def _toolkit_newer_fails(facts: Facts) -> str:
    failed = facts.signs & {"crash", "magic", "submit", "model refused"}
    return _toolkit_newer(facts) if failed else ""


RULES = (
    Rule("model-generation", PROBLEM, "model", _of_kind("rknn1", "rknn3"), convert, _AS_READ),
    Rule("model-damaged", PROBLEM, "model", _of_kind("damaged"), _compare_sums, _AS_READ),
    Rule("model-damaged", PROBLEM, "model", _of_kind("pointer"),
         "git lfs pull  # or fetch the raw file", """
        {facts.model.path} only stands for the model: it is a pointer of Git LFS, or the web page
        of the file"""),
    Rule("model-damaged", PROBLEM, "model",
         lambda facts: facts.model is None and "magic" in facts.signs, _compare_sums, """
        the runtime says that the file is no RKNN model: damaged on its way, or of another kind"""),
    Rule("model-foreign", PROBLEM, "model", _of_kind("other"), convert, _AS_READ),
    Rule("model-not-found", PROBLEM, "model", logged("no model file"),
         'ls -l "$(realpath model.rknn)"', """
        the program did not find the model's file, or may not read it: a relative path starts at
        the folder in which the program is started"""),
    Rule("model-encrypted-refused", PROBLEM, "model", logged("encrypted magic"), fetch, """
        the runtime does not know encrypted models (it reads the mark CYPTRKNN as a wrong
        beginning): use the model as it was before encryption, or a newer runtime"""),
    Rule("language-chip", PROBLEM, "model", logged("language chip"), "", """
        the vendor's runtime for language models, RKLLM, does not serve this chip; RKLLM is not a
        part of this package"""),
    Rule("model-language", PROBLEM, "model", logged("language model"), "", """
        the file is no model of the RKLLM runtime that was to load it: convert it with the
        rkllm-toolkit of that runtime; RKLLM is not a part of this package"""),
    Rule("model-target", PROBLEM, "model", _other_target, convert, "{found}"),
    Rule("model-target", PROBLEM, "model", _other_container, convert, "{found}"),
    Rule("older-library-loaded", PROBLEM, "library", _older_loaded, _take_this_one, """
        the log is of another library than {facts.library.path} ({facts.runtime}): {found} was
        loaded; look for it (find / -name 'librknn*rt.so'), or name the right one"""),
    Rule("model-too-new", PROBLEM, "model", _container_too_new, fetch, "{found}"),
    Rule("model-too-new", PROBLEM, "model", _mini_refuses, convert, """
        the runtime refuses the version of the model's container: convert it for this chip with
        the toolkit of the runtime"""),
    Rule("model-too-new", PROBLEM, "model", _refuses_version, fetch, """
        the runtime {found} cannot read the model's container: it is older than the toolkit that
        made it; install the newest, or convert the model with the toolkit of the runtime"""),
    Rule("model-too-new", PROBLEM, "model", _toolkit_newer_fails, fetch,
         "{facts.model.path}: {found}"),
    Rule("model-fails", PROBLEM, "model", _fails, fetch, "{facts.runtime} {found}"),
    Rule("operator-unknown", PROBLEM, "model", logged("operator"), fetch, """
        the runtime cannot run an operator of the model ({found}): a newer runtime may, or cut it
        off and compute it on the CPU, or register it as a custom operator"""),
    Rule("model-refused", PROBLEM, "model",
         lambda facts: _refused(facts) and facts.model is None,
         "rknn-runtime doctor model.rknn", """
        the runtime refused the model: it is for another chip, of a newer toolkit than the
        runtime, or damaged; this command tells which, given the model"""),
    Rule("model-refused", PROBLEM, "model", _refused, fetch, """
        the runtime refused the model, though nothing is known against it: take the newest
        runtime, and convert the model with its toolkit"""),
    Rule("call-refused", PROBLEM, "model",
         matched("call", r"need 4dims input, but 3dims"),
         "rknn-runtime info model.rknn  # an image with its batch: numpy.expand_dims(image, 0)", """
        the model wants an input of four dimensions, of which the first is the batch, and got an
        image of three"""),
    Rule("call-refused", PROBLEM, "model", logged("int8 only"), quantized, """
        the program takes models of int8 alone ({found}): convert with quantization, by images"""),
    Rule("call-refused", PROBLEM, "model", logged("call"), "rknn-runtime info model.rknn", """
        the runtime refuses what the program gives it ({found}): a size, type or shape that is not
        the model's, or a call that this chip's runtime does not have"""),
    Rule("versions-differ", WARNING, "model", _toolkit_newer, fetch, "{facts.model.path}: {found}"),
    Rule("versions-differ", WARNING, "model", logged("versions"), fetch, """
        the runtime says that the model is of another version than it: take the runtime of the
        model's toolkit, or a newer one"""),
    Rule("model-encrypted", WARNING, "model", _of_kind("encrypted"), "", """
        {facts.model.path} is encrypted: the vendor's runtime may load it, but nothing here can
        look into it; if it is refused, try the model as it was before encryption"""),
)  # fmt: skip

"""Load and run one model on the runtime of this root; print what became of it.

    python vendor_model.py LIBRARY MODEL

LIBRARY "" is the one that the package finds. The model runs in every way that the API has, on
this runtime and on the simulated one, and the outputs are compared. The last line on standard
output begins with ``ok``, ``refused`` (the package said why before the runtime could),
``differs``, or there is none.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import vendor_bindings
from vendor_bindings import Array, Way

from rknn_runtime import GeneralModel, Model, TensorAttr
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.errors import InvalidModelError, OperationFailedError, UnavailableError
from rknn_runtime.modelfile import reader
from rknn_runtime.modelfile.soc import FULL_RUNTIME, RUNTIME_VERSIONS, SOCS

#: Commands that the runtimes 2.3.2 were seen to change in a file, by the binding of an image:
#: its conversion, and of RK3588 the columns that fill up a row.
CHANGED = {
    "rk3588": ["1020", "104c", "1050", "1054", "1058", "105c", "107c", "1080", "1180"],
    "rv1106": ["101c", "104c", "1050", "1054", "1058", "105c", "106c", "108c"],
}
#: librknnrt computes floats by fused multiplication and addition, in a part of an array.
FLOAT_STEPS = 4


def has_padded_rows(info: reader.ModelInfo) -> bool:
    """Whether an image has rows that are wider than it is."""
    return any(attr.takes_pixels and attr.w_stride > attr.shape[2] for attr in info.inputs)


def has_other_inputs(info: reader.ModelInfo) -> bool:
    """Whether an input is no image."""
    return not all(attr.takes_pixels for attr in info.inputs)


def has_odd_planes(info: reader.ModelInfo) -> bool:
    """Whether an input of RV1103B has planes that are no whole groups of 4 pixels."""
    return SOCS[info.soc].npu == SOCS["rv1103b"].npu and any(
        attr.native is not None
        and attr.native.layout is Layout.NC1HWC2
        and attr.native.shape[2] * attr.native.shape[3] % 4
        for attr in info.inputs
    )


def is_any(info: reader.ModelInfo) -> bool:
    return True


#: Ways in which the simulated runtime and 2.3.2 differ, of which models, and why.
EXPLAINED = (
    (
        r"int8: vendor rknn_run -1, here it runs",
        has_other_inputs,
        "a tensor that is no image takes its type only",
    ),
    (
        r"float32: vendor runs, here rknn_run -1",
        is_any,
        "librknnmrt takes floats of vectors for its own",
    ),
    (
        r"uint8 -> n.*: vendor runs, here rknn_set_io_mem -5",
        is_any,
        "outputs of rank 5 have no layout",
    ),
    (
        r"uint8 -> n(chw|hwc): vendor ended by signal 11, here rknn_set_io_mem -5",
        is_any,
        "nor has librknnrt one for those that a transposition leaves to the CPU",
    ),
    (
        r"uint8 -> nhwc float32: .* differ",
        is_any,
        "librknnmrt leaves the model's own type in the memory",
    ),
    (
        r".*pass_through: .* differ",
        has_padded_rows,
        "the NPU reads padded rows as if they were not padded",
    ),
    (
        r".*: .* differ",
        has_odd_planes,
        "the NPU reads planes of whole groups of 4 pixels from the caller's tight ones",
    ),
    (
        r"set float32: .* differ",
        lambda info: info.batch > 1,
        "librknnrt mixes up a batch of floats, at every call otherwise; here a violation",
    ),
)
#: Commands that the emulator refuses count as no difference.
NOT_UNDERSTOOD = re.compile("wrong .*(not understood|cannot be computed)")


def has_int16(info: reader.ModelInfo) -> bool:
    """Whether the model computes in int16, which the emulator refuses."""
    tensors = (*info.inputs, *info.outputs)
    return any((attr.native or attr).dtype is TensorType.INT16 for attr in tensors)


def zeros(attr: TensorAttr, view: np.ndarray) -> np.ndarray:
    """An input of a model in the form that ``run`` takes."""
    if attr.layout is Layout.NC1HWC2:
        return np.zeros(view.shape, view.dtype)
    return np.zeros(attr.shape, np.uint8 if attr.takes_pixels else np.float32)


def differing_fields(asked: TensorAttr, read: TensorAttr, name: str) -> list[str]:
    """Name the fields in which two descriptions differ, with both values."""
    found = []
    for field in fields(TensorAttr):
        theirs, ours = getattr(asked, field.name), getattr(read, field.name)
        if isinstance(theirs, TensorAttr) and isinstance(ours, TensorAttr):
            found += differing_fields(theirs, ours, f"{name}.{field.name}")
        elif theirs != ours:
            found.append(f"{name}.{field.name} {theirs}, read {ours}")
    return found


def differing_attributes(model: Model, info: reader.ModelInfo) -> list[str]:
    """Name the fields in which the runtime's attributes differ from the file's."""
    found = []
    for asked, read in zip((*model.inputs, *model.outputs), (*info.inputs, *info.outputs)):
        found += differing_fields(asked, read, read.name)
    # `Model` has the outputs of a dynamic model in NCHW, as no runtime writes them natively.
    own = [f"{attr.name}.native" for attr in info.outputs if info.variants]
    return [name for name in found if not name.startswith(tuple(own))]


def run(library: str | None, path: str) -> str:
    """Run as the package does; return the runtime's answers about itself and the model."""
    try:
        return run_models(library, path)
    except InvalidModelError as error:
        return f"refused: {error}"
    except OperationFailedError as error:
        found = re.search(r"unsupport cpu \w+ op", str(error))
        if found is None:
            raise
        return f"refused: by the runtime, {found[0]}"


def run_models(library: str | None, path: str) -> str:
    """Run a model, a duplicate of it, and a `GeneralModel`; say so, or a whole verdict."""
    info = reader.read(path)
    own = SOCS[info.soc].runtime
    if own != info.runtime:
        return f"refused: a container for {info.runtime}, and the NPU of {info.soc} has {own}"
    with Model(path, library=library) as model:
        version = model.sdk_version.api
        if version.split()[0] in RUNTIME_VERSIONS[info.runtime]:
            info = reader.read(path, runtime_version=version.split()[0])
        differ = differing_attributes(model, info)
        if differ:
            return f"differs: {version}; attributes {', '.join(differ)}"
        if has_int16(info):
            return f"not emulated: int16; {version}; attributes as read from the file"
        frame = [zeros(attr, model.input_view(i)) for i, attr in enumerate(model.inputs)]
        for _ in range(2):
            outputs = model(*frame)
        for output, attr in zip(outputs, model.outputs):
            assert output.shape == attr.shape, (output.shape, attr.shape)
        if info.runtime == FULL_RUNTIME:
            with suppress(UnavailableError):  # a batch of images has none
                run_duplicate(model, frame, outputs)
    if info.runtime == FULL_RUNTIME:
        with GeneralModel(path, library=library) as general:
            for output, attr in zip(general.run(*frame), general.outputs):
                assert output.shape == attr.shape, (output.shape, attr.shape)
    return f"{version}; attributes as read from the file"


def run_duplicate(model: Model, frame: list[Array], expected: list[Array]) -> None:
    """Run a duplicate and its model; both give the same, and go on when the other is closed."""
    with model.duplicate() as twin, twin.duplicate() as third:
        for each in (twin, model, third):
            for output, other in zip(each(*frame), expected):
                assert np.array_equal(output, other), "a duplicate's outputs differ"
        twin.close()
        for output, other in zip(third(*frame), expected):
            assert np.array_equal(output, other), "outputs differ after a duplicate was closed"
    for output, other in zip(model(*frame), expected):
        assert np.array_equal(output, other), "outputs differ after all duplicates were closed"


def is_close(a: Array, b: Array) -> bool:
    """Whether floats are the same but for the rounding of a fused operation."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    largest = np.abs(np.concatenate([a.ravel(), b.ravel()])).max(initial=0.0)
    return bool(np.abs(a - b).max(initial=0.0) <= FLOAT_STEPS * np.spacing(np.float32(largest)))


def difference(way: Way, vendor: list[Array] | str, ours: list[Array] | str) -> str:
    """Say how two results differ; empty where they do not."""
    if isinstance(vendor, str) or isinstance(ours, str):
        if vendor == ours:
            return ""
        theirs = f"vendor {vendor}" if isinstance(vendor, str) else "vendor runs"
        return f"{way.name}: {theirs}, here {ours if isinstance(ours, str) else 'it runs'}"
    counts = []
    for a, b in zip(vendor, ours):
        same = a.shape == b.shape and (is_close(a, b) if way.is_float else np.array_equal(a, b))
        count = np.count_nonzero(a != b) if a.shape == b.shape else -1
        counts += [] if same else [f"{count} of {a.size}"]
    return f"{way.name}: {', '.join(counts)} differ" if counts else ""


def explanation(words: str, info: reader.ModelInfo) -> str:
    """Return why a difference of a model is expected; empty if it is unexpected."""
    reasons = (why for what, is_of, why in EXPLAINED if re.match(what, words) and is_of(info))
    return next(reasons, "")


def compare(library: str | None, path: str, info: reader.ModelInfo) -> tuple[str, str]:
    """Compare every way; return a verdict and its words."""
    data, is_full = Path(path).read_bytes(), info.runtime == FULL_RUNTIME
    vendors = list(vendor_bindings.results(library, data, is_full))
    ours = vendor_bindings.results("sim", data, is_full)
    counts: Counter[str] = Counter()
    said = []
    for (way, vendor), (_, our) in zip(vendors, ours):
        words = difference(way, vendor, our)
        reason = explanation(words, info)
        kind = "equal" if not words else "explained" if reason else "different"
        counts["refused alike" if not words and isinstance(our, str) else kind] += 1
        said += [words] if kind == "different" else []
    wrong = wrong_commands(info.soc)
    how = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    if any(map(NOT_UNDERSTOOD.match, wrong)):
        return "not emulated", "; ".join([how, *wrong])
    return ("differs" if said or wrong else "ok"), "; ".join([how, *said, *wrong])


def wrong_commands(soc: str) -> list[str]:
    """Return the commands that the device could not execute, and those changed unexpectedly."""
    log = Path(os.environ["VENDOR_LOG"])
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    family = CHANGED["rk3588" if soc == "rk3588" else "rv1106"]
    found = dict.fromkeys(
        line
        for line in lines
        if line.startswith("wrong ")
        or (line.startswith("changed ") and line.split()[1] not in family)
    )
    return list(found)[:3]


def main() -> None:
    library, path = sys.argv[1:]
    words = vendor_bindings.in_child(lambda: run(library or None, path))
    if words.startswith(("refused", "ended", "differs", "not emulated")):
        print(words)
        return
    verdict, ways = compare(library or None, path, reader.read(path))
    print(f"{verdict}: {words}; {ways}")


if __name__ == "__main__":
    main()

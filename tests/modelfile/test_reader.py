"""Reading model files: equal to the recorded answers of the vendor's runtimes."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import handmade
import numpy as np
import pytest
from recorded import MODELS, Fact, Recording, recordings

from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import ModelInfo, reader
from rknn_runtime.tensor import TensorAttr


def as_recorded(attr: TensorAttr) -> dict[str, Any]:
    """An attribute with the names of the C struct."""
    return {
        "index": attr.index,
        "n_dims": len(attr.shape),
        "dims": list(attr.shape),
        "name": attr.name,
        "n_elems": attr.n_elems,
        "size": attr.size,
        "fmt": attr.layout,
        "type": attr.dtype,
        "qnt_type": attr.qnt_type,
        "fl": attr.fl,
        "zp": attr.zero_point,
        "scale": np.float32(attr.scale),
        "w_stride": attr.w_stride,
        "size_with_stride": attr.size_with_stride,
        "pass_through": 0,
        "h_stride": attr.h_stride,
    }


def normalized(recorded: dict[str, Any]) -> dict[str, Any]:
    """Recorded scales are decimal; some recorded names are UTF-8 read as Latin-1."""
    result = {**recorded, "scale": np.float32(recorded["scale"])}
    if not result["name"].isascii():
        with contextlib.suppress(ValueError):
            result["name"] = result["name"].encode("latin-1").decode()
    return result


def asked(info: ModelInfo, facts: Iterable[Fact]) -> Iterator[tuple[Any, Any]]:
    """Each recorded attribute query, and our attribute for it."""
    for fact in facts:
        if fact["t"] in ("in", "out"):
            attr = (info.inputs if fact["t"] == "in" else info.outputs)[fact["i"]]
            yield fact, attr if fact["k"] == "logical" else getattr(attr, fact["k"])
        elif fact["t"] == "dynset":  # CURRENT_*: the attributes of one of the shapes
            variant = info.variants[fact["s"]]
            attr = (variant.inputs if fact["q"].endswith("in") else variant.outputs)[fact["i"]]
            yield fact, attr.native if fact["q"].startswith("cur_n") else attr


@pytest.mark.parametrize("recording", recordings("in"), ids=str)
def test_attributes_equal_the_recorded_answers(recording: Recording) -> None:
    """Every recorded field of the six attribute queries, for every shape of the model."""
    info = reader.read(recording.model, runtime_version=recording.version)
    assert info.runtime_version == recording.version
    compared = 0
    for fact, attr in asked(info, recording.facts):
        compared += 1
        if fact["rc"] != 0:
            assert attr is None
            continue
        theirs = normalized(fact["a"])
        ours = {name: value for name, value in as_recorded(attr).items() if name in theirs}
        if attr.dtype is TensorType.INT16 and theirs["type"] == TensorType.INT4:
            # librknnrt 1.5.2 lacks the file's "int16" as a logical type.
            for field in ("type", "size", "size_with_stride"):
                del ours[field], theirs[field]
        assert ours == theirs, fact
    assert compared >= 3 * (len(info.inputs) + len(info.outputs))


@pytest.mark.parametrize("recording", recordings("mem"), ids=str)
def test_the_rest_equals_the_recorded_answers(recording: Recording) -> None:
    """Counts of inputs and outputs, memory sizes, custom string, dynamic shapes."""
    info = reader.read(recording.model, runtime_version=recording.version)
    found = {fact["t"]: fact for fact in recording.facts if fact.get("rc") == 0}
    assert len(info.inputs) == found["io"]["n_input"]
    assert len(info.outputs) == found["io"]["n_output"]
    assert info.internal_bytes == found["mem"]["internal"]
    # The file and librknnrt 2.3.2 count the weights of every shape; 1.5.2 counts one.
    if not info.variants or recording.version != "1.5.2":
        assert info.weight_bytes == found["mem"]["weight"]
    inner = info.weight_bytes + info.internal_bytes + info.command_bytes
    if info.container == "mini":
        assert inner == found["mem"]["dma"]
    else:  # the file does not say in one place how many bytes of commands there are
        assert inner < found["mem"]["dma"]
    custom_string = found["custom"]["string"]
    assert info.custom_string in (
        custom_string,
        custom_string.encode("latin-1", "replace").decode("utf-8", "replace"),
    )
    if "range" in found:
        shapes = info.dynamic_shapes[found["range"]["name"]]
        assert [list(shape) for shape in shapes] == found["range"]["ranges"]


@pytest.mark.parametrize("recording", recordings("in"), ids=str)
def test_the_needs_of_a_model(recording: Recording) -> None:
    """The sizes of native outputs for one image in the runtimes 2.3.2, and enough room in all."""
    path = recording.model
    info, needs = reader.read(path), reader.ModelFile(path.read_bytes()).needs()
    native = [attr.native.size_with_stride // info.batch for attr in info.outputs if attr.native]
    assert list(needs.output_bytes) == native
    tight = [attr.size // info.batch for attr in info.outputs]
    assert len(needs.output_bytes) == len(tight)
    assert all(room >= need for room, need in zip(needs.output_bytes, tight))
    assert needs.is_dynamic == bool(info.variants)


def test_a_notebook_shows_a_model_without_running_it() -> None:
    """Its SoC, operators, and the inputs and outputs with their quantization."""
    shown = reader.read(MODELS / "custom_string_rv1106.rknn")._repr_html_()
    assert "<tr><td>SoC</td><td>rv1106</td></tr>" in shown
    assert "<td>input 0</td><td>images</td><td>NHWC</td><td>(1, 20, 20, 3)</td>" in shown


def test_the_newest_known_runtime_is_described_by_default() -> None:
    """A version on request is another description of the same model."""
    path = MODELS / "rank1_in_vec_rk3588.rknn"
    newest, old = reader.read(path), reader.read(path, runtime_version="1.5.2")
    assert newest == reader.read(path, runtime_version="2.3.2")
    assert (newest.runtime_version, old.runtime_version) == ("2.3.2", "1.5.2")
    sizes = [info.outputs[0].native.size for info in (newest, old) if info.outputs[0].native]
    assert sizes == [64, 8]


def test_a_version_that_nobody_asked_is_no_fault_of_the_model() -> None:
    """It is a ValueError that lists the known versions of that library."""
    for name, version in (("ic5_rk3588", "2.2.0"), ("ic5_rv1106", "1.5.2"), ("ic5_rk3588", "")):
        with pytest.raises(ValueError, match=r"runtime_version: expected 2\.3\.2") as caught:
            reader.read(MODELS / f"{name}.rknn", runtime_version=version)
        assert not isinstance(caught.value, InvalidModelError)
    with pytest.raises(TypeError, match="runtime_version: expected a str"):
        reader.read(MODELS / "ic5_rk3588.rknn", runtime_version=2)  # type: ignore[arg-type]


def test_batch_and_dynamic_shapes() -> None:
    """The batch and the shapes that a model was built for are read."""
    assert reader.read(MODELS / "batch2_build_rk3588.rknn").batch == 2
    info = reader.read(MODELS / "dyn_in_rk3588.rknn")
    assert info.dynamic_shapes == {"images": ((1, 48, 40, 3), (1, 32, 32, 3))}
    assert info.variants[0].outputs == info.outputs
    assert info.variants[1].outputs[0].shape == (1, 24, 32, 32)


def test_bytes_and_paths_give_the_same(tmp_path: Path) -> None:
    """str, Path, bytes, bytearray, memoryview."""
    path = MODELS / "ic5_rv1106.rknn"
    data = path.read_bytes()
    expected = reader.read(path)
    for model in (str(path), data, bytearray(data), memoryview(data)):
        assert reader.read(model) == expected


def test_only_parts_of_a_file_are_read(tmp_path: Path) -> None:
    """A model of 200 MB of weights is described in a fraction of that memory."""
    path = tmp_path / "m.rknn"
    model = handmade.standard_model([IMAGE], [FEATURES], padding=0)
    end = len(model) - 10
    weights = 200 << 20
    header = model[:16] + (end - 64 + weights).to_bytes(8, "little") + model[24:64]
    with path.open("wb") as file:
        file.write(header + model[64:end])
        file.seek(end + weights)
        file.write(model[end:])
    tracemalloc.start()
    try:
        assert reader.read(path).file_bytes == len(model) + weights
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


IMAGE = handmade.tensor("images", (1, 3, 8, 8), (1, 1, 8, 8, 3), pixel=True)
FEATURES = handmade.tensor("output0", (1, 20, 8, 8), (1, 2, 8, 8, 16))


def test_a_model_built_by_hand() -> None:
    """The minimum that is a model."""
    info = reader.read(handmade.standard_model([IMAGE], [FEATURES]))
    assert info.operators == {"Conv": 2, "Relu": 1}
    assert info.compiler_version == "2.3.2 (abc@2025)"
    attr = info.outputs[0]
    assert (attr.layout, attr.dtype, attr.qnt_type) == (
        Layout.NCHW, TensorType.INT8, QuantType.AFFINE,
    )  # fmt: skip
    assert (attr.zero_point, attr.scale, info.preprocessing) == (3, 0.5, (None,))


def test_an_old_container_has_a_short_header() -> None:
    """Container version 1: 24 bytes; channel groups are paired from version 2 on."""
    output = handmade.tensor("output0", (1, 16, 8, 8), (1, 1, 8, 8, 16))
    info = reader.read(handmade.standard_model([IMAGE], [output], version=1))
    assert info.container_version == 1
    assert info.outputs[0].native is not None
    assert info.outputs[0].native.shape == (1, 1, 8, 8, 16)
    later = reader.read(handmade.standard_model([IMAGE], [output], version=2))
    assert later.outputs[0].native is not None
    assert later.outputs[0].native.shape == (1, 2, 8, 8, 16)


def test_metadata_that_cannot_be_read_is_no_obstacle() -> None:
    """The runtimes never read it; its facts are None."""
    for text in ("{'attrs'", "[]", "{}", "{'attrs': {'images': {'mean': 1, 'std': 2}}}", "\xff"):
        info = reader.read(handmade.standard_model([IMAGE], [FEATURES], slot_3=text))
        assert info.preprocessing == (None,)


def test_the_logical_type_is_the_one_that_the_file_tells_to_report() -> None:
    """Of a standard container; an unknown one leaves the type in memory."""
    for name, dtype in (
        ("float16", TensorType.FLOAT16), ("uint8", TensorType.UINT8), ("int4", TensorType.INT8),
        ("bfloat16", TensorType.INT8), ("", TensorType.INT8),
    ):  # fmt: skip
        text = json.dumps({"output0": {"dtype": name, "layout": "NCHW"}})
        info = reader.read(handmade.standard_model([IMAGE], [FEATURES], slot_13=text))
        assert info.outputs[0].dtype is dtype
        assert info.outputs[0].native is not None
        assert info.outputs[0].native.dtype is TensorType.INT8


OTHER_FORMATS = [
    (b"CYPTRKNN" + bytes(100), "encrypted"),
    (b"RKNX" + bytes(100), "RKNN3"),
    (b"RKCE" + bytes(100), "needs a key"),
    (b"RKNNSIM2" + bytes(100), "bundle of the simulated NPU"),
    (b"RKNN".ljust(24, b"\0") + b"VPMN" + bytes(100), "RKNN1"),
    (b"RKNN".ljust(64, b"\0") + b"VPMN" + bytes(100), "RKNN1"),
    (b"\x08\x07\x12\x07pytorch" + bytes(100), "ONNX"),
    (b"\x1c\0\0\0TFL3" + bytes(100), "TensorFlow Lite"),
    (b"PK\x03\x04" + bytes(100), "ZIP archive"),
    (b"\x1f\x8b" + bytes(100), "gzip"),
    (b"\x7fELF" + bytes(100), "shared library"),
    (b"<!DOCTYPE html>" + bytes(100), "web page"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
    (b"", "expected content, got 0 bytes"),
    (b"RKNN", "truncated"),
    (b"RKNN".ljust(20, b"\0"), "truncated"),
    (b"MZ" + bytes(100), "not an RKNN model: it begins with b'MZ"),
]


@pytest.mark.parametrize(("data", "what"), OTHER_FORMATS, ids=[what for _, what in OTHER_FORMATS])
def test_anything_else_is_named(tmp_path: Path, data: bytes, what: str) -> None:
    """The message names the kind of file, the same for bytes and for a path."""
    path = tmp_path / "model.rknn"
    path.write_bytes(data)
    for model in (data, path):
        with pytest.raises(InvalidModelError, match=what):
            reader.read(model)
        with pytest.raises(InvalidModelError, match=what):
            reader.read_header(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda json: None, "truncated: at least 8 bytes are missing"),
        (lambda json: json[: len(json) // 2], "truncated: at least 5[0-9]* bytes are missing"),
        (lambda json: json[:-1], "truncated: at least 1 bytes are missing"),
        (lambda json: json[:-1] + b"\0", "damaged: the JSON at its end is none"),
        (lambda json: json.replace(b"rknn model", b"rknn\xffmodel"), "at its end is none.*UTF-8"),
        (lambda json: json.replace(b"rknn model", b"rknn\nmodel"), "at its end is none"),
        (lambda json: b"[" * len(json), "at its end is none"),
        (lambda json: json.replace(b":0", b":NaN").ljust(len(json)), "(is none|truncated)"),
    ],
)
def test_a_file_without_its_end_is_refused(
    change: Callable[[bytes], bytes | None], message: str
) -> None:
    """A runtime that parses missing bytes would end the process."""
    model = (MODELS / "ic3_w37_rv1106.rknn").read_bytes()
    end = 64 + int.from_bytes(model[16:24], "little")
    assert int.from_bytes(model[end : end + 8], "little") == len(model) - end - 8
    changed = change(model[end + 8 :])
    model = model[:end] if changed is None else model[: end + 8] + changed
    for read in (reader.read, reader.read_header):
        with pytest.raises(InvalidModelError, match=message):
            read(model)
    # Who knows better may load it.
    assert len(reader.ModelFile(memoryview(model)).needs().output_bytes) == 1


def test_the_end_of_a_small_file_may_be_most_of_it() -> None:
    """The toolkit's kilobyte is, of a network of a few nodes; no honest one has a megabyte."""
    small = b"[" + b"[]," * 20_000 + b"[]]"
    model = handmade.standard_model([IMAGE], [FEATURES], trailer=small)
    assert reader.read(model).container_version == 6
    large = b"[" + b"[]," * 400_000 + b"[]]"
    model = handmade.standard_model([IMAGE], [FEATURES], trailer=large)
    with pytest.raises(InvalidModelError, match="damaged: a trailer of 1200004 bytes"):
        reader.read(model)


VALID = "0 -0 7 -12 1.5 -0.25 1e5 1E5 1e+5 2.5e-07 -1e-9"
INVALID = "00 01 -01 +1 .5 1. 1.e5 1e 1e+ 1e+-5 - -a"


@pytest.mark.parametrize("number", f"{VALID} {INVALID}".split(" "))
def test_numbers_of_the_trailer_are_those_of_json(number: str) -> None:
    """Python's own reader is the judge."""
    trailer = b'{"a": [%s]}' % number.encode()
    model = handmade.standard_model([IMAGE], [FEATURES], trailer=trailer)
    try:
        json.loads(trailer)
    except ValueError:
        with pytest.raises(InvalidModelError, match="the JSON at its end is none"):
            reader.read(model)
    else:
        reader.read(model)


@pytest.mark.parametrize(
    ("soc", "word", "weights", "behind"),
    [
        ("RV1109", 0, 1024, b""),
        ("rk1808", 1, 0, b"\0" * 40),
        ("RK3399PRO", 6, 8, b"\xff\xfe}"),
        ("RV1126", 2, 33, b""),
        ("RK1806", 3, 5000, b"\xff\xfe}"),
    ],
)
def test_raw_weights_before_json_are_an_rknn1_model(
    soc: str, word: int, weights: int, behind: bytes
) -> None:
    """Magic, the size of the weights at 16, the weights, eight bytes, JSON that names the SoC.

    With few weights the JSON is most of the file; whatever follows it, the file is not damaged.
    """

    def model(name: str) -> bytes:
        text = json.dumps({"name": "x" * 200, "target_platform": [name, name]}).encode()
        head = b"RKNN\0\0\0\0" + word.to_bytes(8, "little") + weights.to_bytes(8, "little")
        return head + bytes(weights) + len(text).to_bytes(8, "little") + text + behind

    with pytest.raises(InvalidModelError, match=r"this is an RKNN1 model.*without the 2"):
        reader.read(model(soc))
    with pytest.raises(InvalidModelError) as caught:
        reader.read(model("rk3588"))
    assert "RKNN1" not in str(caught.value)


def test_things_that_are_no_files(tmp_path: Path) -> None:
    """A directory is no model, a missing file an OSError, a number a TypeError."""
    with pytest.raises(InvalidModelError, match="expected a regular file, got a directory"):
        reader.read(tmp_path)
    with pytest.raises(InvalidModelError, match="expected a regular file, got"):
        reader.read("/dev/zero")
    with pytest.raises(FileNotFoundError):
        reader.read(tmp_path / "missing.rknn")
    with (tmp_path / "huge.rknn").open("wb") as file:
        file.truncate(2**32)
    with pytest.raises(InvalidModelError, match=r"expected at most .* bytes, got 4294967296"):
        reader.read(tmp_path / "huge.rknn")
    with pytest.raises(TypeError, match="model: expected a path or bytes, got int"):
        reader.read(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="contiguous"):
        reader.read(memoryview(b"RKNN" * 20)[::2])


@pytest.mark.parametrize(
    "model",
    [
        handmade.standard_model([IMAGE], [FEATURES], version=0),
        handmade.standard_model([IMAGE], [FEATURES], version=0x2006),
        handmade.standard_model([IMAGE], []),
        handmade.standard_model([IMAGE] * 20, [FEATURES], padding=0),
        handmade.standard_model([IMAGE], [{**FEATURES, 0: b"\x63"}]),
        handmade.standard_model([IMAGE], [{**FEATURES, 1: b"\x63"}]),
        handmade.standard_model([IMAGE], [{**FEATURES, 5: "x" * 256}]),
        handmade.standard_model([IMAGE], [{**FEATURES, 10: handmade.Vector("f", 1, 2)}]),
        handmade.standard_model([IMAGE], [FEATURES], slot_2=[]),
        handmade.standard_model([IMAGE], [FEATURES], slot_9="x" * 300),
        handmade.standard_model([IMAGE], [FEATURES], slot_13="[]"),
        handmade.standard_model([IMAGE], [FEATURES], slot_13="{"),
        handmade.standard_model([IMAGE], [FEATURES], slot_14="many"),
        handmade.standard_model([IMAGE], [FEATURES], slot_14="999999999"),
    ],
)
def test_a_contradiction_is_an_invalid_model(model: bytes) -> None:
    """Contradictions that no toolkit writes are refused, with a reason."""
    with pytest.raises(InvalidModelError, match=r"."):
        reader.read(model)

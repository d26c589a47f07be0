"""The simulated runtime answers as the vendor's did: recorded facts against the C API.

The recordings are what librknnmrt 2.3.2 and librknnrt 1.5.2 answered about the same
``.rknn`` files. ``RKNN_TEST_MODELS`` names a folder with more of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paths import DATA
from sim_api import Api, attr_fields

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.sim import bundle_from_rknn

MODELS = DATA / "models"
MORE_MODELS = os.environ.get("RKNN_TEST_MODELS")
#: The version of it that was asked.
LIBRKNNMRT = "2.3.2"
#: Where librknnrt 1.5.2 is wrong about its own int16 models.
INT16_FIELDS = ("type", "size", "size_with_stride")
CURRENT = {
    "cur_in": ("in", "current"),
    "cur_out": ("out", "current"),
    "cur_nin": ("in", "current native"),
    "cur_nout": ("out", "current native"),
}


def models_with(kind: str, *folders: Path) -> list[Path]:
    """Models about which this kind of fact was recorded: those that the vendor's loaded."""
    models = [path for folder in folders for path in sorted(folder.glob("*.rknn"))]
    return [path for path in models if any(fact["t"] == kind for fact in facts_of(path))]


def facts_of(model: Path) -> list[dict[str, Any]]:
    text = model.with_suffix(".json").read_text(encoding="utf-8")
    facts: list[dict[str, Any]] = json.loads(text)["facts"]
    return facts


def utf8(text: str) -> str:
    """Some recordings hold a string's bytes as one character each."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


FOLDERS = [MODELS, *([Path(MORE_MODELS)] if MORE_MODELS else [])]


@pytest.fixture(params=models_with("range", *FOLDERS), ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> Iterator[tuple[Api, list[dict[str, Any]]]]:
    with Api(bundle_from_rknn(request.param, None)) as api:
        yield api, facts_of(request.param)


def check_attr(fact: dict[str, Any], status: int, attr: Any, *, is_int16_logical: bool) -> None:
    assert status == fact["rc"]
    if status != 0:
        return
    expected, actual = dict(fact["a"]), attr_fields(attr)
    expected["name"] = utf8(expected["name"])
    expected["scale"] = float(ffi.cast("float", expected["scale"]))
    if is_int16_logical and expected["type"] == lib.RKNN_TENSOR_INT4:
        for field in INT16_FIELDS:
            del expected[field], actual[field]
    assert actual == expected


def test_every_attribute_is_the_recorded_one(recorded: Any) -> None:
    """All 16 fields of the six attribute queries, and their status."""
    api, facts = recorded
    checked = 0
    for fact in facts:
        if fact["t"] in ("in", "out"):
            status, attr = api.attr(fact["t"], fact["k"], fact["i"])
            check_attr(fact, status, attr, is_int16_logical=fact["k"] == "logical")
            checked += 1
    assert checked >= 6


def test_the_other_queries_answer_as_recorded(recorded: Any) -> None:
    """Counts, version, custom string, sizes, dynamic range, and how queries are refused."""
    api, facts = recorded
    kinds = {
        "io": check_counts,
        "sdk": check_version,
        "custom": check_custom,
        "mem": check_mem,
        "range": check_range,
    }
    checked = set()
    for fact in facts:
        if fact["t"] in kinds:
            kinds[fact["t"]](api, fact)
            checked.add(fact["t"])
        elif fact["t"] in CURRENT:
            assert api.attr(*CURRENT[fact["t"]], fact["i"])[0] == fact["rc"]
        elif fact["t"] == "q_oob":
            check_refusals(api, fact)
    assert checked == set(kinds)


def check_counts(api: Api, fact: dict[str, Any]) -> None:
    count = ffi.new("rknn_input_output_num *")
    assert api.query(lib.RKNN_QUERY_IN_OUT_NUM, count) == fact["rc"]
    assert (count.n_input, count.n_output) == (fact["n_input"], fact["n_output"])


def check_custom(api: Api, fact: dict[str, Any]) -> None:
    text = ffi.new("rknn_custom_string *")
    assert api.query(lib.RKNN_QUERY_CUSTOM_STRING, text) == fact["rc"]
    assert ffi.string(text.string).decode() == utf8(fact["string"])


def version(api: Api) -> str:
    info = ffi.new("rknn_sdk_version *")
    assert api.query(lib.RKNN_QUERY_SDK_VERSION, info) == 0
    return ffi.string(info.api_version).decode().partition(" ")[0]


def check_version(api: Api, fact: dict[str, Any]) -> None:
    assert version(api) == fact["api"].partition(" ")[0]


def check_mem(api: Api, fact: dict[str, Any]) -> None:
    size = ffi.new("rknn_mem_size *")
    assert api.query(lib.RKNN_QUERY_MEM_SIZE, size) == fact["rc"]
    assert size.total_internal_size == fact["internal"]
    if version(api) == LIBRKNNMRT:  # librknnrt also counts what it makes of the file's commands
        assert size.total_weight_size == fact["weight"]
        assert size.total_dma_allocated_size == fact["dma"]


def check_range(api: Api, fact: dict[str, Any]) -> None:
    shapes = ffi.new("rknn_input_range *", {"index": fact["i"]})
    assert api.query(lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, shapes) == fact["rc"]
    if fact["rc"] == 0:
        listed = [list(shapes.dyn_range[i][0 : shapes.n_dims]) for i in range(shapes.shape_number)]
        assert listed == fact["ranges"]
        assert shapes.fmt == fact["fmt"]
        assert ffi.string(shapes.name).decode() == fact["name"]


def check_refusals(api: Api, fact: dict[str, Any]) -> None:
    attr = ffi.new("rknn_tensor_attr[2]")
    size = ffi.sizeof("rknn_tensor_attr")
    assert api.attr("in", "logical", 99)[0] == fact["in"]
    assert api.attr("out", "logical", 99)[0] == fact["out"]
    assert api.query(lib.RKNN_QUERY_INPUT_ATTR, attr, size - 1) == fact["short_struct"]
    assert api.query(lib.RKNN_QUERY_INPUT_ATTR, attr, size + 1) == fact["long_struct"]
    assert api.query(18, attr, size) == fact["cmd18"]
    assert api.query(99, attr, size) == fact["cmd99"]


def test_dynamic_shapes_are_set_as_recorded() -> None:
    """After rknn_set_input_shapes the CURRENT queries describe the chosen shape."""
    model = MODELS / "dyn_in_rk3588.rknn"
    facts = facts_of(model)
    (shapes,) = (fact["ranges"] for fact in facts if fact["t"] == "range")
    views = {"cur_in": "in", "cur_out": "out", "cur_nin": "in", "cur_nout": "out"}
    with Api(bundle_from_rknn(model, None)) as api:
        for number, shape in enumerate(shapes):
            attr = api.good_attr("in", "logical")
            attr.dims[0:4] = shape
            assert lib.rkr_set_input_shapes(api.handle, api.context, 1, attr) == 0
            asked = [f for f in facts if f["t"] == "dynset" and f["s"] == number]
            assert {fact["q"] for fact in asked} == set(views)
            for fact in asked:
                status, current = api.attr(*CURRENT[fact["q"]], fact["i"])
                check_attr(fact, status, current, is_int16_logical=False)
        attr.dims[1] += 1
        bad = next(fact["rc"] for fact in facts if fact["t"] == "set_shapes_bad")
        assert lib.rkr_set_input_shapes(api.handle, api.context, 1, attr) == bad


def may_differ(api: Api, fact: dict[str, Any]) -> bool:
    """Whether we refuse more than the vendor: what would read past the end of a buffer.

    The vendor's checks no size of a batch, nor of raw data in rknn_inputs_set.
    """
    is_batch = api.good_attr("in", "logical").dims[0] > 1
    is_short = fact["t"] == "inputs_set" and fact["ds"] < 0
    return (is_short and fact["pt"]) or (is_batch and fact["t"] in ("setin", "inputs_set"))


@pytest.mark.skipif(not MORE_MODELS, reason="RKNN_TEST_MODELS names no further models")
@pytest.mark.parametrize("model", models_with("setin", *FOLDERS[1:]), ids=str)
def test_bindings_are_accepted_and_refused_as_recorded(model: Path) -> None:
    """rknn_set_io_mem for every type, layout and pass_through, and rknn_inputs_set."""
    with Api(bundle_from_rknn(model, None)) as api:
        mem = api.create_mem(1 << 25)
        for fact in facts_of(model):
            if fact["t"] in ("setin", "setout"):
                check_binding(api, fact, mem)
            elif fact["t"] == "inputs_set":
                buf = ffi.new("char[]", fact["size0"])
                given = {"index": 0, "buf": buf, "size": fact["size0"], "pass_through": fact["pt"]}
                status = api.inputs_set([{**given, "type": fact["type"], "fmt": fact["fmt"]}])
                assert status == fact["rc"] or may_differ(api, fact), fact
        assert api.destroy_mem(mem) == 0


def check_binding(api: Api, fact: dict[str, Any], mem: Any) -> None:
    status, attr = api.attr(fact["t"][3:], fact["k"], fact["i"])
    if status != 0:
        return
    attr.type = attr.type if fact["type"] < 0 else fact["type"]
    attr.fmt = attr.fmt if fact["fmt"] < 0 else fact["fmt"]
    attr.pass_through = fact["pt"]
    assert api.set_io_mem(mem, attr) == fact["rc"] or may_differ(api, fact), fact

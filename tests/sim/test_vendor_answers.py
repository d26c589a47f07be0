"""The simulated runtime answers as the vendor's did: recorded facts against the C API.

The recordings are what librknnmrt 2.3.2 and librknnrt 2.3.2 and 1.5.2 answered about the same
``.rknn`` files. ``RKNN_TEST_MODELS`` names a folder with more of them. The library is asked about
the file itself and about the bundle that Python makes of it; of 1.5.2 only a bundle can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded import FOLDERS, Fact, Recording, recordings
from sim_api import Api, attr_fields, bundle_of

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.modelfile.reader import read

#: Where librknnrt 1.5.2 is wrong about its own int16 models.
INT16_FIELDS = ("type", "size", "size_with_stride")
CURRENT = {
    "cur_in": ("in", "current"),
    "cur_out": ("out", "current"),
    "cur_nin": ("in", "current native"),
    "cur_nout": ("out", "current native"),
}


def utf8(text: str) -> str:
    """Some recordings hold a string's bytes as one character each."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


Asked = tuple[Api, Recording]


@pytest.fixture
def asked(request: pytest.FixtureRequest) -> Iterator[Asked]:
    """The simulated runtime with a recorded model, as the recorded version."""
    recording: Recording = request.param[0]
    if request.param[1] == "bundle":
        data = bundle_of(read(recording.model, runtime_version=recording.version))
    else:
        data = recording.model.read_bytes()
    with Api(data) as api:
        yield api, recording


def questions(kind: str, *folders: Path) -> list[Any]:
    """The questions: every recording, from bundles; those of 2.3.2 also from the file."""
    return [
        pytest.param((recording, form), id=f"{recording}-{form}")
        for recording in recordings(kind, *folders)
        for form in ("bundle", "file")
        if form == "bundle" or recording.version == "2.3.2"
    ]


def check_attr(fact: Fact, status: int, attr: Any, *, is_int16_logical: bool) -> None:
    assert status == fact["rc"]
    if status != 0:
        return
    expected = dict(fact["a"])
    actual = {name: value for name, value in attr_fields(attr).items() if name in expected}
    expected["name"] = utf8(expected["name"])
    expected["scale"] = float(ffi.cast("float", expected["scale"]))
    if is_int16_logical and expected["type"] == lib.RKNN_TENSOR_INT4:
        for field in INT16_FIELDS:
            del expected[field], actual[field]
    assert actual == expected


@pytest.mark.parametrize("asked", questions("in"), indirect=True)
def test_every_attribute_is_the_recorded_one(asked: Asked) -> None:
    """All recorded fields of the six attribute queries, and their status."""
    api, recording = asked
    checked = 0
    for fact in recording.facts:
        if fact["t"] in ("in", "out"):
            status, attr = api.attr(fact["t"], fact["k"], fact["i"])
            check_attr(fact, status, attr, is_int16_logical=fact["k"] == "logical")
            checked += 1
    assert checked >= 6


@pytest.mark.parametrize("asked", questions("range"), indirect=True)
def test_the_other_queries_answer_as_recorded(asked: Asked) -> None:
    """Counts, version, custom string, sizes, dynamic range, and how queries are refused."""
    api, recording = asked
    kinds = {
        "io": check_counts,
        "sdk": check_version,
        "custom": check_custom,
        "mem": check_mem_of(recording),
        "range": check_range,
    }
    checked = set()
    for fact in recording.facts:
        if fact["t"] in kinds:
            kinds[fact["t"]](api, fact)
            checked.add(fact["t"])
        elif fact["t"] in CURRENT:
            assert api.attr(*CURRENT[fact["t"]], fact["i"])[0] == fact["rc"]
        elif fact["t"] == "q_oob":
            check_refusals(api, fact)
    assert checked == set(kinds)


def check_counts(api: Api, fact: Fact) -> None:
    count = ffi.new("rknn_input_output_num *")
    assert api.query(lib.RKNN_QUERY_IN_OUT_NUM, count) == fact["rc"]
    assert (count.n_input, count.n_output) == (fact["n_input"], fact["n_output"])


def check_custom(api: Api, fact: Fact) -> None:
    text = ffi.new("rknn_custom_string *")
    assert api.query(lib.RKNN_QUERY_CUSTOM_STRING, text) == fact["rc"]
    assert ffi.string(text.string).decode() == utf8(fact["string"])


def version(api: Api) -> str:
    info = ffi.new("rknn_sdk_version *")
    assert api.query(lib.RKNN_QUERY_SDK_VERSION, info) == 0
    return ffi.string(info.api_version).decode().partition(" ")[0]


def check_version(api: Api, fact: Fact) -> None:
    assert version(api) == fact["api"].partition(" ")[0]


def check_mem_of(recording: Recording) -> Callable[[Api, Fact], None]:
    shapes = sum(fact["t"] == "set_shapes" for fact in recording.facts)
    is_mini = any(fact["t"] == "range" and fact["rc"] == -1 for fact in recording.facts)

    def check_mem(api: Api, fact: Fact) -> None:
        size = ffi.new("rknn_mem_size *")
        assert api.query(lib.RKNN_QUERY_MEM_SIZE, size) == fact["rc"]
        assert size.total_internal_size == fact["internal"]
        if recording.version != "1.5.2" or not shapes:  # it counts the weights of one shape
            assert size.total_weight_size == fact["weight"]
        if is_mini:  # librknnrt also counts what it makes of the file's commands
            assert size.total_dma_allocated_size == fact["dma"]

    return check_mem


def check_range(api: Api, fact: Fact) -> None:
    shapes = ffi.new("rknn_input_range *", {"index": fact["i"]})
    assert api.query(lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, shapes) == fact["rc"]
    if fact["rc"] == 0:
        listed = [list(shapes.dyn_range[i][0 : shapes.n_dims]) for i in range(shapes.shape_number)]
        assert listed == fact["ranges"]
        assert shapes.fmt == fact["fmt"]
        assert ffi.string(shapes.name).decode() == fact["name"]


def check_refusals(api: Api, fact: Fact) -> None:
    attr = ffi.new("rknn_tensor_attr[2]")
    size = ffi.sizeof("rknn_tensor_attr")
    assert api.attr("in", "logical", 99)[0] == fact["in"]
    assert api.attr("out", "logical", 99)[0] == fact["out"]
    assert api.query(lib.RKNN_QUERY_INPUT_ATTR, attr, size - 1) == fact["short_struct"]
    assert api.query(lib.RKNN_QUERY_INPUT_ATTR, attr, size + 1) == fact["long_struct"]
    assert api.query(18, attr, size) == fact["cmd18"]
    assert api.query(99, attr, size) == fact["cmd99"]


@pytest.mark.parametrize("asked", questions("dynset", FOLDERS[0]), indirect=True)
def test_dynamic_shapes_are_set_as_recorded(asked: Asked) -> None:
    """After rknn_set_input_shapes the CURRENT queries describe the chosen shape."""
    api, recording = asked
    facts = recording.facts
    (shapes,) = (fact["ranges"] for fact in facts if fact["t"] == "range")
    views = {"cur_in": "in", "cur_out": "out", "cur_nin": "in", "cur_nout": "out"}
    for number, shape in enumerate(shapes):
        attr = api.good_attr("in", "logical")
        attr.dims[0:4] = shape
        assert lib.rkr_set_input_shapes(api.handle, api.context, 1, attr) == 0
        set_so = [f for f in facts if f["t"] == "dynset" and f["s"] == number]
        assert {fact["q"] for fact in set_so} == set(views)
        for fact in set_so:
            status, current = api.attr(*CURRENT[fact["q"]], fact["i"])
            check_attr(fact, status, current, is_int16_logical=False)
    attr.dims[1] += 1
    bad = next(fact["rc"] for fact in facts if fact["t"] == "set_shapes_bad")
    assert lib.rkr_set_input_shapes(api.handle, api.context, 1, attr) == bad


def may_differ(api: Api, fact: Fact) -> bool:
    """Whether we refuse more than the vendor: what would read past the end of a buffer.

    The vendor's checks no size of a batch, nor of raw data in rknn_inputs_set.
    """
    is_batch = api.good_attr("in", "logical").dims[0] > 1
    is_short = fact["t"] == "inputs_set" and fact["ds"] < 0
    return (is_short and fact["pt"]) or (is_batch and fact["t"] in ("setin", "inputs_set"))


@pytest.mark.skipif(
    len(FOLDERS) == 1, reason="needs more recordings: `make test-models MODELS=folder`"
)
@pytest.mark.parametrize("asked", questions("setin"), indirect=True)
def test_bindings_are_accepted_and_refused_as_recorded(asked: Asked) -> None:
    """rknn_set_io_mem for every type, layout and pass_through, and rknn_inputs_set."""
    api, recording = asked
    mem = api.create_mem(1 << 25)
    for fact in recording.facts:
        if fact["t"] in ("setin", "setout"):
            check_binding(api, fact, mem)
        elif fact["t"] == "inputs_set":
            buf = ffi.new("char[]", fact["size0"])
            given = {"index": 0, "buf": buf, "size": fact["size0"], "pass_through": fact["pt"]}
            status = api.inputs_set([{**given, "type": fact["type"], "fmt": fact["fmt"]}])
            assert status == fact["rc"] or may_differ(api, fact), fact
    assert api.destroy_mem(mem) == 0


def check_binding(api: Api, fact: Fact, mem: Any) -> None:
    status, attr = api.attr(fact["t"][3:], fact["k"], fact["i"])
    if status != 0:
        return
    attr.type = attr.type if fact["type"] < 0 else fact["type"]
    attr.fmt = attr.fmt if fact["fmt"] < 0 else fact["fmt"]
    attr.pass_through = fact["pt"]
    assert api.set_io_mem(mem, attr) == fact["rc"] or may_differ(api, fact), fact

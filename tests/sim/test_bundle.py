"""The bundle file: written bundles are read back, and hostile files are refused.

``RKNN_TEST_MUTATIONS=100000`` sets the number of mutations; the default is a sample.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import struct
from typing import Any

import numpy as np
import pytest
from sim_api import Api, computed_bundle

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing, ShapeVariant
from rknn_runtime.npu.model import Model
from rknn_runtime.sim import Control, Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.sim.bundle import HEADER, Bundle, RawRecord, bundle_facts

MUTATIONS = int(os.environ.get("RKNN_TEST_MUTATIONS", "4000")) // 4
PREPROCESSING = Preprocessing((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), False)


def small(soc: str = "rk3588") -> Bundle:
    """An image and a vector in, a feature map and int64 out; two records."""
    inputs = (
        describe_input("image", (1, 3, 2, 3), soc=soc),
        describe_input("v", (2,), soc=soc, index=1),
    )
    outputs = (
        describe_output("o", (1, 5, 2, 3), soc=soc),
        describe_output(
            "k", (3,), soc=soc, index=1, dtype=TensorType.INT64, zero_point=None, scale=None
        ),
    )
    answer = (np.full((1, 5, 2, 3), 7, np.int8), np.arange(3, dtype=np.int64))
    given = (np.zeros((1, 3, 2, 3), np.int8), np.ones(2, np.int8))
    return Bundle(
        soc=soc,
        variants=(ShapeVariant(inputs, outputs),),
        preprocessing=(PREPROCESSING, None),
        records=(RawRecord(answer, given), RawRecord(answer)),
        mini=soc.startswith("rv"),
        weight_bytes=5,
        internal_bytes=6,
        command_bytes=7,
        custom_string="ä",
    )


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_a_bundle_is_read_as_it_was_written(soc: str) -> None:
    """Attributes, records and all the rest."""
    bundle = small(soc)
    (variant,) = bundle.variants
    assert bundle_facts(bytes(bundle)) == (soc, bundle.preprocessing)
    with Model(bytes(bundle), library="sim") as model:
        assert (model.inputs, model.outputs) == (variant.inputs, variant.outputs)
        assert model.custom_string == "ä"
        assert model.memory_size[:3] == (5, 6, 18)
        answer = model(np.zeros((1, 2, 3, 3), np.uint8), np.ones(2, np.int8))
        np.testing.assert_array_equal(answer[1], np.arange(3))


def test_equal_means_and_stds_become_one() -> None:
    """More channels than the format holds are fine as long as they do not differ."""
    wide = describe_input("x", (1, 17, 2, 2))
    target = describe_output("o", (2,))
    equal = Preprocessing((3.0,) * 17, (2.0,) * 17, False)
    bundle = computed_bundle([wide], [target], "rk3588", [equal])
    assert bundle_facts(bundle)[1] == (Preprocessing((3.0,), (2.0,), False),)
    differing = Preprocessing(tuple(map(float, range(17))), (2.0,) * 17, False)
    with pytest.raises(ValueError, match=r"for each of 17 channels .*, got 17 and 17"):
        computed_bundle([wide], [target], "rk3588", [differing])
    with pytest.raises(ValueError, match="got 2 and"):
        short = Preprocessing((1.0, 2.0), (1.0, 1.0), False)
        computed_bundle([describe_input("x", (1, 3, 2, 2))], [target], "rk3588", [short])


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([], "records: expected at least one, got none"),
        ([Record([])], "record: expected 1 outputs, got 0"),
        ([Record([np.zeros((1, 3), np.int8)])], r"expected int8 \(1, 4\), got int8 \(1, 3\)"),
        ([Record([np.zeros((1, 4), np.float64)])], "expected int8 or float32, got float64"),
        ([Record([np.zeros((1, 4), np.int8)], [])], "record: expected 1 inputs, got 0"),
        (
            [Record([np.zeros((1, 4), np.int8)], [np.zeros((1, 3, 2, 3), np.uint8)])],
            r"expected uint8 \(1, 2, 3, 3\), got uint8 \(1, 3, 2, 3\)",
        ),
    ],
)
def test_records_must_fit_the_tensors(records: list[Record], text: str) -> None:
    """The message has the expected and the given shape."""
    inputs, outputs = [describe_input("x", (1, 3, 2, 3))], [describe_output("o", (1, 4))]
    with pytest.raises(ValueError, match=text):
        bundle_from_arrays(inputs, outputs, records)


def test_impossible_bundles_are_not_written() -> None:
    """An unknown SoC, no outputs, a custom string that is too long."""
    variant = small().variants[0]
    with pytest.raises(ValueError, match=r"soc: expected one of .*, got 'rk9999'"):
        Bundle(soc="rk9999", variants=(variant,), preprocessing=(None, None))
    with pytest.raises(ValueError, match="at least one input and one output"):
        Bundle(soc="rk3588", variants=(), preprocessing=())
    with pytest.raises(ValueError, match="expected at most 1023 bytes, got"):
        Bundle(
            soc="rk3588", variants=(variant,), preprocessing=(None, None), custom_string="ä" * 512
        )
    with pytest.raises(ValueError, match=r"preprocessing: expected one per input \(1\), got 2"):
        bundle_from_arrays(
            variant.inputs[:1],
            variant.outputs[:1],
            [Record([np.zeros((1, 5, 2, 3), np.int8)])],
            preprocessing=[None, None],
        )


# ---- hostile bundles -----------------------------------------------------------------

#: What rknn_init may say of a damaged bundle.
REFUSALS = (lib.RKNN_ERR_FAIL, lib.RKNN_ERR_MODEL_INVALID, lib.RKNN_ERR_MALLOC_FAIL)


def survive(data: bytes) -> bool:
    """Load, question and run; whether it loaded. The sanitizers watch."""
    api = Api(data)
    if api.status != 0:
        assert api.status in REFUSALS
        return False
    count = ffi.new("rknn_input_output_num *")
    assert api.query(lib.RKNN_QUERY_IN_OUT_NUM, count) == 0
    mems = []
    for side, number in (("in", count.n_input), ("out", count.n_output)):
        for index in range(number):
            mems += bind_all_views(api, side, index)
    if all(mem.size < 1 << 20 for mem in mems):
        api.run()
    for mem in mems:
        api.destroy_mem(mem)
    api.destroy()
    return True


def bind_all_views(api: Api, side: str, index: int) -> list[Any]:
    mems = []
    for view in ("logical", "nhwc", "native"):
        status, attr = api.attr(side, view, index)
        if status == 0:
            attr.pass_through = side == "in"
            mem = api.create_mem(min(attr.size_with_stride, 1 << 20))
            if mem != ffi.NULL:
                api.set_io_mem(mem, attr)
                mems.append(mem)
    return mems


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_a_bundle_cut_off_anywhere_is_refused(soc: str) -> None:
    """At every byte, by the library; with its length corrected, too."""
    data = bytes(small(soc))
    assert survive(data)
    for length in range(len(data)):
        cut = data[:length]
        assert not survive(cut)
        with contextlib.suppress(InvalidModelError):
            bundle_facts(cut)
        if length >= HEADER.size:
            assert not survive(cut[:8] + struct.pack("<Q", length) + cut[16:])


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_bundle_never_crashes(seed: int) -> None:
    """Bytes and 32-bit words changed at random, with extreme values among them."""
    rng = np.random.default_rng(seed)
    original = bytes(small("rk3588" if seed % 2 else "rv1106"))
    extremes = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**16, 3, 4, 17]
    loaded = 0
    for _ in range(MUTATIONS):
        data = bytearray(original)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(16, len(data) - 4))
            if rng.integers(2):
                data[at] = int(rng.integers(256))
            else:
                struct.pack_into("<I", data, at & ~3, int(rng.choice(extremes)))
        loaded += survive(bytes(data))
        with contextlib.suppress(InvalidModelError):
            bundle_facts(bytes(data))
    assert 0 < loaded < MUTATIONS
    assert Control().live == (0, 0, 0)


@pytest.mark.parametrize("tensor_type", [lib.RKNN_TENSOR_INT4, lib.RKNN_TENSOR_BFLOAT16])
def test_a_type_without_whole_bytes_is_refused(tensor_type: int) -> None:
    """No runtime was seen to report INT4 or BFLOAT16, and NumPy has neither."""
    data = bytearray(bytes(small()))
    attr_bytes = ffi.sizeof("rknn_tensor_attr")
    for view in range(3):
        at = HEADER.size + view * attr_bytes + ffi.offsetof("rknn_tensor_attr", "type")
        struct.pack_into("<I", data, at, tensor_type)
    assert Api(bytes(data)).status == lib.RKNN_ERR_MODEL_INVALID


def test_gigabytes_in_a_small_bundle_are_refused() -> None:
    """Before any memory is made: 11 images of 30 MB take more than a board has for them."""
    images = tuple(
        describe_input(f"image {i}", (1, 3, 3200, 3200), soc="rk3588", index=i) for i in range(11)
    )
    few = Bundle("rk3588", (ShapeVariant(images[:2], small().variants[0].outputs),), (None,) * 2)
    with Api(bytes(few)) as api:
        assert api.status == 0
    many = Bundle("rk3588", (ShapeVariant(images, small().variants[0].outputs),), (None,) * 11)
    api = Api(bytes(many))
    assert api.status == lib.RKNN_ERR_MALLOC_FAIL
    assert "256 MB" in api.control.last_message


def test_a_bundle_of_an_unknown_runtime_is_refused() -> None:
    """By the writer and the library: librknnmrt 1.5.2 and librknnrt 9.9.9."""
    for soc, version in (("rv1106", b"1.5.2"), ("rk3588", b"9.9.9"), ("rk3588", b"2.3.2\x01")):
        bundle = small(soc)
        with pytest.raises(ValueError, match=r"runtime_version: expected 2\.3\.2"):
            dataclasses.replace(bundle, runtime_version=version.decode())
        data = bytearray(bytes(bundle))
        data[HEADER.size - 16 : HEADER.size] = version.ljust(16, b"\0")
        api = Api(bytes(data))
        assert api.status != 0
        assert "a runtime that is not known" in api.control.last_message


@pytest.mark.parametrize("data", [b"RKNN", b"RKNNSIM2", b"\0" * 2000, b"RKNNSIM2" + b"\xff" * 4000])
def test_other_bytes_are_no_bundle(data: bytes) -> None:
    """Refused as an invalid model, and the log has a reason."""
    api = Api(data)
    assert api.status == lib.RKNN_ERR_MODEL_INVALID
    assert api.control.last_message != ""

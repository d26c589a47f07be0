"""The simulated librknnrt converts input data that have another form than the NPU's.

They were measured on librknnrt 1.5.2 (armhf) and 2.3.2 (arm64), emulated with a stand-in for the
NPU's device: after a run, the first convolution's commands say from which memory the NPU reads and
whether it converts, and there lies what the runtime had made of the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sim_api import Api, bytes_of, computed_bundle

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim import describe_input, describe_output

#: What librknnrt does with data of a type, by version and by the model's own type: it Normalizes,
#: Copies them as they are, Fails to convert them, or Refuses the call.
INTAKE_TYPES = "FLOAT32 FLOAT16 UINT8 INT8 INT16 INT32 INT64 BOOL UINT16 UINT32"
INTAKE = {
    ("1.5.2", "INT8"): "N N N C R F F F R R",
    ("1.5.2", "FLOAT16"): "N N N F R F F F R R",
    ("1.5.2", "INT16"): "N N N F R F F F R R",
    ("2.3.2", "INT8"): "N N N C F F F N R R",
    ("2.3.2", "FLOAT16"): "N N N F F F N F R R",
    ("2.3.2", "INT16"): "N N N F N F F F R R",
}


class Intake:
    """A model of one input with mean 2 and std 4, and data for it in a foreign type."""

    def __init__(
        self, version: str, native: str, given: str, channels: int, what: str = ""
    ) -> None:
        self.version, self.what = version, what
        dtype = TensorType[native]
        is_real = dtype is TensorType.FLOAT16
        shape = (1, channels, 5, 37) if channels else (1, 40)
        self.tensor = describe_input(
            "x", shape, dtype=dtype, zero_point=None if is_real else 0,
            scale=None if is_real else 0.5, runtime_version=version,
        )  # fmt: skip
        self.type = TensorType[given]
        self.data = np.arange(self.tensor.n_elems).reshape(self.tensor.shape) % 97
        if given == "BOOL":
            self.data %= 2
        self.bundle = computed_bundle(
            [self.tensor], [describe_output("o", (1, 4))], "rk3588",
            [Preprocessing((2.0,), (4.0,), False)], runtime_version=version,
        )  # fmt: skip

    def seen(self, what: str) -> np.ndarray[Any, Any]:
        """The values that the executor must see, in the framework's order."""
        values = self.data.astype(np.float32)
        if what == "N" and self.tensor.dtype is TensorType.FLOAT16:
            values = ((values - 2) / 4).astype(np.float16).astype(np.float32)
        elif what == "N":
            values = np.rint((values - 2) / 4 / np.float32(0.5)) * np.float32(0.5)
        elif what == "C":
            values = values * np.float32(0.5)
        else:
            values = np.zeros_like(values)
        return values.transpose(0, 3, 1, 2) if values.ndim == 4 else values

    def padded(self) -> np.ndarray[Any, Any]:
        """The bytes of the data, rows of an image as wide as the runtime wants them."""
        data = self.data.astype(self.type.numpy)
        stride = self.tensor.w_stride
        if self.tensor.takes_pixels:
            data = np.pad(data, ((0, 0), (0, 0), (0, stride - data.shape[2]), (0, 0)))
        return np.frombuffer(data.tobytes(), np.uint8)


@pytest.fixture(params=INTAKE, ids="-".join)
def cases(request: pytest.FixtureRequest) -> list[Intake]:
    """Each type for an image, for features and for a vector."""
    answers = list(zip(INTAKE_TYPES.split(), INTAKE[request.param].split()))
    return [Intake(*request.param, given, n, what) for given, what in answers for n in (3, 5, 0)]


def test_librknnrt_takes_bound_data_as_measured(cases: list[Intake]) -> None:
    """rknn_set_io_mem without pass_through: types without conversion fail in rknn_run of 2.3.2."""
    for case in cases:
        inputs: list[Any] = []
        with Api(case.bundle) as api:
            api.set_executor(lambda arrays, _, seen=inputs: seen.append(arrays[0].copy()))
            before = api.control.violations
            attr = api.good_attr("in", "logical")
            attr.type = case.type
            data = case.padded()
            mem = api.create_mem(data.size)
            bytes_of(mem)[:] = data
            assert api.set_io_mem(mem, attr) == (lib.RKNN_ERR_FAIL if case.what == "R" else 0)
            if case.what == "F" and case.version == "2.3.2":
                assert api.run() == lib.RKNN_ERR_FAIL
                assert "are not converted" in api.control.last_message
            elif case.what != "R":
                assert api.run() == 0
                np.testing.assert_array_equal(inputs[0], case.seen(case.what))
            assert api.control.violations - before == (case.what == "F" and case.version == "1.5.2")
            assert api.destroy_mem(mem) == 0


def test_librknnrt_takes_copied_data_as_measured(cases: list[Intake]) -> None:
    """rknn_inputs_set returns 0 also for types that it cannot convert: that is a violation."""
    for case in cases:
        inputs: list[Any] = []
        with Api(case.bundle) as api:
            api.set_executor(lambda arrays, _, seen=inputs: seen.append(arrays[0].copy()))
            before = api.control.violations
            data = np.ascontiguousarray(case.data.astype(case.type.numpy))
            struct = {"buf": ffi.from_buffer(data), "size": data.nbytes, "type": case.type}
            status = api.inputs_set([{**struct, "fmt": case.tensor.layout}])
            assert status == (lib.RKNN_ERR_PARAM_INVALID if case.what == "R" else 0)
            if case.what == "R":
                assert f"type {int(case.type)} is not supported" in api.control.last_message
            else:
                assert api.run() == 0
                np.testing.assert_array_equal(inputs[0], case.seen(case.what))
            assert api.control.violations - before == (case.what == "F")
            if case.what == "F":
                assert f"librknnrt {case.version} does not convert" in api.control.last_violation


@pytest.mark.parametrize("version", ["1.5.2", "2.3.2"])
@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.UNDEFINED, Layout.NC1HWC2])
def test_librknnrt_converts_images_in_nhwc_alone(version: str, layout: Layout) -> None:
    """Other layouts are refused by rknn_set_io_mem (NC1HWC2), or not converted."""
    case = Intake(version, "INT8", "UINT8", 3)
    inputs: list[Any] = []
    with Api(case.bundle) as api:
        api.set_executor(lambda arrays, _: inputs.append(arrays[0].copy()))
        before = api.control.violations
        data = np.ones(case.tensor.shape, np.uint8)
        struct = {"buf": ffi.from_buffer(data), "size": data.nbytes, "type": case.type}
        assert api.inputs_set([{**struct, "fmt": layout}]) == 0
        assert api.run() == 0
        assert not inputs[0].any()
        assert api.control.violations == before + 1
        attr = api.good_attr("in", "logical")
        attr.fmt, attr.type = layout, case.type
        mem = api.create_mem(attr.size_with_stride)
        status = api.set_io_mem(mem, attr)
        assert status == (lib.RKNN_ERR_FAIL if layout is Layout.NC1HWC2 else 0)
        if status == 0:
            assert api.run() == (0 if version == "1.5.2" else lib.RKNN_ERR_FAIL)
        assert api.destroy_mem(mem) == 0


@pytest.mark.parametrize("version", ["1.5.2", "2.3.2"])
def test_librknnrt_passes_no_vector_in_nhwc(version: str) -> None:
    """rknn_set_io_mem refuses it; rknn_inputs_set logs an error, and leaves the input."""
    case = Intake(version, "INT8", "INT8", 0)
    inputs: list[Any] = []
    with Api(case.bundle) as api:
        api.set_executor(lambda arrays, _: inputs.append(arrays[0].copy()))
        before = api.control.violations
        data = case.data.astype(np.int8)
        struct = {"buf": ffi.from_buffer(data), "size": 40, "type": case.type, "pass_through": 1}
        attr = api.good_attr("in", "native")
        attr.pass_through = 1
        mem = api.create_mem(attr.size_with_stride)
        for layout in (Layout.NHWC, Layout.UNDEFINED, Layout.NCHW):
            fails = layout is Layout.NHWC
            attr.fmt = layout
            assert api.set_io_mem(mem, attr) == (lib.RKNN_ERR_FAIL if fails else 0)
            assert api.inputs_set([{**struct, "fmt": layout}]) == 0
            assert api.run() == 0
            np.testing.assert_array_equal(inputs[-1], case.seen("F" if fails else "C"))
        assert api.control.violations == before + 1
        assert api.destroy_mem(mem) == 0


def test_librknnmrt_takes_int64_without_pass_through_alone() -> None:
    """With it rknn_set_io_mem returns -5; without it the numbers are read unchanged."""
    tokens = describe_input(
        "t", (1, 3), soc="rv1106", dtype=TensorType.INT64, zero_point=None, scale=None
    )
    bundle = computed_bundle([tokens], [describe_output("o", (1, 4), soc="rv1106")], "rv1106")
    inputs: list[Any] = []
    with Api(bundle) as api:
        api.set_executor(lambda arrays, _: inputs.append(arrays[0].copy()))
        attr = api.good_attr("in", "native")
        mem = api.create_mem(24)
        attr.pass_through = 1
        assert api.set_io_mem(mem, attr) == lib.RKNN_ERR_PARAM_INVALID
        attr.pass_through = 0
        assert api.set_io_mem(mem, attr) == 0
        numbers = np.array([[2**62 + 1, -1, 7]])
        bytes_of(mem)[:] = numbers.view(np.uint8).reshape(-1)
        assert api.sync(mem, lib.RKNN_MEMORY_SYNC_TO_DEVICE) == 0
        assert api.run() == 0
        np.testing.assert_array_equal(inputs[0], numbers)
        assert api.destroy_mem(mem) == 0

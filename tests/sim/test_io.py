"""The simulated NPU reads bound memories and writes to them, like each runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sim_api import Api, bytes_of, computed_bundle

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.modelfile.attributes import FileTensor, Rules, input_attr, output_attr
from rknn_runtime.modelfile.info import Preprocessing, ShapeVariant
from rknn_runtime.modelfile.soc import SOCS
from rknn_runtime.sim import (
    Control,
    Record,
    bundle_from_arrays,
    describe_input,
    describe_output,
)

MINI, FULL = "rv1106", "rk3588"
TO_DEVICE, FROM_DEVICE = lib.RKNN_MEMORY_SYNC_TO_DEVICE, lib.RKNN_MEMORY_SYNC_FROM_DEVICE


def vector(name: str, soc: str, kind: str) -> Any:
    describe = describe_input if kind == "in" else describe_output
    return describe(name, (1, 4), soc=soc, zero_point=-5, scale=0.25)


def image(soc: str, channels: int = 3, **changes: Any) -> Any:
    shape = (1, channels, 5, 37)
    return describe_input("image", shape, **{"soc": soc, "scale": 0.01, **changes})


def seen(api: Api, mem: Any) -> np.ndarray[Any, Any]:
    """Run, and return what reached the executor."""
    inputs: list[Any] = []
    api.set_executor(lambda given, _: inputs.extend(array.copy() for array in given))
    assert api.sync(mem, TO_DEVICE) == 0
    assert api.run() == 0, api.control.last_message
    (array,) = inputs
    return array


def quantized(real: np.ndarray[Any, Any], zero_point: int, scale: float) -> np.ndarray[Any, Any]:
    """Quantize to int8 and back, in float32."""
    scale32 = np.float32(scale)
    q = np.clip(np.rint(real.astype(np.float32) / scale32) + zero_point, -128, 127)
    return ((q - zero_point).astype(np.float32) * scale32).astype(np.float32)


@pytest.mark.parametrize("soc", [MINI, FULL, "rk3566"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_are_normalized_and_quantized(soc: str, channels: int) -> None:
    """uint8 NHWC rows, padded to w_stride, become (x - mean) / std, quantized, in NCHW."""
    rng = np.random.default_rng(1)
    mean = tuple(range(10, 10 + channels))
    std = tuple(range(100, 100 + channels))
    bundle = computed_bundle(
        [image(soc, channels)],
        [vector("o", soc, "out")],
        soc,
        [Preprocessing(mean, std, False)],
    )
    with Api(bundle) as api:
        attr = api.good_attr("in", "logical")
        assert attr.w_stride == (40 if soc == "rk3566" else 48)
        mem = api.bind("in", view="logical", type=lib.RKNN_TENSOR_UINT8)
        pixels = rng.integers(0, 256, (1, 5, attr.w_stride, channels)).astype(np.uint8)
        bytes_of(mem)[: pixels.size] = pixels.reshape(-1)
        real = (
            pixels[:, :, :37].transpose(0, 3, 1, 2).astype(np.float32)
            - np.asarray(mean, np.float32).reshape(1, -1, 1, 1)
        ) / np.asarray(std, np.float32).reshape(1, -1, 1, 1)
        np.testing.assert_array_equal(seen(api, mem), quantized(real, 0, 0.01))
        assert api.destroy_mem(mem) == 0


def test_librknnmrt_refuses_at_the_run_what_it_cannot_read() -> None:
    """NHWC for an input of 5 channels, NCHW for an image: bound, but not run."""
    for tensor, layout in (
        (image(MINI, 5), lib.RKNN_TENSOR_NHWC),
        (image(MINI, 3), lib.RKNN_TENSOR_NCHW),
    ):
        bundle = computed_bundle([tensor], [vector("o", MINI, "out")], MINI)
        with Api(bundle) as api:
            mem = api.bind("in", view="logical", fmt=layout)
            assert api.run() == lib.RKNN_ERR_FAIL
            assert "pass_through" in api.control.last_message
            assert api.destroy_mem(mem) == 0


# ---- outputs -------------------------------------------------------------------------


class Output:
    """A context whose single output is known: int8 q of shape NCHW."""

    def __init__(
        self,
        soc: str,
        shape: tuple[int, ...] = (1, 20, 3, 7),
        zero_point: int = -4,
        scale: float = 0.03,
    ) -> None:
        self.tensor = describe_output("o", shape, soc=soc, zero_point=zero_point, scale=scale)
        self.api = Api(computed_bundle([vector("v", soc, "in")], [self.tensor], soc))
        rng = np.random.default_rng(4)
        self.q = rng.integers(-128, 128, shape).astype(np.int8)
        self.real = (self.q.astype(np.float32) - zero_point) * np.float32(scale)
        self.api.set_executor(self.compute)
        self.input = self.api.bind("in", pass_through=1)
        self.mems = [self.input]

    def compute(self, _: Any, outputs: Any) -> None:
        outputs[0][...] = self.real

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        assert [self.api.destroy_mem(mem) for mem in self.mems] == [0] * len(self.mems)
        assert self.api.destroy() == 0

    def written(self, layout: int, tensor_type: int, view: str = "native") -> bytes:
        """Bytes of the memory after a run, everything beforehand 0x77."""
        mem = self.api.bind("out", view=view, fmt=layout, type=tensor_type)
        self.mems.append(mem)
        bytes_of(mem)[:] = 0x77
        assert self.api.sync(mem, TO_DEVICE) == 0
        assert self.api.run() == 0, self.api.control.last_message
        assert self.api.sync(mem, FROM_DEVICE) == 0
        return bytes_of(mem).tobytes()


def assert_written(data: bytes, values: np.ndarray[Any, Any]) -> None:
    """Exactly these values were written, and nothing after them."""
    expected = np.ascontiguousarray(values).tobytes()
    assert data[: len(expected)] == expected
    assert set(data[len(expected) :]) == {0x77}


NCHW, NHWC = lib.RKNN_TENSOR_NCHW, lib.RKNN_TENSOR_NHWC
NC1HWC2, UNDEFINED = lib.RKNN_TENSOR_NC1HWC2, lib.RKNN_TENSOR_UNDEFINED


@pytest.mark.parametrize("soc", [MINI, FULL, "rk3566", "rv1103b"])
@pytest.mark.parametrize("plane", [(3, 7), (4, 4), (1, 1)])
def test_native_outputs_have_groups_collapsed_planes_and_garbage(
    soc: str, plane: tuple[int, int]
) -> None:
    """Every element lies where the index expression says; the padding changes every run."""
    with Output(soc, (1, 20, *plane)) as output:
        native = output.tensor.native
        _, c1, h, w, c2 = native.shape
        runs = []
        for _ in range(2):
            data = output.written(NC1HWC2, TensorType.INT8)
            runs.append(np.frombuffer(data, np.int8, native.n_elems).reshape(c1, h * w, c2))
        channels = runs[0].transpose(0, 2, 1).reshape(c1 * c2, h * w)
        pixels = plane[0] * plane[1]
        np.testing.assert_array_equal(channels[:20, :pixels], output.q.reshape(20, pixels))
        used = np.zeros((c1 * c2, h * w), bool)
        used[:20, :pixels] = True
        used = used.reshape(c1, c2, h * w).transpose(0, 2, 1)
        np.testing.assert_array_equal(runs[0][used], runs[1][used])
        assert np.count_nonzero(runs[0][~used] != runs[1][~used]) > (~used).sum() // 2


@pytest.mark.parametrize("soc", [MINI, FULL])
def test_outputs_in_nchw_and_nhwc_are_compact(soc: str) -> None:
    """The native type in NCHW or NHWC has no padding between its values."""
    with Output(soc) as output:
        assert_written(output.written(NCHW, TensorType.INT8), output.q)
        nhwc = output.q.transpose(0, 2, 3, 1)
        assert_written(output.written(NHWC, TensorType.INT8), nhwc)
        assert_written(output.written(NCHW, TensorType.FLOAT32), output.real)


@pytest.mark.parametrize(
    ("layout", "tensor_type"),
    [
        (NCHW, TensorType.FLOAT16),
        (NCHW, TensorType.UINT8),
        (NHWC, TensorType.FLOAT32),
        (NHWC, TensorType.INT16),
    ],
)
def test_librknnmrt_leaves_a_memory_alone_that_it_cannot_fill(
    layout: int, tensor_type: TensorType
) -> None:
    """Conversions it lacks are accepted, the run succeeds, and nothing is written."""
    with Output(MINI) as output:
        assert set(output.written(layout, tensor_type)) == {0x77}
        assert "stays" in output.api.control.last_message


def test_librknnrt_converts_outputs() -> None:
    """float32, uint8 = int8 + 128, float16 in NCHW alone, native fmt with float32 is NCHW."""
    with Output(FULL) as output:
        nhwc = (0, 2, 3, 1)
        moved = (output.q.astype(np.int16) + 128).astype(np.uint8)
        assert_written(output.written(NHWC, TensorType.FLOAT32), output.real.transpose(nhwc))
        assert_written(output.written(NCHW, TensorType.UINT8), moved)
        assert_written(output.written(NHWC, TensorType.UINT8), moved.transpose(nhwc))
        assert_written(output.written(NCHW, TensorType.FLOAT16), output.real.astype(np.float16))
        assert_written(output.written(NHWC, TensorType.FLOAT16), output.real.transpose(nhwc))
        assert_written(output.written(NC1HWC2, TensorType.FLOAT32), output.real)
        assert set(output.written(NCHW, TensorType.INT16)) == {0x77}


@pytest.mark.parametrize(("soc", "group"), [(FULL, 16), ("rk3566", 8), (MINI, 0)])
def test_librknnrt_fuses_what_it_converts_by_vectors(soc: str, group: int) -> None:
    """Zero is -2**-27 where 3 * scale, 40265319 / 2**27, is less than its float32.

    In NCHW alone, in whole groups of channels and of 4 pixels; the others subtract first.
    """
    with Output(soc, (1, 20, 3, 7), zero_point=3, scale=0.1) as output:
        output.real[...] = 0
        expected = np.zeros((20, 21), np.float32)
        channels = 20 // group * group if group else 0
        expected[:channels, :20] = -(2.0**-27)
        assert_written(output.written(NCHW, TensorType.FLOAT32), expected)
        if soc != MINI:
            zeros = np.zeros((1, 3, 7, 20), np.float32)
            assert_written(output.written(NHWC, TensorType.FLOAT32), zeros)
            assert_written(output.written(NCHW, TensorType.FLOAT16), zeros.astype(np.float16))


@pytest.mark.parametrize("batch", [1, 2])
def test_outputs_of_a_batch_are_copied_without_fusing(batch: int) -> None:
    """want_float gives -2**-27 for the zeros of one image, and 0 for zeros of two."""
    tensor = describe_output("o", (batch, 16, 2, 2), zero_point=3, scale=0.1)
    inputs = [describe_input("v", (batch, 4), soc=FULL)]
    with Api(computed_bundle(inputs, [tensor], FULL, batch=batch)) as api:
        api.set_executor(lambda _, outputs: outputs[0].fill(0))
        mem = api.bind("in", pass_through=1)
        assert api.run() == 0
        outputs = ffi.new("rknn_output[1]", [{"want_float": 1}])
        assert api.outputs_get(outputs) == 0
        got = np.frombuffer(ffi.buffer(outputs[0].buf, outputs[0].size), np.float32)
        assert set(got.tolist()) == {-(2.0**-27) if batch == 1 else 0.0}
        assert api.outputs_release(outputs) == 0
        assert api.destroy_mem(mem) == 0


def test_librknnrt_converts_other_ranks() -> None:
    """A rank 3 output comes compact, as int8 or float32, whatever layout is named."""
    with Output(FULL, (1, 6, 10)) as output:
        for layout in (UNDEFINED, NCHW, NHWC):
            assert_written(output.written(layout, TensorType.INT8), output.q)
            assert_written(output.written(layout, TensorType.FLOAT32), output.real)
            assert_written(output.written(layout, TensorType.FLOAT16), output.real)


def test_float16_outputs() -> None:
    """A float16 model writes float16, and float32 for every other type."""
    tensor = describe_output(
        "o", (1, 9, 2, 2), dtype=TensorType.FLOAT16, zero_point=None, scale=None
    )
    real = np.linspace(-60000, 60000, 36, dtype=np.float32).reshape(1, 9, 2, 2)
    real[0, 0, 0] = [1e-7, 3.0e-5]
    with Api(computed_bundle([vector("v", FULL, "in")], [tensor], FULL)) as api:

        def compute(_: Any, outputs: Any) -> None:
            outputs[0][...] = real

        api.set_executor(compute)
        source = api.bind("in", pass_through=1)
        half = real.astype(np.float16)
        for tensor_type in (TensorType.FLOAT16, TensorType.FLOAT32, TensorType.INT8):
            mem = api.bind("out", view="logical", fmt=NCHW, type=tensor_type)
            assert api.run() == 0
            expected = half if tensor_type is TensorType.FLOAT16 else half.astype(np.float32)
            written = bytes_of(mem)[: expected.nbytes].view(expected.dtype)
            np.testing.assert_array_equal(written.reshape(expected.shape), expected)
            assert api.destroy_mem(mem) == 0
        assert api.destroy_mem(source) == 0


# ---- the copying calls ---------------------------------------------------------------


def test_outputs_get_gives_all_outputs_by_their_position() -> None:
    """As librknnrt 2.3.2: fewer are -5 and a read behind the array, an index only has to exist."""
    tensors = [describe_output(name, (1, 4), index=i) for i, name in enumerate("xyz")]
    records = [Record([np.full((1, 4), i, np.int8) for i in range(3)])]
    with Api(bundle_from_arrays([image(FULL)], tensors, records, soc=FULL)) as api:
        mem = api.bind("in", type=TensorType.UINT8)
        assert api.run() == 0
        for count in (0, 1, 2):
            outputs = ffi.new("rknn_output[]", [{"index": i} for i in range(count)])
            assert api.outputs_get(outputs) == lib.RKNN_ERR_PARAM_INVALID
            assert f"{count} outputs of 3" in api.control.last_violation
        api.control.reset()
        for indexes in ((0, 0, 0), (2, 1, 0)):
            outputs = ffi.new("rknn_output[]", [{"index": i} for i in indexes])
            assert api.outputs_get(outputs) == 0
            found = [np.frombuffer(ffi.buffer(o.buf, o.size), np.int8)[0] for o in outputs]
            assert found == [0, 1, 2]
            assert tuple(o.index for o in outputs) == indexes
            assert api.outputs_release(outputs) == 0
        outputs = ffi.new("rknn_output[]", [{"index": 3}] * 3)
        assert api.outputs_get(outputs) == lib.RKNN_ERR_PARAM_INVALID
        assert "index 3 of 3 outputs" in api.control.last_message
        assert api.destroy_mem(mem) == 0


# ---- shapes --------------------------------------------------------------------------


def dynamic_bundle() -> bytes:
    rules = Rules(SOCS[FULL], mini=False, dynamic=True)
    variants = []
    for width in (40, 24):
        source = FileTensor(
            "x", TensorType.INT8, Layout.NHWC, (1, 1, 4, width, 3), (1, 3, 4, width), 0, 1.0,
            4 * 48 * 3, True, TensorType.INT8,
        )  # fmt: skip
        target = FileTensor(
            "y", TensorType.INT8, Layout.NC1HWC2, (1, 2, 4, width, 16), (1, 3, 4, width), 0, 1.0,
            4 * 48 * 32, False, TensorType.INT8,
        )  # fmt: skip
        variants.append(
            ShapeVariant((input_attr(source, 0, rules),), (output_attr(target, 0, rules),))
        )
    return computed_bundle(variants[0].inputs, variants[0].outputs, FULL, variants=tuple(variants))


def test_a_dynamic_model_wants_a_shape_first(control: Control) -> None:
    """The vendor's ends the process when data come in or it runs; here that is a violation."""
    control.reset()
    with Api(dynamic_bundle()) as api:
        attr, mem = api.good_attr("in", "native"), api.create_mem(1 << 16)
        pixels = ffi.new("char[]", 480)
        given = {"buf": pixels, "size": 480, "type": lib.RKNN_TENSOR_UINT8}
        for use in (lambda: api.set_io_mem(mem, attr), api.run, lambda: api.inputs_set([given])):
            before = control.violations
            assert use() == lib.RKNN_ERR_CTX_INVALID
            assert "none of the model's shapes was chosen" in control.last_violation
            assert control.violations == before + 1
        assert api.destroy_mem(mem) == 0
    control.reset()


def test_a_duplicate_shares_model_and_executor_but_not_bindings() -> None:
    """rknn_dup_context makes a separate context."""
    with Output(FULL) as output:
        api = output.api
        contexts = ffi.new("rknn_context[2]", [api.context, 0])
        assert lib.rkr_dup_context(api.handle, contexts, contexts + 1) == 0
        other = Api.__new__(Api)
        other.library, other.handle, other.control = api.library, api.handle, api.control
        other.context = int(contexts[1])
        mems = [other.bind("in", pass_through=1), other.bind("out", fmt=NCHW)]
        assert other.run() == 0
        assert bytes_of(mems[1])[: output.q.size].tobytes() == output.q.tobytes()
        assert [other.destroy_mem(mem) for mem in mems] == [0, 0]
        assert other.destroy() == 0

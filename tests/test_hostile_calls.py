"""No public call crashes or fails in an unforeseen way, whatever it is given.

Every function is called with good arguments of which some are replaced, by a seeded choice among
values that callers should not give. A call may return, or raise a documented exception, but no
inner one such as ZeroDivisionError.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import warnings
from dataclasses import replace
from enum import Enum

import every_head
import numpy as np
import pytest
from bundles import recorded
from custom_models import CUSTOM, CUSTOM_SOFTMAX, softmax
from custom_models import FRAME as OPERATED
from every_head import HEADS, OF_ONE
from native_tensors import attribute, deliver
from paths import DATA

import rknn_runtime
from rknn_runtime import (
    Detections,
    GeneralModel,
    InputSpec,
    Matmul,
    MatmulType,
    Model,
    OutputSpec,
    TensorAttr,
    TensorMemory,
    kernels,
    sim,
    vision,
)
from rknn_runtime.conversion import accuracy, health
from rknn_runtime.enums import CoreMask, InitFlag, Layout, QuantType, TensorType
from rknn_runtime.errors import InvalidModelError, LibraryLoadError, RknnError
from rknn_runtime.kernels.resize import resize_bilinear
from rknn_runtime.kernels.yuv import YuvFrame
from rknn_runtime.modelfile import soc
from rknn_runtime.modelfile.layers import read_layers
from rknn_runtime.modelfile.reader import read, read_header
from rknn_runtime.npu import raw
from rknn_runtime.npu.library import open_library
from rknn_runtime.npu.query import checked_shapes
from rknn_runtime.sim import Control, describe_input, describe_output
from rknn_runtime.sim.emulator import Emulator
from rknn_runtime.vision import LetterboxTransform, heads, letterbox, nms
from rknn_runtime.vision.readers import from_yolo

DOCUMENTED = (TypeError, ValueError, IndexError, BufferError, MemoryError, OSError, RknnError)
CALLS_PER_FUNCTION = 100
#: A dimension that no memory holds, in an array of no element.
HUGE = min(1 << 40, sys.maxsize // 64)


class Subclass(np.ndarray):
    """An array of another class."""


def misaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)
    return memory[1:].view(array.dtype).reshape(array.shape)


def read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


ARRAYS = (
    misaligned,
    read_only,
    lambda a: a.byteswap().view(a.dtype.newbyteorder()),
    lambda a: a.view(Subclass),
    lambda a: a[::-1],
    lambda a: a[..., ::-1],
    lambda a: a.T,
    lambda a: a[None],
    lambda a: a[0],
    lambda a: a[:0],
    lambda a: a[..., :0],
    lambda a: a[:1],
    lambda a: np.repeat(a, 2, axis=-1),
    lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    lambda a: np.broadcast_to(a[:1], a.shape),
    lambda a: np.lib.stride_tricks.as_strided(a, a.shape, (0,) * a.ndim),
    lambda a: np.lib.stride_tricks.as_strided(a, (0, HUGE), (HUGE, 2 * HUGE)),
    lambda a: a.astype(object),
    lambda a: a.astype("S4"),
    lambda a: a.astype(np.float64),
    lambda a: a.astype(np.float16),
    lambda a: a.astype(bool),
    lambda a: a.astype(complex),
    lambda a: a.view([("x", a.dtype)]),
    lambda a: np.ma.masked_array(a, np.ones(a.shape, bool)),
    lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else np.full_like(a, 255 >> 1),
    lambda a: np.full_like(a, np.inf) if a.dtype.kind == "f" else np.zeros_like(a),
    memoryview,
    lambda a: a.tolist(),
    lambda a: iter(a),
)

NUMBERS = (
    True, 0, 1, -1, 2, 7, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1,
    1 << 63, 1 << 64, -(1 << 63), 10**400, 0.5, 1e-45, 1e-300, 1e38, 1e300, -1.0,
    float("nan"), float("inf"), -float("inf"), 1j, np.int8(-1), np.uint64(1 << 63),
    np.float32("nan"), np.float16(2), np.bool_(True), np.datetime64("2020-01-01"),
)  # fmt: skip

THINGS = (
    None, "", "x", "\0", "\ud800", "1", b"", b"RKNN", "/", "/dev/null", "RGB", "NCHW", [], (), {},
    set(), object(), object, [1], (1, 2), (0, 0), (1, 2, 3), (-1, 5), ("a", "b"), (1.5, 2.5),
    [[]], [None], {"a": 1}, {1: "b"}, slice(None), range(3), np.array(3), np.array([]),
    np.array([1, 2]), np.array("x"), np.array([None]), np.zeros((2, 3, 4, 5, 6, 7)),
    np.lib.stride_tricks.as_strided(np.empty(1), (0, HUGE), (8, 8)),
    Layout.NHWC, TensorType.INT4, QuantType.NONE, CoreMask.ALL,
    InitFlag.ASYNC, attribute((1, 84, 21), "float32"), Detections.empty(),
    LetterboxTransform((4, 5), (8, 8), (6, 8), (1, 0)),
)  # fmt: skip

ATTR_FIELDS = {
    "index": (-1, 1 << 40, None),
    "name": ("", None, "\0"),
    "shape": (
        (), (0,), (1,), (1, 0, 0, 0), (0, 1, 1, 1), (-1, 2, 3, 4), (1, -64, 8, 8),
        (1, 1 << 40, 8, 8), (1, 64, 1 << 31, 1 << 31), (1, 64, 8), (1, 64, 8, 8, 2), (1.5, 2),
        None, "1234", [1, 64, 8, 8], (1, 64, 7, 8), (1, 64, 8, 0), (1, 64, 64, 1), (1,) * 20,
    ),
    "layout": (Layout.NHWC, Layout.NC1HWC2, Layout.UNDEFINED, 99, None),
    "dtype": (*TensorType, 99, None),
    "qnt_type": (*QuantType, 99, None),
    "zero_point": (-129, 128, 1 << 31, -(1 << 40), None, 0.5),
    "scale": (0.0, -1.0, float("nan"), float("inf"), 1e-45, 1e300, None, "x"),
    "fl": (-128, 127, 300, -5000, None),
    "n_elems": (0, -1),
    "size": (0, -1),
    "w_stride": (1 << 31, -1),
    "native": (None, "x"),
}  # fmt: skip


def hostile_attr(rng, attr):
    """Replace fields of an attribute, or of its native one, by what contradicts the others."""
    name = rng.choice(list(ATTR_FIELDS))
    value = rng.choice(ATTR_FIELDS[name])
    if attr.native is not None and name != "native" and rng.random() < 0.5:
        return replace(attr, native=replace(attr.native, **{name: value}))
    return replace(attr, **{name: value})


def hostile(rng, value):
    """Return something in the place of a good argument."""
    kind = rng.random()
    if isinstance(value, np.ndarray) and kind < 0.8:
        return rng.choice(ARRAYS)(value)
    if isinstance(value, TensorAttr) and kind < 0.8:
        return hostile_attr(rng, value)
    if isinstance(value, dict):  # options of a decoder
        name = rng.choice(list(value))
        return {**value, name: hostile(rng, value[name])}
    if isinstance(value, (list, tuple)) and value and kind < 0.8:
        changed = list(value)
        i = rng.randrange(len(changed))
        how = rng.random()
        if how < 0.7:
            changed[i] = hostile(rng, changed[i])
        elif how < 0.8:
            del changed[i]
        elif how < 0.9:
            changed.append(changed[i])
        else:
            rng.shuffle(changed)
        return type(value)(changed)
    if isinstance(value, (int, float)) and kind < 0.7:
        return rng.choice(NUMBERS)
    return rng.choice(NUMBERS if kind < 0.85 else THINGS)


def outputs(shapes, is_one=False):
    rng = np.random.default_rng(len(shapes))
    made = []
    for i, shape in enumerate(shapes):
        four = shape if len(shape) == 4 else (*shape[:2], 1, shape[2])
        x = rng.uniform(0, 1, four).astype(np.float32)
        form = "c2=16" if len(shape) == 4 else "rank3"
        made.append(deliver(x, "int8", form, index=i, name=f"output{i}")[:2])
    attrs, raw = map(list, zip(*made))
    return attrs[0] if is_one else attrs, raw


SIZE = (32, 32)
SPLIT = outputs([(1, c, *grid) for grid in ((4, 4), (2, 2)) for c in (64, 3)])
LIMITS = {
    "conf_threshold": 0.25, "iou_threshold": 0.45, "class_agnostic": False, "max_candidates": 100,
    "max_detections": 10,
}  # fmt: skip
PLACE = LetterboxTransform((40, 30), SIZE, (32, 24), (0, 4))
PIXELS = np.arange(40 * 30 * 3, dtype=np.uint8).reshape(40, 30, 3)
NV12 = PIXELS[:30, :, 0].copy()
BOXES = np.arange(24, dtype=np.float32).reshape(6, 4)
SCORES = np.linspace(0, 1, 6, dtype=np.float32)
CLASSES = np.arange(6, dtype=np.int32)
PACKED = np.arange(2 * 3 * 5 * 16, dtype=np.int8).reshape(1, 2, 3, 5, 16)
PLANAR = np.arange(20 * 15, dtype=np.int16).reshape(1, 20, 3, 5)
FOUND = Detections(BOXES, SCORES, CLASSES)
MODEL_BYTES = (DATA / "models" / "ic3_w37_rk3588.rknn").read_bytes()
ANALYSIS = """
layer_name      simulator_error
             entire            single
           cos    euc       cos    euc
[Conv] x   1.0 | 0.0        1.0 | 0.0
"""
FLOATS = np.linspace(-2, 2, 60, dtype=np.float32).reshape(3, 20)


def decode(cls, attrs, raw, options, size=every_head.SIZE, transform=PLACE):
    return cls(attrs, size, **options)(raw, transform)


def detections_calls(*fields):
    found = Detections(*fields)
    return [found.to_dict(), list(found), found[::-1]]


def align(keypoints, image, size):
    return replace(FOUND, keypoints=keypoints).align(image, size)


def use_layout(attr, channel, start, count, threshold):
    layout = kernels.Nc1hwc2Layout.from_attr(attr)
    layout.channel_offset(channel)
    layout.integer_threshold(threshold)
    return layout.channel_offsets(start, count)


def transform_calls(image_size, size, resized_size, offset, boxes):
    transform = LetterboxTransform(image_size, size, resized_size, offset)
    return transform.boxes_from_image(transform.boxes_to_image(boxes))


def yuv_calls(image, size, out_color, **options):
    return YuvFrame(image, **options).resize(size, out_color)


def use_model(library, flags, core_mask, check, frame, index, out):
    options = {"flags": flags, "core_mask": core_mask, "check": check}
    with Model(BUNDLE, library=library, **options) as model:
        model.set_core_mask(core_mask)
        model.run(frame)
        model.input_view(index)
        model.input_memory(index)
        model.output_raw(index)
        model.output_memory(index)
        model.output_f32(index, out)
        model(frame, out=[out])


def use_memory(size, offset, mapped, sync, index, flags, shapes, only):
    fd = os.memfd_create("hostile")
    os.ftruncate(fd, 1 << 16)
    try:
        with Model(BUNDLE, library="sim") as model:
            TensorMemory(model, size, flags=flags)
            memory = TensorMemory.from_fd(model, fd, size, offset, mapped=mapped)
            model.bind_input(index, memory, sync=sync)
            memory.shared_with(model)
            model(only=only)
            checked_shapes(shapes, (((1, 8, 20, 3),),))
    finally:
        os.close(fd)


def use_specs(dtype, layout, normalized, pass_through, frame):
    spec = InputSpec(dtype, layout, normalized, pass_through)
    outputs = {0: OutputSpec(layout)}
    with Model(BUNDLE, library="sim", inputs=[spec], outputs=outputs) as model:
        model.run(frame)


def use_general_model(frame, float_outputs, out):
    with GeneralModel(BUNDLE, library="sim") as model:
        model.run(frame, float_outputs=float_outputs, out=[out])


def use_operators(op_type, compute, attribute, path):
    def look(node):
        node.attribute(attribute)

    with Model(CUSTOM_SOFTMAX, library="sim") as model:
        model.register_custom_op(op_type, compute, init=look)
        model.run(OPERATED)
        with contextlib.suppress(LibraryLoadError):
            model.register_custom_op_library(path)


def use_raw(command, index, size, frame_id, timeout_ms, non_block, mode, frame, matrix):
    with Model(BUNDLE, library="sim", flags=InitFlag.FENCE_OUT_OUTSIDE) as model:
        raw.mem_sync(model.input_memory(), mode)
        raw.query(model, command, index=index, size=size)
        raw.run(model, frame_id=frame_id, timeout_ms=timeout_ms, non_block=non_block)
        raw.start(model, frame_id=frame_id).wait()
    with GeneralModel(BUNDLE, library="sim") as general:
        raw.inputs_set(general, frame)
        raw.run(general)
        raw.outputs_get(general, float_outputs=non_block)
    with Matmul(4, 64, 64, MatmulType.INT8_MM_INT8_TO_INT32, library="sim") as matmul:
        raw.matmul_get_quant_params(matmul, matrix)


def use_control(function, nth, code, microseconds):
    control = Control()
    try:
        control.fail(function, nth, code)
        control.calls(function)
        control.set_latency(microseconds)
    finally:
        control.reset()


def use_emulator(model, graph, index, values, nodes, tensor):
    emulator = Emulator(model, graph)
    emulator.set_input(index, values)
    emulator.run(nodes)
    emulator.read(tensor)
    emulator.read_float(tensor)


def inspect(onnx, frame, dequantize):
    with Model(MACHINE, library="sim") as model:
        model.run(IMAGE)
        model.tensors(dequantize=dequantize)
        with contextlib.suppress(InvalidModelError):
            model.compare(onnx, frame)


#: Emulated models, and their inputs.
MACHINE = (DATA / "emulator" / "machine_rk3588.rknn").read_bytes()
VECTOR = (DATA / "models" / "rank1_in_vec_rk3588.rknn").read_bytes()
IMAGE = np.zeros((1, 16, 32, 3), np.uint8)
BUNDLE = recorded().data
FRAME = np.zeros((1, 8, 20, 3), np.uint8)
ANSWER = np.zeros((1, 5, 4, 6), np.float32)

#: Name: function, good arguments, good keyword arguments.
POINTS = np.random.default_rng(0).uniform(0, 30, (6, 5, 3)).astype(np.float32)
CALLS = {
    "align": (align, (POINTS, PIXELS, 24), {}),
    "nc1hwc2_to_nchw": (kernels.nc1hwc2_to_nchw, (PACKED, 20),
                        {"height": 3, "width": 5, "out": np.zeros((1, 20, 3, 5), np.int8)}),
    "nc1hwc2_to_nhwc": (kernels.nc1hwc2_to_nhwc, (PACKED, 20),
                        {"height": 3, "width": 5, "out": np.zeros((1, 3, 5, 20), np.int8)}),
    "nc1hwc2_to_flat": (kernels.nc1hwc2_to_flat, (PACKED.reshape(-1), 2, 3, 5, 16, 20), {}),
    "nchw_to_nc1hwc2": (kernels.nchw_to_nc1hwc2, (PLANAR, 8),
                        {"c1": 3, "plane": 16, "pad_value": 1,
                         "out": np.zeros((1, 3, 1, 16, 8), np.int16)}),
    "nhwc_to_nc1hwc2": (kernels.nhwc_to_nc1hwc2, (FLOATS.reshape(1, 3, 4, 5), 8),
                        {"c1": 1, "pad_value": 0.5}),
    "Nc1hwc2Layout": (use_layout, (SPLIT[0][0], 3, 1, 5, 0.5), {}),
    "dequantize_affine": (kernels.dequantize_affine, (PLANAR, 3, 0.5),
                          {"out": np.zeros(PLANAR.shape, np.float32)}),
    "dequantize_dfp": (kernels.dequantize_dfp, (PLANAR, 3), {}),
    "quantize_affine": (kernels.quantize_affine, (FLOATS, 3, 0.5, np.int8),
                        {"out": np.zeros(FLOATS.shape, np.int8)}),
    "float16_to_float32": (kernels.float16_to_float32, (FLOATS.astype(np.float16),), {}),
    "float32_to_float16": (kernels.float32_to_float16, (FLOATS,), {}),
    "dequantize_nc1hwc2": (kernels.dequantize_nc1hwc2, (PACKED, 20, 3, 0.5),
                           {"height": 3, "width": 5, "layout": "NHWC"}),
    "nms": (nms, (BOXES, SCORES, CLASSES), {"iou_threshold": 0.5, "max_detections": 3}),
    "letterbox": (letterbox, (PIXELS, SIZE),
                  {"pad_value": 3, "color": "BGR", "out_color": "RGB", "center": True,
                   "resize": "native", "out": np.zeros((32, 32, 3), np.uint8)}),
    "letterbox of a camera frame": (letterbox, (NV12, SIZE),
                                    {"color": "NV12", "matrix": "bt709", "full_range": True,
                                     "out": np.zeros((32, 32, 3), np.uint8)}),
    "YuvFrame": (yuv_calls, ((NV12[:20], NV12[20:]), SIZE),
                 {"color": "NV12", "matrix": "bt601", "full_range": False, "out_color": "BGR"}),
    "resize_bilinear": (resize_bilinear, (PIXELS, SIZE), {"channels": (2, 1, 0)}),
    "LetterboxTransform": (transform_calls, ((40, 30), SIZE, (32, 24), (0, 4), BOXES), {}),
    "Detections": (detections_calls, (BOXES, SCORES, CLASSES, np.zeros((6, 4, 4), bool),
                                      np.zeros((6, 2, 3), np.float32),
                                      np.zeros((6, 4, 2), np.float32)), {}),
    "draw": (Detections(BOXES, SCORES, CLASSES, keypoints=np.zeros((6, 2, 3), np.float32)).draw,
             (PIXELS, ["a"] * 6),
             {"color": "BGR", "skeleton": [(0, 1)], "keypoint_threshold": 0.5,
              "out": np.empty_like(PIXELS)}),
    "to_yolo": (FOUND.to_yolo, ((8, 9),), {"confidence": True}),
    "to_coco": (FOUND.to_coco, (1, [1, 2, 3, 4, 5, 6]), {}),
    "to_csv": (FOUND.to_csv, (["a"] * 6,), {"header": True}),
    "from_yolo": (from_yolo, ("0 0.5 0.5 0.25 0.25 0.5", (8, 9)),
                  {"task": "detect", "confidence": True}),
    "compare": (accuracy.compare, ([[FLOATS]], [[FLOATS]], [FRAME]),
                {"match_iou": 0.5, "mean_values": [[0]], "std_values": [[1]]}),
    "average_precision": (accuracy.average_precision, ([FOUND], [FOUND]), {}),
    "parse_analysis": (accuracy.parse_analysis, (ANALYSIS,), {}),
    "health": (lambda model: health.check(model), (MODEL_BYTES,), {}),
    "heads.find_head": (heads.find_head, (SPLIT[0], SIZE, "auto", 3), {}),
    "classification": (lambda attr, raw, **k: heads.ClassificationDecoder(attr, **k)(raw),
                       tuple(x[0] for x in outputs([(1, 9, 1, 1)])), {"top_k": 3, "softmax": True}),
    "describe_input": (describe_input, ("x", (1, 3, 8, 8)),
                       {"soc": "rk3588", "dtype": TensorType.INT8, "zero_point": 1, "scale": 0.5}),
    "describe_output": (describe_output, ("x", (1, 30, 8, 8)),
                        {"soc": "rk3588", "dtype": TensorType.INT8, "zero_point": 1, "scale": 0.5}),
    "read": (read, (b"RKNN\0\0\0\0" + bytes(64),), {}),
    "read_header": (read_header, (b"RKNN\0\0\0\0" + bytes(64),), {}),
    "read_layers": (read_layers, (MODEL_BYTES,), {}),
    "open_library": (open_library, ("/nowhere/librknnrt.so",), {}),
    "has": (open_library("sim").has, ("rknn_init",), {}),
    "symbol": (open_library("sim").symbol, ("rknn_init",), {}),
    "find_soc": (soc.find_soc, ("rk3588",), {}),
    "Model": (use_model, ("sim", InitFlag.PRIOR_HIGH, CoreMask.CORE_0, True, FRAME, 0, ANSWER), {}),
    "Model of bytes": (lambda model: Model(model, library="sim").close(), (BUNDLE,), {}),
    "TensorMemory": (use_memory, (1 << 15, 64, True, False, 0, 1, [(1, 8, 20, 3)], [0]), {}),
    "InputSpec": (use_specs, (TensorType.UINT8, Layout.NHWC, False, False, FRAME), {}),
    "GeneralModel": (use_general_model, (FRAME, True, ANSWER), {}),
    "Emulator": (use_emulator, (VECTOR, 0, 0, np.zeros((1, 32), np.int8), 9, 10), {}),
    "inspection": (inspect, (b"onnx", IMAGE, True), {}),
    "raw": (use_raw, (5, 0, 512, 1, 50, False, 3, FRAME, "A"), {}),
    "custom operators": (use_operators, (CUSTOM, softmax, "axis", "missing.so"), {}),
    "Control": (use_control, ("rknn_wait", 1, -1, 0), {}),
    **{name: (decode, (cls, *outputs(shapes, is_one=cls in OF_ONE), {**LIMITS, **options}), {})
       for name, (cls, shapes, options) in HEADS.items() if name != "anchors rank 5"},
}  # fmt: skip


def attack(rng, function, arguments, keywords):
    """Call with one or more hostile arguments; whatever comes must be documented."""
    arguments, keywords = list(arguments), dict(keywords)
    places = [*range(len(arguments)), *keywords]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for place in rng.sample(places, min(len(places), rng.choice((1, 1, 1, 2, 3)))):
                values = keywords if isinstance(place, str) else arguments
                if not isinstance(values[place], type):
                    values[place] = hostile(rng, values[place])
            function(*arguments, **keywords)
    except DOCUMENTED:
        pass
    except Exception as error:
        raise AssertionError(f"{function} of {arguments!r}, {keywords!r}: {error!r}") from error


@pytest.mark.parametrize("name", CALLS)
def test_hostile_arguments_raise_what_is_documented(name):
    """Good arguments are taken; others give a result, or a documented exception."""
    rng = random.Random(name)
    function, arguments, keywords = CALLS[name]
    is_refused = name in ("read", "read_header", "open_library")
    with pytest.raises(RknnError) if is_refused else contextlib.nullcontext():
        function(*arguments, **keywords)
    with np.errstate(all="ignore"):
        for _ in range(CALLS_PER_FUNCTION):
            attack(rng, *CALLS[name])


CLASSES = {
    value
    for module in (rknn_runtime, sim, vision, heads)
    for value in (getattr(module, name) for name in module.__all__)
    if isinstance(value, type) and not issubclass(value, (BaseException, tuple, Enum))
}


@pytest.mark.parametrize("cls", sorted(CLASSES, key=lambda c: c.__name__))
def test_an_object_that_was_not_initialised_raises(cls):
    """What ``__new__`` alone makes has no handle and no memory that C could follow."""
    raised = 0
    for name in [*(n for n in dir(cls) if not n.startswith("_")), "__repr__", "__call__"]:
        for arguments in ((), (0,), (FRAME,)):
            try:
                getattr(cls.__new__(cls), name)(*arguments)
            except (AttributeError, ImportError, *DOCUMENTED):
                raised += 1
    gc.collect()
    assert raised > 0

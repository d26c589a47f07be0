"""Models for the simulated NPU with recorded outputs, and their expected results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.sim.bundle import ATTR, HEADER, TENSOR_TAIL
from rknn_runtime.tensor import TensorAttr

PROFILES = ("rk3588", "rk3566", "rv1106")
QUANTIZED = (TensorType.INT8, TensorType.UINT8, TensorType.INT16)


def values(attr: TensorAttr, seed: int = 0):
    """Random elements of an output's own dtype, in the framework's order."""
    random = np.random.default_rng(seed)
    dtype = attr.dtype.numpy
    if dtype.kind == "f":
        return random.standard_normal(attr.shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, attr.shape).astype(dtype)
    limits = np.iinfo(dtype)
    low, high = max(limits.min, -(2**31)), min(limits.max, 2**31 - 1)
    return random.integers(low, high, attr.shape, endpoint=True).astype(dtype)


def some_image(attr: TensorAttr, seed: int = 0):
    """Random pixels for an input."""
    return np.random.default_rng(seed).integers(0, 256, attr.shape).astype(np.uint8)


def real(array, attr: TensorAttr):
    """The real values of an output's elements, in float32."""
    if attr.dtype in QUANTIZED and attr.scale:
        exact = array.astype(np.int32) - np.int32(attr.zero_point)
        return exact.astype(np.float32) * np.float32(attr.scale)
    return array.astype(np.float32)


@dataclass
class Recorded:
    """A bundle, its attributes, and its recorded outputs."""

    data: bytes
    inputs: list[TensorAttr]
    outputs: list[TensorAttr]
    arrays: list[np.ndarray]

    @property
    def expected(self) -> list[np.ndarray]:
        """The outputs that the model must return."""
        return [real(array, attr) for array, attr in zip(self.arrays, self.outputs)]


def output(name, shape, soc="rk3588", index=0, dtype=TensorType.INT8, zero_point=7, scale=0.125):
    """Describe an output, quantized only if the dtype is."""
    if dtype not in QUANTIZED:
        zero_point = scale = None
    return describe_output(
        name, shape, soc=soc, index=index, dtype=dtype, zero_point=zero_point, scale=scale
    )


#: With it a pixel is quantized to itself minus 128 in the images below.
WHOLE = Preprocessing((0.0,), (256.0,), False)


def image(shape=(1, 3, 8, 20), soc="rk3588", name="image", index=0):
    """Describe an image input, NCHW."""
    return describe_input(name, shape, soc=soc, index=index, zero_point=-128, scale=1 / 256)


def recorded(
    soc="rk3588",
    inputs=None,
    outputs=None,
    input_arrays=None,
    **options,
) -> Recorded:
    """Make a bundle: by default one small image to one small map, whatever the image.

    Args:
        soc: The SoC to imitate.
        inputs: Attributes.
        outputs: Attributes.
        input_arrays: The inputs that the outputs answer to: as `Model.run` takes
            them. None for any.
        **options: Of ``bundle_from_arrays``.
    """
    if inputs is None:
        inputs = [image(soc=soc)]
    if outputs is None:
        outputs = [output("map", (1, 5, 4, 6), soc)]
    arrays = [values(attr, seed) for seed, attr in enumerate(outputs)]
    records = [Record(arrays, input_arrays)]
    images = [len(attr.shape) == 4 and attr.shape[3] <= 4 for attr in inputs]
    preprocessing = [WHOLE if is_image else None for is_image in images]
    data = bundle_from_arrays(
        inputs, outputs, records, soc=soc, preprocessing=preprocessing, **options
    )
    return Recorded(data, list(inputs), list(outputs), arrays)


_HEADER = (
    "magic", "bytes", "soc", "runtime", "cores", "batch", "inputs", "outputs", "shapes", "records",
    "zero", "weight_bytes", "internal_bytes", "dma_bytes", "unused", "custom_string", "version",
)  # fmt: skip


def changed(data: bytes, shapes: int = 1, has_records: bool = True, **numbers: int) -> bytes:
    """A bundle of one shape with other numbers in its header, so many shapes, or no records."""
    said = dict(zip(_HEADER, HEADER.unpack_from(data)))
    each = 3 * ATTR.size + TENSOR_TAIL.size
    end = HEADER.size + (said["inputs"] + said["outputs"]) * each
    body = shapes * data[HEADER.size : end] + (data[end:] if has_records else b"")
    said.update(numbers, shapes=shapes, bytes=HEADER.size + len(body))
    said["dma_bytes"] = said["weight_bytes"] + said["internal_bytes"]
    said["records"] *= has_records
    return HEADER.pack(*said.values()) + body


def detecting(*frames: np.ndarray, soc: str = "rk3588") -> bytes:
    """A split head of 64 x 64 pixels that finds one object, in these frames or in any."""
    tensors = []
    for cells in (8, 4, 2):
        tensors.append(np.full((1, 4, cells, cells), 1.5, np.float32))
        tensors.append(np.zeros((1, 2, cells, cells), np.float32))
    tensors[1][0, 1, 3, 3] = 0.8
    outputs = [
        output(f"o{i}", x.shape, soc, i, zero_point=-128, scale=0.01) for i, x in enumerate(tensors)
    ]
    given, record = [image((1, 3, 64, 64), soc)], Record(tensors, list(frames) or None)
    return bundle_from_arrays(given, outputs, [record], soc=soc, preprocessing=[WHOLE])


def one_object(custom_string: str = "") -> bytes:
    """A detector of 64 x 64 that always sees an object of class 1 in the middle."""
    boxes = np.zeros((1, 6, 84, 1), np.float32)
    boxes[0, :, 3, 0] = 0.5, 0.5, 0.25, 0.25, 0.0, 0.9
    values = {"zero_point": -128, "scale": 1 / 255}
    return bundle_from_arrays(
        [describe_input("images", (1, 3, 64, 64), **values)],
        [describe_output("output0", boxes.shape, **values)],
        [Record([boxes])],
        custom_string=custom_string,
    )

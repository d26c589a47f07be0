"""The emulator's outputs equal the recorded outputs of the vendor's runtime.

The runtime 2.3.2 ran under emulation, on a device that executed the commands it was given.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from paths import DATA, PROJECT
from reference import npu

from rknn_runtime import Model
from rknn_runtime.sim.emulator import Emulator, Verdict

#: One image, and of every output the SHA-256: of this project's own models.
OWN = DATA / "emulator" / "vendor-run-2.3.2.npz"
#: A folder with more models, and with all of their inputs and outputs.
MORE_MODELS = Path(os.environ.get("RKNN_TEST_MODELS", "."))
MORE = MORE_MODELS / "vendor-run-2.3.2.npz"
FOLDERS = (PROJECT / "examples" / "models", DATA / "nets", MORE_MODELS)
#: Recorded with a device that ignored the strides of a deconvolution, as is proved below.
WRONG_RECORDS = {"yuv_nv12_rv1106"}
#: Recorded of one image of a batch, and of int8 where `Model` takes pixels.
GIVEN_OTHERWISE = {"batch2_build_rk3588", "batch4_build_rk3588", "ic2_rk3588"}


def of_ignored_strides(path: Path, images: list[np.ndarray]) -> list[bytes]:
    """The machine in NumPy with that error: no step between a deconvolution's inputs.

    The commands convert pixels to its inputs: 128 less.
    """
    with mock.patch.object(npu, "insert", lambda values, steps, between: values):
        machine = npu.Machine(path.read_bytes())
        for index, image in zip(machine.inputs, images):
            pixels = np.moveaxis(image.reshape(1, *image.shape[-3:]), 3, 1)
            machine.write(index, (pixels.astype(np.int16) - 128).astype(np.int8))
        machine.run()
    return [sha256(machine.read(index)) for index in machine.outputs]


def sha256(values: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).digest()


def recorded() -> Iterator[tuple[Path, str]]:
    for path in filter(Path.is_file, (OWN, MORE)):
        with np.load(path) as records:
            names = {key.rpartition("/")[0] for key in records.files} - {""}
        yield from ((path, name) for name in sorted(names))


@pytest.mark.parametrize(
    ("records", "name"), list(recorded()), ids=lambda value: getattr(value, "stem", value)
)
def test_outputs_are_the_recorded_ones(records: Path, name: str) -> None:
    """Every output of every recorded model, bit by bit."""
    path = next(f / f"{name}.rknn" for f in FOLDERS if (f / f"{name}.rknn").is_file())
    emulator = Emulator(path)
    with np.load(records) as arrays:
        keys = ["image" if records == OWN else f"{name}/in{i}" for i in range(len(emulator.inputs))]
        images = [arrays[key] for key in keys]
        outputs = [arrays[f"{name}/out{i}"] for i in range(len(emulator.outputs))]
    for index, (tensor, values) in enumerate(zip(emulator.inputs, images)):
        is_pixels = tensor.is_image and values.dtype == np.uint8
        emulator.set_input(index, values if is_pixels else values.reshape(tensor.shape))
    emulator.run()
    expected = [out.tobytes() if records == OWN else sha256(out) for out in outputs]
    assert all(node.verdict in (Verdict.EXACT, Verdict.NOTHING) for node in emulator.nodes)
    found = [sha256(emulator.read(output)) for output in emulator.outputs]
    if name in WRONG_RECORDS:
        assert found != expected
        found = of_ignored_strides(path, images)
    assert found == expected


@pytest.mark.parametrize(
    ("records", "name"),
    [pair for pair in recorded() if pair[1] not in GIVEN_OTHERWISE],
    ids=lambda value: getattr(value, "stem", value),
)
def test_outputs_through_the_runtime_are_the_recorded_ones(records: Path, name: str) -> None:
    """The same by binding the inputs, as a program does: what `Model` gives, quantized again."""
    path = next(f / f"{name}.rknn" for f in FOLDERS if (f / f"{name}.rknn").is_file())
    with np.load(records) as arrays, Model(path, library="sim") as model:
        given = []
        for index, attr in enumerate(model.inputs):
            values = arrays["image" if records == OWN else f"{name}/in{index}"]
            is_logical = values.dtype == np.int8 and attr.is_nhwc
            values = values.reshape(-1, *attr.nchw_shape[1:]) if is_logical else values
            values = values.transpose(0, 2, 3, 1) if is_logical else values.reshape(attr.shape)
            given.append(np.ascontiguousarray(values))
        results = model(*given)
        outputs = [arrays[f"{name}/out{i}"] for i in range(len(model.outputs))]
        found = []
        for attr, result in zip(model.outputs, results):
            whole = np.rint(result / np.float32(attr.scale)) + attr.zero_point
            found.append(sha256(whole.astype(np.int8)))
    expected = [out.tobytes() if records == OWN else sha256(out) for out in outputs]
    assert (found == expected) is (name not in WRONG_RECORDS)

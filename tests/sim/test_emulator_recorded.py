"""The emulator against outputs recorded from the vendor's runtimes.

``RKNN_TEST_MODELS`` names a folder of models with ``vendor-run-2.3.2.npz``: what librknnrt
and librknnmrt 2.3.2 gave with a stand-in device, ``MODEL_SOC/inK`` and ``MODEL_SOC/outK``.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime.sim.emulator import Emulator, Verdict

MORE_MODELS = os.environ.get("RKNN_TEST_MODELS")
RECORDS = Path(MORE_MODELS or ".") / "vendor-run-2.3.2.npz"
FOLDERS = (Path(MORE_MODELS or "."), PROJECT / "examples/models", PROJECT / "tests/data/nets")
#: Recorded with a device that ignored the strides of a deconvolution.
WRONG_RECORDS = {"yuv_nv12_rv1106"}

pytestmark = pytest.mark.skipif(
    not RECORDS.is_file(), reason="RKNN_TEST_MODELS names no recorded outputs"
)


def recorded() -> list[str]:
    if not RECORDS.is_file():
        return []
    with np.load(RECORDS) as records:
        return sorted({key.split("/")[0] for key in records.files})


@pytest.mark.parametrize("name", recorded())
def test_outputs_are_the_recorded_ones(name: str) -> None:
    """Every output of every recorded model, bit by bit."""
    path = next(f / f"{name}.rknn" for f in FOLDERS if (f / f"{name}.rknn").is_file())
    emulator = Emulator(path)
    with np.load(RECORDS) as records:
        for index, tensor in enumerate(emulator.inputs):
            values = records[f"{name}/in{index}"]
            is_pixels = tensor.is_image and values.dtype == np.uint8
            emulator.set_input(index, values if is_pixels else values.reshape(tensor.shape))
        emulator.run()
        expected = [records[f"{name}/out{i}"] for i in range(len(emulator.outputs))]
    assert all(node.verdict in (Verdict.EXACT, Verdict.NOTHING) for node in emulator.nodes)
    same = [
        np.array_equal(emulator.read(output).ravel(), values.ravel())
        for output, values in zip(emulator.outputs, expected)
    ]
    assert all(same) is (name not in WRONG_RECORDS)

"""Layers of transformers on the emulator, compared with their ONNX files.

The files are made with rknn-toolkit2 2.3.2: a linear layer over 16 tokens, which the toolkit
transposes by convolutions, attention with the factor 0.5, and attention with a mask and without a
factor. RK3588's are float16, the others int8, calibrated with normal numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import DATA

from rknn_runtime import InputSpec, Model, TensorType

FILES = sorted((DATA / "tokens").glob("*.rknn"))
#: Largest error, relative to the largest output: rounding of float16, and steps of int8.
LIMITS = {"rk3588": 0.002, "rk3562": 0.06, "rk3566": 0.06, "rv1106": 0.06}


def run(path: Path, inputs: list[np.ndarray]) -> np.ndarray:
    """Run a file on numbers as they are: the toolkit takes attention's inputs for images."""
    specs = [InputSpec(dtype=TensorType.FLOAT32)] * len(inputs) if len(inputs) > 1 else None
    with Model(path, library="sim", inputs=specs) as model:
        given = [
            array if attr.shape == array.shape else array.transpose(0, 2, 3, 1)
            for attr, array in zip(model.inputs, inputs)
        ]
        return np.array(model(*given)[0])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_equals_the_network_in_float(path: Path) -> None:
    """Results of the transposing convolutions, attention's own factor, and its mask."""
    onnxruntime = pytest.importorskip("onnxruntime")
    name, soc = path.stem.split("_")
    session = onnxruntime.InferenceSession(str(path.with_name(f"{name}.onnx")))
    random = np.random.default_rng(5)
    inputs = [random.normal(size=i.shape).astype(np.float32) for i in session.get_inputs()]
    names = [i.name for i in session.get_inputs()]
    (expected,) = session.run(None, dict(zip(names, inputs)))
    error = np.abs(run(path, inputs).reshape(expected.shape) - expected).max()
    assert error < LIMITS[soc] * np.abs(expected).max()


def test_socs_give_the_same_bits() -> None:
    """Each transposes by other registers."""
    frame = [np.random.default_rng(6).normal(size=(1, 16, 64)).astype(np.float32)]
    found = [
        run(DATA / "tokens" / f"linear_{soc}.rknn", frame) for soc in LIMITS if soc[2:] != "3588"
    ]
    assert len(found) == 3
    assert all((each == found[0]).all() for each in found)

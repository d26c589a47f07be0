"""Load a file in every way that the package has: its description, and three classes that run it."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime import GeneralModel, Model, TensorType, modelfile
from rknn_runtime.rknnlite import RKNNLite


def load(rknn: bytes, is_mini: bool) -> str:
    """Describe a file, and run it through each class; return what failed, or nothing.

    Args:
        rknn: The file.
        is_mini: Whether it is for librknnmrt, which has no general flow.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.rknn"
        path.write_bytes(rknn)
        ways = [_describe, _run_model, _run_lite] + ([] if is_mini else [_run_general])
        inputs = modelfile.read(path).inputs
        if is_mini and any(attr.dtype is TensorType.FLOAT16 for attr in inputs):
            ways = [_describe]  # librknnmrt takes none
        for way in ways:
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    way(path)
            except Exception as error:  # any failure is the answer
                return f"{way.__name__[1:]}: {type(error).__name__}: {error}"[:200]
    return ""


def _describe(path: Path) -> None:
    modelfile.read(path)


def _run(model: Any, run: Any) -> None:
    """Give pixels to images, unless the runtime takes them for feature maps."""
    random = np.random.default_rng(1)
    pixels = [
        random.integers(0, 2, attr.shape).astype(np.uint8)
        if attr.takes_pixels
        else random.uniform(0.0, 1.0, attr.shape).astype(np.float32)
        for attr in model.inputs
    ]
    stored = [np.zeros(attr.shape, attr.stored.dtype.numpy) for attr in model.inputs]
    is_image = [attr.takes_pixels and attr.channels != 2 for attr in model.inputs]
    mixed = [one if is_one else own for one, is_one, own in zip(pixels, is_image, stored)]
    for feeds in (pixels, mixed):
        with contextlib.suppress(TypeError):
            run(feeds)
            return
    run(stored)


def _run_model(path: Path) -> None:
    with Model(path, library="sim") as model:
        _run(model, lambda feeds: model(*feeds))


def _run_general(path: Path) -> None:
    with GeneralModel(path, library="sim") as model:
        _run(model, lambda feeds: model.run(*feeds))


def _run_lite(path: Path) -> None:
    lite = RKNNLite(library="sim", strict=True)
    lite.load_rknn(str(path))
    lite.init_runtime()
    with Model(path, library="sim") as model:
        _run(model, lambda feeds: lite.inference(inputs=feeds))
    lite.release()

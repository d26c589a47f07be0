"""What several examples are tested with: a detector, as bytes and as a file, and an image."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output


@pytest.fixture
def bundle():
    """A detector of 64x64 that always sees a star in the middle."""
    output = np.zeros((1, 6, 84, 1), np.float32)
    output[0, :, 3, 0] = 0.5, 0.5, 0.25, 0.25, 0.0, 0.9
    values = {"zero_point": -128, "scale": 1 / 255}
    return bundle_from_arrays(
        [describe_input("images", (1, 3, 64, 64), **values)],
        [describe_output("output0", output.shape, **values)],
        [Record([output])],
        custom_string=json.dumps({"labels": ["disc", "star"]}),
    )


@pytest.fixture
def model(tmp_path, bundle):
    path = tmp_path / "model.rknn"
    path.write_bytes(bundle)
    return path


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "scene.png"
    pytest.importorskip("PIL.Image").new("RGB", (64, 48), (10, 20, 30)).save(path)
    return path

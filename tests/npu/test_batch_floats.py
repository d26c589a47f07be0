"""Batches of images given as floats to librknnrt 1.5.2 and 1.6.0, which end the process there."""

from __future__ import annotations

import numpy as np
import pytest
from paths import DATA

from rknn_runtime import GeneralModel, InputSpec
from rknn_runtime.enums import TensorType
from rknn_runtime.npu import copied
from rknn_runtime.npu.query import SdkVersion

MODELS = DATA / "models"


@pytest.mark.parametrize(
    ("model", "version", "is_taken"),
    [
        ("batch2_build_rk3588", "1.5.2 (c6b7b351a)", False),
        ("batch2_build_rk3588", "1.6.0", False),
        ("batch2_build_rk3588", "2.3.2 (429f97ae6b)", True),
        ("batch2_build_rk3588", "of tomorrow", True),
        ("ic3_w37_rk3588", "1.6.0", True),
    ],
)
def test_floats_of_a_batch(monkeypatch, model, version, is_taken):
    """They are refused there for padded rows, before the runtime sees them; pixels are taken."""
    monkeypatch.setattr(copied, "sdk_version", lambda _: SdkVersion(version, ""))
    path = MODELS / f"{model}.rknn"
    with GeneralModel(path, library="sim", check=False) as general:
        shape = general.inputs[0].shape
        general.run(np.zeros(shape, np.uint8))
        for dtype in (np.float32, np.float16):
            if is_taken:
                general.run(np.zeros(shape, dtype))
            else:
                with pytest.raises(TypeError, match="expected dtype uint8, int8, got float"):
                    general.run(np.zeros(shape, dtype))
    specs = [InputSpec(dtype=TensorType.FLOAT32)]
    if is_taken:
        GeneralModel(path, library="sim", check=False, inputs=specs).close()
    else:
        with pytest.raises(ValueError, match="ends the process on a batch of images as floats"):
            GeneralModel(path, library="sim", check=False, inputs=specs)

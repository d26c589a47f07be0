"""Finds ranges for quantization from samples, by the toolkit's algorithms but without it."""

from rknn_runtime.quantization.calibration import (
    Algorithm,
    Calibration,
    Calibrator,
    Range,
    calibrate,
)
from rknn_runtime.quantization.parameters import affine_parameters

__all__ = ["Algorithm", "Calibration", "Calibrator", "Range", "affine_parameters", "calibrate"]

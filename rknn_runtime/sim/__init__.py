"""The simulated NPU: makes what ``library="sim"`` loads, computes for it, and steers it."""

from __future__ import annotations

from rknn_runtime.sim.control import Control, Live
from rknn_runtime.sim.derive import describe_input, describe_output
from rknn_runtime.sim.install import install_library
from rknn_runtime.sim.make import bundle_from_onnx, bundle_from_rknn
from rknn_runtime.sim.prepared import PreparedModel, prepare
from rknn_runtime.sim.recorded import Record, bundle_from_arrays, record

__all__ = [
    "Control",
    "Live",
    "PreparedModel",
    "Record",
    "bundle_from_arrays",
    "bundle_from_onnx",
    "bundle_from_rknn",
    "describe_input",
    "describe_output",
    "install_library",
    "prepare",
    "record",
]

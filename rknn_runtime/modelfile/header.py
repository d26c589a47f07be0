"""The first facts of a model file; apart from the rest, because every load imports this."""

from __future__ import annotations

from dataclasses import dataclass

from rknn_runtime.modelfile.soc import runtime_of

__all__ = ["ModelHeader"]


@dataclass(frozen=True)
class ModelHeader:
    """Facts that decide whether a runtime can load the model."""

    #: ``"standard"`` or ``"mini"``.
    container: str
    container_version: int
    #: Target as the toolkit was told: ``"rk3588"``.
    soc: str
    #: NPU generation, for example ``"RKNPU v2"``.
    npu: str
    #: ``"2.3.2"``.
    toolkit_version: str
    #: Version, commit and date; empty if the file lacks them.
    compiler_version: str
    #: Where the network came from: ``"ONNX"``, ``"TFLITE"``, ``"PYTORCH"``.
    framework: str

    @property
    def runtime(self) -> str:
        """The vendor's library that reads the container: ``librknnrt`` or ``librknnmrt``."""
        return runtime_of(self.container == "mini")

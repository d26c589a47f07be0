"""The model behind `RKNNLite`: in one of two flows, and what it keeps from run to run."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.enums import InitFlag
from rknn_runtime.npu.general import GeneralModel
from rknn_runtime.npu.locks import ExclusiveLock
from rknn_runtime.npu.model import Model
from rknn_runtime.npu.spec import InputSpec

__all__ = ["Engine", "init_flags"]


class Engine:
    """A loaded model.

    Attributes:
        model: A `GeneralModel`; librknnmrt has that flow not, so there a `Model`.
        n_runs: How often `infer` has run it.
        turn: Held from the choice of shapes to the outputs, as threads may share a model.
    """

    model: GeneralModel | Model

    def __init__(self, path: str, is_mini: bool, **options: Any) -> None:
        """Load it; the exceptions are those of `Model`.

        Args:
            path: Of the file.
            is_mini: Whether it is for librknnmrt.
            **options: Of `Model`.
        """
        self._kind = Model if is_mini else GeneralModel
        self._path, self._options = path, options
        self.model = self._kind(path, **options)
        self.n_runs = 0
        self.turn = ExclusiveLock()
        self._is_dynamic = bool(self.model.dynamic_shapes)
        #: Which inputs are passed through.
        self._passed: list[bool] = []
        self._forget()

    def _forget(self) -> None:
        """Drop the arrays of the last run, which the next does not fit."""
        self._kept: list[Array] | None = None
        self._last: list[Array] | None = None

    def pass_through(self, flags: list[bool]) -> None:
        """Have inputs passed through or not: they are described when a model is loaded."""
        if flags == self._passed or not any((*flags, *self._passed)):
            return
        specs = [InputSpec(pass_through=True) if flag else None for flag in flags]
        model = self._kind(self._path, **self._options, inputs=specs)
        self.model.close()
        self.model, self._passed = model, flags
        self._forget()

    def choose_shapes(self, shapes: list[tuple[int, ...]]) -> None:
        """Have a model that was built for several shapes take those of the inputs."""
        if self._is_dynamic and shapes != [attr.shape for attr in self.model.inputs]:
            self.model.set_input_shapes(shapes)
            self._forget()

    def infer(self, arrays: list[Array], *, reuse: bool) -> list[Array]:
        """Run; return new arrays, or those of the last run that was to be reused."""
        outputs = self._run(arrays, self._kept if reuse else None)
        if reuse:
            self._kept = outputs
        self._last = arrays
        self.n_runs += 1
        return outputs

    def timed(self) -> str:
        """Time ten runs of the last inputs, or of zeros; return the median in words."""
        arrays = self._last
        if arrays is None:
            arrays = [
                np.zeros(attr.shape, np.uint8 if attr.takes_pixels else np.float32)
                for attr in self.model.inputs
            ]
        times = []
        for _ in range(10):
            begin = time.perf_counter()
            self._run(arrays, None)
            times.append(time.perf_counter() - begin)
        median_us = float(np.median(times)) * 1e6
        return f"Total Time(us): {median_us:.0f}\nFPS: {1e6 / median_us:.2f}"

    def versions(self) -> str:
        """Ask for the versions of runtime and driver; return them framed."""
        version, line = self.model.sdk_version, "=" * 46
        return f"{line}\nRKNN VERSION:\n  API: {version.api}\n  DRV: {version.driver}\n{line}\n"

    def memory(self) -> dict[str, int]:
        """Ask what the model takes of NPU memory, in bytes by the names of the vendor's toolkit."""
        size = self.model.memory_size
        known = size.weight_bytes + size.internal_bytes
        other = max(0, size.dma_allocated_bytes - known)
        return {
            "weight_memory": size.weight_bytes,
            "internal_memory": size.internal_bytes,
            "other_memory": other,
            "total_memory": known + other,
        }

    def _run(self, arrays: list[Array], out: list[Array] | None) -> list[Array]:
        if isinstance(self.model, Model):
            return self.model(*arrays, out=out)
        return self.model.run(*arrays, out=out)


def init_flags(fallback: object, is_timed: bool) -> InitFlag:
    """Return the flags that the vendor's package gives.

    Args:
        fallback: ``"cpu"`` or ``"gpu"``: where operators run that the NPU does not have.
        is_timed: Whether the runtime is to time every layer.

    Raises:
        ValueError: Another place.
    """
    if fallback not in ("cpu", "gpu"):
        raise ValueError(f'fallback_prior_device: expected "cpu" or "gpu", got {fallback!r}')
    flags = InitFlag.PRIOR_MEDIUM
    if is_timed:
        flags |= InitFlag.COLLECT_PERF
    if fallback == "gpu":
        flags |= InitFlag.EXECUTE_FALLBACK_PRIOR_DEVICE_GPU
    return flags

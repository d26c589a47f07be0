"""Bundles of what any model gave on the simulated NPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from rknn_runtime._arrays import Array
from rknn_runtime.npu.model import Model
from rknn_runtime.sim.prepared import prepare
from rknn_runtime.sim.recorded import Record, bundle_from_arrays

__all__ = ["replayed"]


def replayed(
    model: str | os.PathLike[str] | bytes,
    samples: Sequence[Sequence[Array]],
    *,
    any_input: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> bytes:
    """Run a model on the simulated NPU, and record what it gives.

    Args:
        model: What ``Model(..., library="sim")`` takes, of one input shape.
        samples: Of each its inputs, as `Model.run` takes them.
        any_input: Record the first sample alone, as the answer to whatever comes.
        progress: Called after each sample with how many are done, and of how many.

    Returns:
        A bundle, which needs neither the model nor its graph.

    Raises:
        RknnError: The model does not run.
        TypeError: A sample that the model does not take.
        ValueError: Likewise, or none.
    """
    if not samples:
        raise ValueError("samples: expected at least one, got none")
    if any_input:
        samples = samples[:1]
    with Model(model, library="sim") as loaded:
        preprocessing = prepare(model, loaded.library).preprocessing
        records = []
        for done, sample in enumerate(samples, 1):
            records.append(Record(loaded(*sample), None if any_input else list(sample)))
            if progress is not None:
                progress(done, len(samples))
        return bundle_from_arrays(
            loaded.inputs,
            loaded.outputs,
            records,
            soc=loaded._soc,
            preprocessing=preprocessing,
            custom_string=loaded.custom_string,
        )

"""Spread contexts over the cores of the NPU and threads over the CPUs."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from rknn_runtime._arrays import as_int
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import CoreMask
from rknn_runtime.errors import RknnError, RknnStatusError
from rknn_runtime.npu.locks import fork_generation
from rknn_runtime.npu.model import Model

_SINGLE_CORES = (CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2)
#: Statuses of a runtime that refuses a core.
_NO_SUCH_CORE = (lib.RKNN_ERR_FAIL, lib.RKNN_ERR_PARAM_INVALID)
_CPUS = "/sys/devices/system/cpu"
#: The ``rkr_cores *`` by the number of forks.
_CORES: dict[int, Any] = {}


def npu_cores(model: Model) -> int:
    """Return how many cores a model can be bound to, one at a time.

    If the model's SoC is not known, each core is tried; afterwards the model chooses its cores, as
    a new one does.
    """
    if not model.library.has("rknn_set_core_mask"):
        return 1
    known = model._known_cores()
    if known:
        return known
    cores = 0
    try:
        for mask in _SINGLE_CORES:
            model.set_core_mask(mask)
            cores += 1
    except (RknnError, ValueError) as error:  # the first core that the NPU does not have
        if isinstance(error, RknnStatusError) and error.code not in _NO_SUCH_CORE:
            raise
    if cores:
        model.set_core_mask(CoreMask.AUTO)
    return max(cores, 1)


def core_masks(cores: int, contexts: int) -> list[CoreMask | None]:
    """Return a mask of one core per context; None on an NPU of one core."""
    if cores == 1:
        return [None] * contexts
    return [_SINGLE_CORES[i % cores] for i in range(contexts)]


def share_cores(models: Sequence[Model], masks: Sequence[CoreMask | None]) -> None:
    """Let each run of these contexts choose the place that is free first, among all their masks.

    Contexts whose cores the runtime chooses keep that. The runs of all pools are counted together.
    """
    places = sorted({int(mask) for mask in masks if mask is not None})
    for model, mask in zip(models, masks):
        if mask is not None:
            with model._context.lock:
                model._frame.share_cores(_cores(), places, places.index(mask))


def _cores() -> Any:
    """Return the ``rkr_cores *`` of this process; a forked child has no run of its parent."""
    made = ffi.gc(lib.rkr_cores_new(), lib.rkr_cores_free)
    return _CORES.setdefault(fork_generation(), made)  # of two threads one is first


def checked_masks(masks: Sequence[CoreMask | None], most: int) -> list[CoreMask | None]:
    """Return the masks of a caller as a list.

    Numbers are refused: 2 could be core 2, or the mask of core 1.
    """
    wanted = "core_masks: expected CoreMask members such as [CoreMask.CORE_0, CoreMask.CORE_1], got"
    if not isinstance(masks, Sequence) or isinstance(masks, str):
        raise TypeError(f"{wanted} {masks!r}")
    for mask in masks:
        if mask is not None and not isinstance(mask, CoreMask):
            raise TypeError(f"{wanted} {mask!r} in {masks!r}")
    if not 1 <= len(masks) <= most:
        raise ValueError(f"core_masks: expected 1 to {most}, got {len(masks)}")
    return list(masks)


def cpus_of(cpus: str | Collection[int] | None, root: str = _CPUS) -> frozenset[int] | None:
    """Return the CPUs to run threads on; None: any, also if all CPUs are equally fast.

    ``"big"`` means the fastest ones by Linux's ``cpu_capacity``, described below `root`.
    """
    if cpus is None:
        return None
    usable = os.sched_getaffinity(0)
    if isinstance(cpus, str):
        if cpus != "big":
            raise ValueError(f'cpus: expected "big" or numbers of CPUs, got {cpus!r}')
        capacities = {cpu: _capacity(root, cpu) for cpu in usable}
        biggest = max(capacities.values())
        big = frozenset(cpu for cpu, capacity in capacities.items() if capacity == biggest)
        return None if big == usable else big
    if not isinstance(cpus, Collection):  # an iterator may never end
        raise TypeError(f'cpus: expected "big" or numbers of CPUs, got {cpus!r}')
    chosen = frozenset(as_int(cpu, "cpus", 0, 2**16) for cpu in cpus)
    if not chosen or chosen - usable:
        raise ValueError(f"cpus: expected some of {sorted(usable)}, got {sorted(chosen)}")
    return chosen


def _capacity(root: str, cpu: int) -> int:
    try:
        return int(Path(f"{root}/cpu{cpu}/cpu_capacity").read_text("ascii"))
    except (OSError, ValueError):  # PCs have no such file
        return 0


def pin_this_thread(cpus: frozenset[int]) -> None:
    """Let the calling thread run on these CPUs only."""
    os.sched_setaffinity(0, cpus)  # on Linux this is for the thread, not the process

"""Which core a frame of a pool runs on: an idle one, else the one that is free first."""

from __future__ import annotations

import heapq
import random
from types import SimpleNamespace

import numpy as np
import pytest
from bundles import one_object

from rknn_runtime import CoreMask, Model
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import RknnStatusError
from rknn_runtime.sim.control import Control
from rknn_runtime.streams import Pool
from rknn_runtime.streams.placement import npu_cores


class Npu:
    """The scheduler, with cores that run in turn, and a clock that only the test advances."""

    def __init__(self, masks: list[int]) -> None:
        self.masks = ffi.new("uint32_t[]", masks)
        self.native = ffi.gc(lib.rkr_cores_new(), lib.rkr_cores_free)
        self.free_at = [0] * 3
        self.ends: list[tuple[int, int, int]] = []

    def cores(self, mask: int) -> list[int]:
        return [core for core in range(3) if mask >> core & 1]

    def advance(self, now: int) -> None:
        """Let the runs end that do."""
        while self.ends and self.ends[0][0] <= now:
            end, mask, run = heapq.heappop(self.ends)
            assert lib.rkr_cores_give(self.native, mask, run, end) == run

    def submit(self, now: int, place: int, run: int) -> int:
        """Begin a run, and return how long it waits."""
        self.advance(now)
        place = lib.rkr_cores_take(self.native, self.masks, len(self.masks), place, run, now)
        mask = self.masks[place]
        begin = max(now, *(self.free_at[core] for core in self.cores(mask)))
        for core in self.cores(mask):
            self.free_at[core] = begin + run
        heapq.heappush(self.ends, (begin + run, mask, run))
        return begin - now


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("runs", [[20], [20, 5], [3, 40, 11]])
def test_no_frame_waits_while_a_core_is_idle(cores, runs):
    """However frames of several models come: each waits for the core that is free first."""
    dice = random.Random(cores)
    for load in (0.5, 0.8, 0.95, 2.0):
        npu, now = Npu([1, 2, 4][:cores]), 10**6
        for _ in range(2000):
            now += round(dice.expovariate(cores * load / (1000 * np.mean(runs))))
            expected = max(0, min(npu.free_at[:cores]) - now)
            waited = npu.submit(now, dice.randrange(cores), 1000 * dice.choice(runs))
            assert waited == expected


def test_a_context_stays_on_its_core_when_others_are_no_better():
    """So that the runtime is seldom told of another one."""
    npu = Npu([1, 2, 4])
    for place in (2, 0, 1):
        assert npu.submit(10**6, place, 1000) == 0
    assert [npu.free_at[core] for core in range(3)] == [10**6 + 1000] * 3


def test_masks_of_several_cores():
    """A run on two cores waits for both; one on the third core starts at once."""
    npu = Npu([3, 4])
    assert npu.submit(10**6, 0, 1000) == 0
    assert npu.submit(10**6, 0, 1000) == 0  # moved to the third core
    assert npu.free_at == [10**6 + 1000] * 3
    assert npu.submit(10**6 + 500, 1, 1000) == 500


def test_a_run_that_is_late_keeps_its_core():
    """Its core is busy until it ends, whatever its model took before."""
    native = ffi.gc(lib.rkr_cores_new(), lib.rkr_cores_free)
    masks = ffi.new("uint32_t[]", [1, 2])
    take = [lib.rkr_cores_take(native, masks, 2, 0, 10, now) for now in (100, 109, 500)]
    assert take == [0, 1, 0]
    assert lib.rkr_cores_give(native, 2, 10, 510) == 401
    assert lib.rkr_cores_take(native, masks, 2, 0, 10, 511) == 1


def test_one_long_run_says_nothing_of_the_next():
    """The shorter of the last two is expected: the system may wake the thread of a run late."""
    control, took = Control(), [0, 0]
    image = np.zeros((64, 64, 3), np.uint8)
    masks = [CoreMask.CORE_0]
    with Pool(one_object(), Model, library="sim", core_masks=masks) as pool:
        native = pool._models[0]._frame._native
        try:
            for latency_us in (0, 50_000, 50_000):
                control.set_latency(latency_us)
                pool.submit(image).result(60)
                took = [took[1] or native.last_ns, native.last_ns]
                assert native.run_ns == min(took) > 0
        finally:
            control.reset()
    assert min(took) >= 49_000_000


def test_contexts_that_began_on_one_core_run_on_both():
    """Frames that meet a busy core are moved, and the runtime is told so."""
    control = Control()
    masks = [CoreMask.CORE_0, CoreMask.CORE_0, CoreMask.CORE_1]
    image = np.zeros((64, 64, 3), np.uint8)
    with Pool(one_object(), Model, library="sim", core_masks=masks) as pool:
        assert pool.core_masks == tuple(masks)
        control.reset()
        control.set_latency(300_000)
        try:
            for job in [pool.submit(image) for _ in range(2)]:
                job.result(60)
            told = control.calls("rknn_set_core_mask")
        finally:
            control.reset()
        used = sorted(c.core_mask for c in pool.stats().contexts if c.frames)
    assert told == (used == [CoreMask.CORE_0, CoreMask.CORE_0])


def test_a_runtime_that_refuses_to_move_a_context(caplog):
    """The frame runs where the context is."""
    control = Control()
    masks = [CoreMask.CORE_0, CoreMask.CORE_0, CoreMask.CORE_1]
    image = np.zeros((64, 64, 3), np.uint8)
    with Pool(one_object(), library="sim", core_masks=masks) as pool:
        control.reset()
        control.set_latency(50_000)
        control.fail("rknn_set_core_mask", nth=0)
        try:
            jobs = [pool.submit(image) for _ in range(8)]
            assert [len(job.result(60)) for job in jobs] == [1] * 8
        finally:
            control.reset()


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("status", [lib.RKNN_ERR_FAIL, lib.RKNN_ERR_PARAM_INVALID])
def test_the_cores_of_an_unknown_soc_are_tried(cores, status):
    """Up to the first that the runtime refuses; then the model chooses its cores again."""
    asked = []

    def set_core_mask(mask):
        asked.append(mask)
        if mask.bit_length() > cores and mask:
            raise RknnStatusError(status, "rknn_set_core_mask")

    library = SimpleNamespace(has=lambda name: True)
    model = SimpleNamespace(library=library, _known_cores=lambda: 0, set_core_mask=set_core_mask)
    assert npu_cores(model) == cores
    masks = [CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2]
    assert asked == [*masks[: cores + 1], CoreMask.AUTO]


def test_a_fault_is_not_taken_for_a_missing_core():
    """Only the two statuses of an unknown core mean that; an older runtime has no such call."""

    def set_core_mask(mask):
        raise RknnStatusError(lib.RKNN_ERR_TIMEOUT, "rknn_set_core_mask")

    library = SimpleNamespace(has=lambda name: True)
    model = SimpleNamespace(library=library, _known_cores=lambda: 0, set_core_mask=set_core_mask)
    with pytest.raises(RknnStatusError, match="failed with -2"):
        npu_cores(model)
    library.has = lambda name: False
    assert npu_cores(model) == 1

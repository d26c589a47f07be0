"""How long the steps of a run took."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StepTimes"]


@dataclass(frozen=True)
class StepTimes:
    """The steps of one run of a `Model`, in seconds.

    Measured in C: what Python does between calls, and its waiting for the GIL, are not in them.
    """

    #: When the first of them began, of ``time.perf_counter``.
    begin_s: float
    #: A `Detector` or `Classifier` scaled an array of uint8 into the input's memory; else 0.
    image_s: float
    #: The caches of all inputs were synced.
    sync_to_device_s: float
    #: ``rknn_run``.
    run_s: float
    #: The caches of all outputs were synced.
    sync_from_device_s: float

    @property
    def end_s(self) -> float:
        """When the last of them ended, of ``time.perf_counter``."""
        steps = self.image_s + self.sync_to_device_s + self.run_s + self.sync_from_device_s
        return self.begin_s + steps

    @classmethod
    def of(cls, times_ns: tuple[int, ...]) -> StepTimes:
        """Make one of when the first step began and when each ended, nanoseconds."""
        steps = (1e-9 * (end - begin) for begin, end in zip(times_ns, times_ns[1:]))
        return cls(1e-9 * times_ns[0], *steps)

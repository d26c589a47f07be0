"""Steer and question the simulated runtime: failures on demand, latency, counters.

All of it is state of the library, shared by every model on it in this process.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rknn_runtime._arrays import as_float, as_int
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile.soc import soc_named
from rknn_runtime.npu.library import Library, c_name, open_library

TEXT_BYTES = 512


class Live(NamedTuple):
    """Objects that were created and not yet destroyed."""

    contexts: int
    memories: int
    #: Buffers of ``rknn_outputs_get``.
    outputs: int


class Control:
    """The controls of one simulated runtime.

    Args:
        library: The library; None opens the one of this package.

    Raises:
        UnavailableError: ``library`` is not simulated.
    """

    def __init__(self, library: Library | None = None) -> None:
        self.library = open_library("sim") if library is None else library
        if not isinstance(self.library, Library):
            raise TypeError(f"library: expected a Library, got {type(library).__name__}")
        if not self.library.is_simulated:
            raise UnavailableError(f"{self.library!r} is not simulated: nothing steers it")

    def _function(self, name: str) -> Any:
        return ffi.cast(f"{name}_fn *", self.library.symbol(name))

    @property
    def version(self) -> str:
        """Version of the simulated runtime."""
        return str(ffi.string(self._function("rknn_sim_version")()).decode())

    def fail(self, function: str, nth: int = 1, code: int = -1) -> None:
        """Make a call fail.

        Args:
            function: A function of the vendor's API: ``"rknn_run"``.
            nth: Which call from now on; 1 is the next, 0 means every one.
            code: What it returns, an int of 32 bits; functions that return a pointer return
                NULL.
        """
        nth = as_int(nth, "nth", 0, 2**32 - 1)
        code = as_int(code, "code", -(2**31), 2**31 - 1)
        status = self._function("rknn_sim_fail")(c_name(function), nth, code)
        if status == lib.RKNN_ERR_PARAM_INVALID:
            raise ValueError(f"function: expected one of the RKNN API, got {function!r}")
        if status != lib.RKNN_SUCC:
            raise ValueError("expected at most 64 failures that wait, got one more: reset()")

    def set_latency(self, microseconds: int) -> None:
        """Let every ``rknn_run`` take at least this long."""
        self._function("rknn_sim_latency")(as_int(microseconds, "microseconds", 0, 2**32 - 1))

    def set_core_speed(self, cores: int, factor: float) -> None:
        """Let runs on several cores be faster than on one; by default they are as fast.

        Every run has its cores for itself, and others wait for them, so contexts on one core take
        turns, and a run on three waits until all three are free.

        Args:
            cores: 2 or 3, as a `CoreMask` names them.
            factor: 1.8 makes a run take 1/1.8 of the latency.
        """
        cores = as_int(cores, "cores", 2, lib.RKNN_SIM_MAX_CORES)
        factor = as_float(factor, "factor")
        if not 0.001 <= factor <= 1000:
            raise ValueError(f"factor: expected 0.001 to 1000, got {factor}")
        self._function("rknn_sim_core_speed")(cores, round(1000 * factor))

    def set_bus(self, bytes_per_second: int, bytes_per_run: int) -> None:
        """Let the cores share a memory bus, like the cores of a board.

        A run ends when its latency is over and its bytes are moved; runs at the same time have
        equal parts of the bus. A run moves at least its weights, inputs, outputs and the tensors
        between the layers, each once: see ``model.memory_size``.

        Args:
            bytes_per_second: Of the bus; 0: it is no limit, as at first.
            bytes_per_run: That every run moves.
        """
        per_second = as_int(bytes_per_second, "bytes_per_second", 0, 2**53 - 1)
        per_run = as_int(bytes_per_run, "bytes_per_run", 0, 2**53 - 1)
        self._function("rknn_sim_bus")(per_second, per_run)

    def set_caches(self, *, strict: bool) -> None:
        """Choose the caches of memories that are made from now on, where librknnmrt is imitated.

        Args:
            strict: Only ``rknn_mem_sync`` moves bytes between CPU and NPU, and who uses old
                bytes commits a violation; so it is for models that this package loads. False:
                both see the same bytes, as for other programs that ask for nothing.
        """
        if not isinstance(strict, bool):
            raise TypeError(f"strict: expected a bool, got {type(strict).__name__}")
        mode = lib.RKNN_SIM_STRICT if strict else lib.RKNN_SIM_COHERENT
        self._function("rknn_sim_caches")(mode)

    @property
    def soc(self) -> str:
        """The SoC whose NPU multiplies matrices: ``"rk3588"`` unless somebody chose another."""
        return self.library.simulated_soc()

    def set_soc(self, name: str) -> None:
        """Choose the SoC whose NPU multiplies matrices from now on; models bring their own."""
        self._function("rknn_sim_soc")(c_name(soc_named(name, "name").name), ffi.NULL, 0)

    @property
    def live(self) -> Live:
        """The objects that are alive now."""
        counts = ffi.new("uint32_t[3]")
        self._function("rknn_sim_live")(counts, counts + 1, counts + 2)
        return Live(*counts)

    def calls(self, function: str) -> int:
        """Count the calls of a function of the vendor's API since the last `reset`."""
        count = self._function("rknn_sim_calls")(c_name(function))
        if count < 0:
            raise ValueError(f"function: expected one of the RKNN API, got {function!r}")
        return int(count)

    @property
    def violations(self) -> int:
        """How often the API was used in a way that a board would not forgive."""
        return int(self._function("rknn_sim_violations")(ffi.NULL, 0))

    @property
    def last_violation(self) -> str:
        """The last violation; empty if there was none."""
        return self._text("rknn_sim_violations")

    @property
    def last_message(self) -> str:
        """The last line of the library's log: why a call failed."""
        return self._text("rknn_sim_message")

    def _text(self, name: str) -> str:
        text = ffi.new("char[]", TEXT_BYTES)
        self._function(name)(text, TEXT_BYTES)
        return str(ffi.string(text).decode("utf-8", "replace"))

    def reset(self) -> None:
        """Forget failures that wait, latency, call counts, violations and messages.

        Live objects stay alive and counted, and the caches stay as they were set.
        """
        self._function("rknn_sim_reset")()

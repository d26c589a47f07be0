"""What every model has of the NPU's cores, and of what the runtime measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

from rknn_runtime._arrays import as_int, as_member
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu.context import Context

if TYPE_CHECKING:
    from rknn_runtime.npu.performance import Performance

__all__ = ["Tuned", "refuse_flags"]

#: Bytes that are offered to a query whose struct nobody documents.
_DEVICE_MEMORY_BYTES = 4096
_LIBRKNNRT = (("rk3562", "rk3566", "rk3568", "rk3576", "rk3588", "rv1126b"), "librknnrt")
#: Flags that only some SoCs understand, those SoCs, and why; see docs/c-api-performance.md.
_FLAGS_OF_SOCS = {
    InitFlag.FENCE_IN_OUTSIDE: _LIBRKNNRT,
    InitFlag.FENCE_OUT_OUTSIDE: _LIBRKNNRT,
    InitFlag.ENABLE_SRAM: (("rk3588",), "SRAM for the NPU"),
    InitFlag.SHARE_SRAM: (("rk3588",), "SRAM for the NPU"),
    InitFlag.EXECUTE_FALLBACK_PRIOR_DEVICE_GPU: (
        ("rk3562", "rk3566", "rk3568", "rk3576", "rk3588"),
        "a GPU that its runtime uses",
    ),
}


def refuse_flags(flags: InitFlag, soc: str) -> None:
    """Check flags of ``rknn_init`` against what a SoC has.

    Args:
        flags: The flags.
        soc: Its name; empty: unknown, nothing is refused.

    Raises:
        UnavailableError: The SoC does not have what a flag is for.
    """
    for flag, (socs, what) in _FLAGS_OF_SOCS.items():
        if soc and flags & flag and soc not in socs:
            names = ", ".join(name.upper() for name in socs)
            raise UnavailableError(
                f"flags: {flag.name} needs {what}, which {names} have, not {soc}"
            )


class Tuned:
    """Cores and measurements of a model. Not for direct use."""

    _context: Context
    #: The SoC that the model's file names, or that is simulated; empty where nothing tells.
    _soc: str = ""

    def set_core_mask(self, core_mask: CoreMask) -> None:
        """Choose the NPU cores to run on (RK3588 has 3, RK3576 2).

        Raises:
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            RknnStatusError: The runtime refused.
            RuntimeError: Called in the middle of another call, as by a signal handler.
            TypeError: Not an integer.
            UnavailableError: The SoC has one core, or the runtime no such function.
            ValueError: Not a core mask, or one with a core that the SoC does not have.
        """
        mask = as_member(core_mask, "core_mask", CoreMask)
        context = self._context
        cores = self._cores("core_mask", "rknn_set_core_mask")
        if cores and mask != CoreMask.ALL and mask >= 1 << cores:
            raise ValueError(
                f"core_mask: expected some of {cores} cores of {self._soc}, got {mask!r}"
            )
        with context.lock:
            status = lib.rkr_set_core_mask(context.handle, context.opened(), int(mask))
            context.check_status(status, f"rknn_set_core_mask({mask!r})")

    def set_batch_core_num(self, cores: SupportsIndex) -> None:
        """Choose how many cores share the images of a batch (``rknn_batch_size`` of the toolkit).

        Args:
            cores: 1 to the cores of the SoC.

        Raises:
            ValueError: More than the SoC has, or less than 1; all other exceptions as of
                `set_core_mask`.
        """
        most = self._cores("cores", "rknn_set_batch_core_num")
        number = as_int(cores, "cores", 1, most or 64)
        context = self._context
        with context.lock:
            status = lib.rkr_set_batch_core_num(context.handle, context.opened(), number)
            context.check_status(status, f"rknn_set_batch_core_num({number})")

    def _cores(self, name: str, function: str) -> int:
        """Return the cores of the SoC, 0 where it is unknown.

        Raises:
            UnavailableError: It has one, or the runtime no such function.
        """
        self._context.library.require(function)
        cores = self._known_cores()
        if cores == 1:
            raise UnavailableError(
                f"{name}: the NPU of {self._soc} has one core, nothing to choose"
            )
        return cores

    def _known_cores(self) -> int:
        """Return the cores of the SoC, 0 where it is unknown."""
        from rknn_runtime.modelfile.soc import SOCS  # here, as most models never ask

        soc = SOCS.get(self._soc)
        return 0 if soc is None else soc.cores

    def perf_detail(self) -> Performance:
        """Tell what each layer of the last run took: time, cores, bandwidth, NPU or CPU.

        Load the model with ``InitFlag.COLLECT_PERF``; every layer is then run and measured by
        itself, which takes longer than an ordinary run.

        Raises:
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            RknnError: The runtime gave no table, or one that cannot be read.
            RknnStatusError: The runtime refused; librknnmrt always does.
            RuntimeError: Called in the middle of another call, as by a signal handler.
        """
        from rknn_runtime.npu import performance

        return performance.performance(self._context)

    @property
    def last_run_us(self) -> int:
        """What the last run took on the NPU, microseconds, without inputs and outputs.

        Raises:
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            RknnStatusError: The runtime refused; librknnmrt always does.
            RuntimeError: Called in the middle of another call, as by a signal handler.
        """
        from rknn_runtime.npu import performance

        return performance.last_run_us(self._context)

    def device_memory(self) -> bytes:
        """Ask librknnmrt what it knows of the device's memory (``RKNN_QUERY_DEVICE_MEM_INFO``).

        Nobody documents the struct: these are its bytes, and zeros behind them.

        Raises:
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            RknnStatusError: The runtime refused; librknnrt always does.
            RuntimeError: Called in the middle of another call, as by a signal handler.
        """
        info = ffi.new("uint8_t[]", _DEVICE_MEMORY_BYTES)
        status = self._context.query(lib.RKNN_QUERY_DEVICE_MEM_INFO, info, len(info))
        self._context.check_status(status, "rknn_query(DEVICE_MEM_INFO)")
        return bytes(ffi.buffer(info))

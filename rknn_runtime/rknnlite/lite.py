"""`RKNNLite`: the class of the vendor's ``rknnlite`` package, on top of this package."""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, NamedTuple, NoReturn, TypeVar

from rknn_runtime._arrays import Array
from rknn_runtime._files import opened_file
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu.library import Library
from rknn_runtime.rknnlite import arguments
from rknn_runtime.rknnlite.runtime import RKNNRuntime

_T = TypeVar("_T")
_F = TypeVar("_F")

_ASYNC = "every inference returns the outputs of its own inputs; for frames in flight use Pool"
_LOG_FORMAT = logging.Formatter("%(levelname).1s %(name)s %(message)s")


class Cores:
    """Numbers of cores, for ``core_mask``."""

    NPU_CORE_AUTO: ClassVar[int] = int(CoreMask.AUTO)
    NPU_CORE_0: ClassVar[int] = int(CoreMask.CORE_0)
    NPU_CORE_1: ClassVar[int] = int(CoreMask.CORE_1)
    NPU_CORE_2: ClassVar[int] = int(CoreMask.CORE_2)
    NPU_CORE_0_1: ClassVar[int] = int(CoreMask.CORE_0_1)
    NPU_CORE_0_1_2: ClassVar[int] = int(CoreMask.CORE_0_1_2)
    NPU_CORE_ALL: ClassVar[int] = int(CoreMask.ALL)


class RKNNLite(Cores):
    """A model on this machine's NPU, with the interface of the vendor's ``rknnlite.api.RKNNLite``.

    Calls, arguments and results equal its version 2.5.0. A call that fails logs the error
    to ``rknn_runtime.rknnlite`` and returns -1 or None, as the vendor's does. With ``strict=True``
    it raises the error, and also refuses input that the vendor's package accepts by mistake. It
    also runs on 32-bit ARM, RV1103 and RV1106, for which the vendor has no such package. For new
    programs use `Model` or `GeneralModel`, which are faster and give better errors.

    Threads may share an object for `inference` alone, one call at a time; a `Pool` runs them in
    parallel.

    Attributes:
        strict: Whether failures are raised.
        rknn_log: Has ``logger``, of this object alone, whose level scripts set.
        rknn_runtime: The inner object with the single calls, which may be assigned; None before
            `init_runtime`.
        rknn_data: None, as the file is read by `init_runtime`.
        root_dir: A folder that scripts pass to `RKNNRuntime`.
    """

    def __init__(
        self,
        verbose: bool = False,
        verbose_file: str | os.PathLike[str] | None = None,
        *,
        strict: bool = False,
        library: str | os.PathLike[str] | Library | None = None,
    ) -> None:
        """Prepare to load a model.

        Args:
            verbose: Log debug messages, too; to standard error unless the program configures
                logging. The root logger is not changed.
            verbose_file: A file to which the log is written as well.
            strict: Raise errors instead of logging them.
            library: The runtime library; see `rknn_runtime.open_library`.
        """
        self.strict = bool(strict)
        self._library = library
        self._log = _new_logger(bool(verbose), verbose_file)
        self.rknn_log = _Journal(self._log)
        self._path = ""
        self.rknn_runtime: RKNNRuntime | None = None
        self.rknn_data: bytes | None = None
        self.root_dir = str(Path(__file__).parent)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an RKNNLite can be neither copied nor pickled: make it where it is needed")

    def load_rknn(
        self, path: str | os.PathLike[str], key_path: str | os.PathLike[str] | None = None
    ) -> int:
        """Choose the model; `init_runtime` reads it.

        Args:
            path: The ``.rknn`` file.
            key_path: The key of an encrypted model, which is not supported.

        Returns:
            0, or -1 on failure.

        Raises:
            OSError: With ``strict``: the file cannot be read.
            UnavailableError: With ``strict``: a key was given.
            ValueError: With ``strict``: the path is not a regular file, or the file is empty.
        """
        return self._tried("load_rknn", -1, lambda: self._load(path, key_path))

    def init_runtime(
        self,
        target: str | None = None,
        device_id: str | None = None,
        async_mode: bool = False,
        core_mask: int = Cores.NPU_CORE_AUTO,
        *,
        fallback_prior_device: str = "cpu",
        perf_debug: bool = False,
        eval_mem: bool = False,
    ) -> int:
        """Load the model into the runtime; a second call loads it again.

        Args:
            target: None, or the SoC that the model was converted for.
            device_id: None; other devices cannot be reached.
            async_mode: Logs a warning without other effect, and is refused with ``strict``: every
                `inference` returns the outputs of its own inputs. The toolkit's reference (2.3.0)
                describes outputs of the frame before, "at present not supported".
            core_mask: One of the ``NPU_CORE_`` numbers. As in the vendor's package, NPU_CORE_ALL
                means all cores of the model's SoC, and RK3576 takes core 0 for NPU_CORE_2.
            fallback_prior_device: ``"cpu"`` or ``"gpu"``: runs the operators that the NPU lacks.
            perf_debug: Time every layer in the runtime, which slows runs down.
            eval_mem: Ignored: `eval_memory` always works.

        Returns:
            0, or -1 on failure.

        Raises:
            RknnError: With ``strict``: there is no library, or it refuses the model.
            OSError: With ``strict``: the file cannot be read.
            UnavailableError: With ``strict``: ``async_mode`` is on.
            ValueError: With ``strict``: no model is loaded, the target is another SoC, or the SoC
                does not have these cores.
        """

        def work() -> int:
            if async_mode and self.strict:
                raise UnavailableError(f"async_mode: expected False, got {async_mode!r}: {_ASYNC}")
            if async_mode:
                self._log.warning("init_runtime: async_mode: %s", _ASYNC)
            self._init(target, device_id, core_mask, fallback_prior_device, bool(perf_debug))
            return 0

        return self._tried("init_runtime", -1, work)

    def inference(
        self,
        inputs: list[Array],
        data_type: str | list[str] | None = None,
        data_format: str | list[str] | None = None,
        inputs_pass_through: list[int] | None = None,
        get_frame_id: bool = False,
        reuse_outputs: bool = False,
    ) -> list[Array] | None:
        """Run the model.

        Args:
            inputs: An array per input, with the model's dimensions, or without a batch dimension
                of 1: images as ``(N, H, W, C)`` or ``(H, W, C)``, or channels first with
                ``data_format``. A model that was built for several shapes runs in the shape of
                the arrays. Values are those before the normalisation of the conversion: uint8,
                float16 or float32; bool counts as uint8. An int8 model takes int8 as normalised,
                quantized elements.
            data_type: The dtype's name that the arrays must have, or one per input.
            data_format: ``"nhwc"`` or ``"nchw"``, or one per input; None: NHWC.
            inputs_pass_through: 0 or 1 per input. 1: the array has the model's own normalised,
                quantized elements, in the same shape; they reach the NPU unchanged. Changed flags
                load the model again.
            get_frame_id: Append the number of the run twice: for its outputs and its inputs.
            reuse_outputs: Return the same arrays in every call, overwritten by the next one.

        Returns:
            An array per output: float32 in its logical shape (NCHW for rank 4), new ones unless
            ``reuse_outputs``. None on failure.

        Raises:
            RknnError: With ``strict``: the runtime failed.
            ValueError: With ``strict``: `init_runtime` was not called, or the number of inputs,
                dimensions or elements is wrong.
        """

        def work() -> list[Array]:
            outputs = self._ready().infer(
                inputs,
                data_type,
                data_format,
                inputs_pass_through,
                reuse=bool(reuse_outputs),
                complain=self._complain,
            )
            # As in the vendor's package: numbers at the end of the list of arrays.
            numbers: list[Array] = [self._ready().n_runs] * 2 if get_frame_id else []  # type: ignore[list-item]
            return [*outputs, *numbers]

        return self._tried("inference", None, work)

    def get_sdk_version(self) -> str | None:
        """Return the versions of runtime and driver as a framed text; None on failure.

        Raises:
            RknnError: With ``strict``: the runtime failed, or another thread released it.
            ValueError: With ``strict``: `init_runtime` was not called.
        """
        return self._tried("get_sdk_version", None, lambda: self._ready().get_sdk_version()[0])

    def eval_perf(self, is_print: bool = True, fix_freq: bool = True) -> str | None:
        """Time ten runs with the inputs of the last inference or zeros; from the full toolkit.

        Args:
            is_print: Print the result, too.
            fix_freq: Ignored: the clocks are not changed.

        Returns:
            A text with the median time of a run, including the conversion of inputs and outputs,
            and the runs per second. None on failure.
        """

        def work() -> str:
            text = self._ready().timed()
            if is_print:
                print(text)
            return text

        return self._tried("eval_perf", None, work)

    def eval_memory(self, is_print: bool = True) -> dict[str, int] | None:
        """Return the NPU memory that the model uses; from the full toolkit.

        Args:
            is_print: Print the result, too.

        Returns:
            Bytes by ``weight_memory``, ``internal_memory``, ``other_memory`` and
            ``total_memory``; other is 0 if the runtime does not count it. None on failure.
        """

        def work() -> dict[str, int]:
            result = self._ready().memory()
            if is_print:
                print("\n".join(f"{name:16} {value:12,} bytes" for name, value in result.items()))
            return result

        return self._tried("eval_memory", None, work)

    def query(self, what: str) -> object:
        """Return an attribute of the model; the vendor's package has no such call.

        Args:
            what: ``"inputs"`` or ``"outputs"``: a tuple of `TensorAttr`; ``"sdk_version"``,
                ``"memory_size"`` or ``"custom_string"``: as for `Model`.

        Returns:
            The attribute, or None on failure.
        """

        def work() -> object:
            names = ("inputs", "outputs", "sdk_version", "memory_size", "custom_string")
            if what not in names:
                raise ValueError(f"what: expected one of {', '.join(names)}, got {what!r}")
            return getattr(self._ready().model, what)

        return self._tried("query", None, work)

    def list_support_target_platform(
        self, rknn_model: str | os.PathLike[str] | None = None
    ) -> dict[str, list[str]] | None:
        """Print which SoCs a model runs on, or all SoCs by families that share models.

        Args:
            rknn_model: Path of a ``.rknn`` file.

        Returns:
            ``{"filled_target_platform": [...], "support_target_platform": [...]}``: the SoC of the
            conversion, and all SoCs with its NPU. None without a model or on failure.
        """
        return self._tried(
            "list_support_target_platform", None, lambda: arguments.platforms_of(rknn_model)
        )

    def list_devices(self) -> tuple[list[str], list[str]]:
        """Return two empty lists: no devices over USB, only this machine's NPU."""
        return [], []

    def release(self) -> None:
        """Release everything that `init_runtime` took; idempotent."""
        self._tried("release", None, self._close)

    def _tried(self, call: str, failed: _F, work: Callable[[], _T]) -> _T | _F:
        """Do some work. If it fails, raise with ``strict``, otherwise log and return `failed`."""
        try:
            return work()
        except Exception as error:
            if self.strict:
                raise
            verbose = self._log.isEnabledFor(logging.DEBUG)
            self._log.error("%s: %s", call, error, exc_info=verbose)
            return failed

    def _complain(self, text: str) -> None:
        """Refuse or log input that the vendor's package accepts and that is probably wrong."""
        if self.strict:
            raise ValueError(text)
        self._log.warning("inference: %s", text)

    def _ready(self) -> RKNNRuntime:
        if self.rknn_runtime is None:
            raise ValueError("the runtime is not initialised: call init_runtime first")
        return self.rknn_runtime

    def _load(self, path: object, key_path: object) -> int:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path: expected a path, got {type(path).__name__}")
        if key_path is not None:
            raise UnavailableError(
                f"key_path: expected None, got {key_path!r}: no encrypted models"
            )
        # Absolute, as the program may change its folder before init_runtime.
        place = Path(os.fspath(path)).absolute()
        with opened_file(place, sys.maxsize):  # `init_runtime` checks the size
            self._path = str(place)
        return 0

    def _init(
        self,
        target: str | None,
        device_id: str | None,
        core_mask: int,
        fallback: object,
        perf: bool,
    ) -> None:
        if not self._path:
            raise ValueError("no model is loaded: call load_rknn first")
        if fallback not in ("cpu", "gpu"):
            raise ValueError(f'fallback_prior_device: expected "cpu" or "gpu", got {fallback!r}')
        flags = InitFlag.PRIOR_MEDIUM
        if perf:
            flags |= InitFlag.COLLECT_PERF
        if fallback == "gpu":
            flags |= InitFlag.EXECUTE_FALLBACK_PRIOR_DEVICE_GPU
        self._close()
        runtime = RKNNRuntime(
            self.root_dir, target, device_id, core_mask=core_mask, library=self._library
        )
        runtime.warn = self._log.warning
        runtime.build_graph(self._path, flags=flags)
        self.rknn_runtime = runtime
        self._log.debug("init_runtime: %r in %r", runtime.model, runtime.model.library)

    def _close(self) -> None:
        runtime, self.rknn_runtime = self.rknn_runtime, None
        if runtime is not None:
            runtime.release()


class _Journal(NamedTuple):
    """``rknn_log`` of the vendor's class, where scripts look for the logger."""

    logger: logging.Logger


def _new_logger(verbose: bool, path: str | os.PathLike[str] | None) -> logging.Logger:
    """Make a logger for one object, so that the level and file of others do not change.

    It is a child of the logger ``rknn_runtime``, whose configuration applies to it.
    """
    logger = logging.Logger("rknn_runtime.rknnlite")
    logger.parent = logging.getLogger("rknn_runtime")
    if verbose:
        logger.setLevel(logging.DEBUG)
        if not logger.hasHandlers():
            logger.addHandler(_formatted(logging.StreamHandler()))
    if path is not None:
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            logger.warning("verbose_file: %s", error)
        else:
            logger.addHandler(_formatted(handler))
            weakref.finalize(logger, handler.close)
    return logger


def _formatted(handler: logging.Handler) -> logging.Handler:
    handler.setFormatter(_LOG_FORMAT)
    return handler

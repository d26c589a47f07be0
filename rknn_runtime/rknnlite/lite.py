"""The class that scripts for the vendor's ``rknnlite`` package use, on this package."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, NoReturn, TypeVar

from rknn_runtime._arrays import Array
from rknn_runtime._files import opened_file
from rknn_runtime.enums import CoreMask
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu.library import Library
from rknn_runtime.rknnlite.arguments import fitted, input_arrays, pass_through_flags
from rknn_runtime.rknnlite.engine import Engine, init_flags
from rknn_runtime.rknnlite.journal import Journal, new_logger
from rknn_runtime.rknnlite.platforms import (
    chosen_cores,
    header_of,
    platforms_of,
    refuse_other_target,
)
from rknn_runtime.rknnlite.tensors import Tensors

__all__ = ["RKNNLite"]

_T = TypeVar("_T")
_F = TypeVar("_F")

_ASYNC = "every inference returns the outputs of its own inputs; for frames in flight use Pool"


class RKNNLite:
    """A model on this machine's NPU, as the vendor's ``rknnlite.api.RKNNLite`` runs it.

    Calls, arguments and results are those of its version 2.5.0. What goes wrong is logged by
    ``rknn_runtime.rknnlite``, and the call returns -1 or None as there; with ``strict=True`` it
    is raised, and so is what the vendor's package takes by mistake. It also runs where the
    vendor has no such package: on 32-bit ARM, and on RV1103 and RV1106, there over `Model`. For
    new programs `Model` and `GeneralModel` are faster, and say more.

    Threads may share an object for `inference` alone, which takes turns; a `Pool` does not wait.

    Attributes:
        strict: Whether failures are raised.
        rknn_log: Has ``logger``, of this object alone, whose level scripts set.
    """

    NPU_CORE_AUTO: ClassVar[int] = int(CoreMask.AUTO)
    NPU_CORE_0: ClassVar[int] = int(CoreMask.CORE_0)
    NPU_CORE_1: ClassVar[int] = int(CoreMask.CORE_1)
    NPU_CORE_2: ClassVar[int] = int(CoreMask.CORE_2)
    NPU_CORE_0_1: ClassVar[int] = int(CoreMask.CORE_0_1)
    NPU_CORE_0_1_2: ClassVar[int] = int(CoreMask.CORE_0_1_2)
    NPU_CORE_ALL: ClassVar[int] = int(CoreMask.ALL)

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
            verbose: Log what is done, too; to standard error where the program does not
                configure logging. The root logger is left alone.
            verbose_file: A file to which the log is written as well.
            strict: Raise what else is logged.
            library: The runtime library; see `rknn_runtime.open_library`.

        Raises:
            TypeError: ``verbose_file`` is no path.
        """
        self.strict = bool(strict)
        self._library = library
        self._log = new_logger(bool(verbose), verbose_file)
        self.rknn_log = Journal(self._log)
        self._path = ""
        self._engine: Engine | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("an RKNNLite can be neither copied nor pickled: make it where it is needed")

    def load_rknn(
        self, path: str | os.PathLike[str], key_path: str | os.PathLike[str] | None = None
    ) -> int:
        """Choose the model; `init_runtime` reads it.

        Args:
            path: Of a ``.rknn`` file; on the simulated NPU of all that `Model` takes.
            key_path: Of the key of an encrypted model, which is not supported.

        Returns:
            0, or -1 on failure.

        Raises:
            OSError: With ``strict``: the file cannot be read.
            TypeError: With ``strict``: no path.
            UnavailableError: With ``strict``: a key was given.
            ValueError: With ``strict``: a directory, a FIFO, a device; an empty file.
        """
        return self._tried("load_rknn", -1, lambda: self._load(path, key_path))

    def init_runtime(
        self,
        target: str | None = None,
        device_id: str | None = None,
        async_mode: bool = False,
        core_mask: int = NPU_CORE_AUTO,
        *,
        fallback_prior_device: str = "cpu",
        perf_debug: bool = False,
        eval_mem: bool = False,
    ) -> int:
        """Load the model into the runtime; a second call loads it anew.

        Args:
            target: None, or the SoC that the model was converted for: nothing runs elsewhere.
            device_id: None; other devices cannot be reached.
            async_mode: Has no effect but a warning, and is refused with ``strict``: every call of
                `inference` returns the outputs of its own inputs. By the toolkit's reference
                (2.3.0) they would be those of the frame before, but "at present not supported";
                the vendor's package hands the flag to the runtime, no more.
            core_mask: One of the ``NPU_CORE_`` numbers. As in the vendor's package, NPU_CORE_ALL
                means all cores of the model's SoC, and RK3576 takes core 0 for NPU_CORE_2.
            fallback_prior_device: ``"cpu"``, or ``"gpu"``: where operators run that the NPU does
                not have.
            perf_debug: Have the runtime time every layer, which slows runs down.
            eval_mem: Taken, and without effect: `eval_memory` always works.

        Returns:
            0, or -1 on failure.

        Raises:
            RknnError: With ``strict``: there is no library, or it refuses the model.
            OSError: With ``strict``: the file cannot be read.
            TypeError: With ``strict``: an argument of another type.
            UnavailableError: With ``strict``: ``async_mode``.
            ValueError: With ``strict``: no model is loaded, the target is another, or the SoC
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

    @property
    def rknn_runtime(self) -> Tensors | None:
        """What scripts ask of the vendor's inner object; None before `init_runtime`."""
        return None if self._engine is None else Tensors(self._engine.model)

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
            inputs: An array per input, with as many dimensions as the model's, or without that
                of a batch of 1: images as ``(N, H, W, C)`` or ``(H, W, C)``, or with the
                channels before them with ``data_format``. A model that was built for several
                shapes runs in that of the arrays. The numbers are those before
                the normalisation of the conversion: uint8, float16 or float32; bool counts as
                uint8. A model in int8 takes int8 as its own, normalised and quantized elements.
            data_type: A dtype's name, or one per input, that the arrays must have.
            data_format: ``"nhwc"`` or ``"nchw"``, or one per input; None: NHWC.
            inputs_pass_through: 0 or 1 per input. 1: the array has the model's own elements,
                normalised and quantized, in the same shapes as else; they reach the NPU as they
                are. Other flags than in the call before load the model anew.
            get_frame_id: Append the number of the run twice: of its outputs and of its inputs.
            reuse_outputs: Return the same arrays in every call, overwritten by the next.

        Returns:
            An array per output: float32 in its logical shape (NCHW for rank 4), new ones unless
            ``reuse_outputs``. None on failure.

        Raises:
            RknnError: With ``strict``: the runtime failed.
            RuntimeError: With ``strict``: in the middle of another call, as in a signal handler.
            TypeError: With ``strict``: no list of arrays, or a dtype that the model does not take.
            ValueError: With ``strict``: not initialised, or another number of inputs, dimensions
                or elements.
        """

        def work() -> list[Array]:
            outputs = self._infer(
                inputs, data_type, data_format, inputs_pass_through, bool(reuse_outputs)
            )
            # As there: numbers at the end of the list of arrays.
            numbers: list[Array] = [self._ready().n_runs] * 2 if get_frame_id else []  # type: ignore[list-item]
            return [*outputs, *numbers]

        return self._tried("inference", None, work)

    def get_sdk_version(self) -> str | None:
        """Return the versions of runtime and driver, framed as there; None on failure.

        Raises:
            RknnError: With ``strict``: the runtime refused.
            ValueError: With ``strict``: not initialised.
        """
        return self._tried("get_sdk_version", None, lambda: self._ready().versions())

    def eval_perf(self, is_print: bool = True, fix_freq: bool = True) -> str | None:
        """Time ten runs, of the inputs of the last inference or of zeros.

        The vendor's full toolkit has this call, its ``rknnlite`` has not.

        Args:
            is_print: Print the result, too.
            fix_freq: Taken, and without effect: the clocks are left alone.

        Returns:
            A text with the median time of a run, including the conversion of inputs and outputs,
            and the runs per second. None on failure.

        Raises:
            RknnError: With ``strict``: the runtime failed.
            ValueError: With ``strict``: not initialised.
        """

        def work() -> str:
            text = self._ready().timed()
            if is_print:
                print(text)
            return text

        return self._tried("eval_perf", None, work)

    def eval_memory(self, is_print: bool = True) -> dict[str, int] | None:
        """Ask what the model takes of NPU memory.

        The vendor's full toolkit has this call, its ``rknnlite`` has not.

        Args:
            is_print: Print the result, too.

        Returns:
            Bytes by ``weight_memory``, ``internal_memory``, ``other_memory`` and
            ``total_memory``; other is 0 where the runtime does not count it. None on failure.

        Raises:
            RknnError: With ``strict``: the runtime refused.
            ValueError: With ``strict``: not initialised.
        """

        def work() -> dict[str, int]:
            result = self._ready().memory()
            if is_print:
                print("\n".join(f"{name:16} {value:12,} bytes" for name, value in result.items()))
            return result

        return self._tried("eval_memory", None, work)

    def query(self, what: str) -> object:
        """Ask about the model; the vendor's package has no such call.

        Args:
            what: ``"inputs"`` or ``"outputs"``: a tuple of `TensorAttr`; ``"sdk_version"``,
                ``"memory_size"`` or ``"custom_string"``: as of `Model`.

        Returns:
            The answer, or None on failure.

        Raises:
            RknnError: With ``strict``: the runtime refused.
            ValueError: With ``strict``: not initialised, or something else is asked.
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
            ``{"filled_target_platform": [...], "support_target_platform": [...]}``: what the
            conversion was told, and all that share its NPU. None without a model or on failure.

        Raises:
            InvalidModelError: With ``strict``: no model.
            OSError: With ``strict``: the file cannot be read.
            TypeError: With ``strict``: no path.
        """
        return self._tried("list_support_target_platform", None, lambda: platforms_of(rknn_model))

    def list_devices(self) -> tuple[list[str], list[str]]:
        """Return two empty lists: only this machine's NPU can be reached, no device over USB."""
        return [], []

    def release(self) -> None:
        """Release what `init_runtime` took; idempotent.

        Raises:
            RknnError: With ``strict``: the runtime refused.
        """
        self._tried("release", None, self._close)

    def _tried(self, call: str, failed: _F, work: Callable[[], _T]) -> _T | _F:
        """Do something; a failure is raised if ``strict``, else logged and returned."""
        try:
            return work()
        except Exception as error:
            if self.strict:
                raise
            verbose = self._log.isEnabledFor(logging.DEBUG)
            self._log.error("%s: %s", call, error, exc_info=verbose)
            return failed

    def _complain(self, text: str) -> None:
        """Refuse or log what the vendor's package takes and what is probably a mistake."""
        if self.strict:
            raise ValueError(text)
        self._log.warning("inference: %s", text)

    def _ready(self) -> Engine:
        if self._engine is None:
            raise ValueError("the runtime is not initialised: call init_runtime first")
        return self._engine

    def _load(self, path: object, key_path: object) -> int:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path: expected a path, got {type(path).__name__}")
        if key_path is not None:
            raise UnavailableError(
                f"key_path: expected None, got {key_path!r}: no encrypted models"
            )
        # Found even if the program changes its folder before init_runtime.
        place = Path(os.fspath(path)).absolute()
        with opened_file(place, sys.maxsize):  # `init_runtime` knows how large a model may be
            self._path = str(place)
        return 0

    def _init(
        self, target: object, device_id: object, core_mask: object, fallback: object, perf: bool
    ) -> None:
        if not self._path:
            raise ValueError("no model is loaded: call load_rknn first")
        if device_id is not None:
            raise ValueError(f"device_id: expected None: this runs here only, got {device_id!r}")
        flags = init_flags(fallback, perf)
        header = header_of(self._path)
        refuse_other_target(target, header)
        cores = chosen_cores(core_mask, header, self._log.warning)
        self._close()
        is_mini = header is not None and header.container == "mini"
        self._engine = Engine(
            self._path, is_mini, library=self._library, flags=flags, core_mask=cores
        )
        model = self._engine.model
        self._log.debug("init_runtime: %r in %r", model, model.library)

    def _infer(
        self, inputs: object, data_type: object, data_format: object, flags: object, reuse: bool
    ) -> list[Array]:
        engine = self._ready()
        with engine.turn.held():
            given = engine.model.inputs
            arrays = input_arrays(inputs, given, data_type, data_format, self._complain)
            engine.pass_through(pass_through_flags(flags, len(arrays)))
            engine.choose_shapes([array.shape for array in arrays])
            arrays = [
                fitted(f"inputs[{i}]", array, attr.shape, self._complain)
                for i, (array, attr) in enumerate(zip(arrays, engine.model.inputs))
            ]
            return engine.infer(arrays, reuse=reuse)

    def _close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.model.close()

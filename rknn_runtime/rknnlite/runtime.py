"""`RKNNRuntime`: the inner object of `RKNNLite`, for programs that make its calls one by one."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import Array, as_int
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import ClosedError, UnavailableError
from rknn_runtime.npu import raw
from rknn_runtime.npu.general import GeneralModel
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.locks import ExclusiveLock
from rknn_runtime.npu.model import Model
from rknn_runtime.npu.spec import InputSpec
from rknn_runtime.rknnlite import arguments
from rknn_runtime.rknnlite.structures import RKNNPerfRun, RKNNTensorAttr, typed_library

_log = logging.getLogger("rknn_runtime.rknnlite")

#: Every object of this process, for `_owner_of`.
_runtimes: weakref.WeakSet[RKNNRuntime] = weakref.WeakSet()


def _owner_of(context: int) -> str:
    """Say why others must keep an RKNNLite's context; empty for other contexts."""
    if any(context in runtime.contexts() for runtime in list(_runtimes)):
        return "this context belongs to an RKNNLite; call its release()"
    return ""


class _Frame:
    """A model in one context, with the arrays that are kept from run to run.

    Attributes:
        model: A `GeneralModel`; or a `Model`, as librknnmrt has no general flow.
        user: The thread that used it last in single calls.
        stage: ``""`` when it is free, then ``"taken"``, ``"set"`` with inputs, ``"ran"`` with
            outputs, too.
        has_inputs: Whether it holds inputs of `set_inputs` that its user may run on again.
    """

    model: GeneralModel | Model

    def __init__(self, model: GeneralModel | Model, load: Callable[[Any], Any]) -> None:
        self.model, self._load = model, load
        self.user: threading.Thread | None = None
        self.stage = ""
        self.has_inputs = False
        self._passed: list[bool] = []
        self._forget()

    def _forget(self) -> None:
        """Drop the arrays of the last run, which do not fit the next one."""
        self._kept: list[Array] | None = None
        self.last: list[Array] | None = None
        self._outputs: list[Array] = []

    def another(self) -> _Frame:
        """Return a frame with the same weights and its own context."""
        try:
            if isinstance(self.model, GeneralModel):
                return _Frame(self.model.duplicate(), self._load)
        except UnavailableError:
            pass  # as for batches: the weights are loaded once more
        return _Frame(self._load(None), self._load)

    def pass_through(self, flags: list[bool]) -> None:
        """Pass inputs through or not, which is set when a model is loaded."""
        if flags == self._passed or not any((*flags, *self._passed)):
            return
        model = self._load([InputSpec(pass_through=True) if flag else None for flag in flags])
        self.model.close()
        self.model, self._passed = model, flags
        self._forget()

    def choose_shapes(self, shapes: list[tuple[int, ...]]) -> None:
        """Set the shapes of a model that was built for several."""
        if self.model.dynamic_shapes and shapes != [attr.shape for attr in self.model.inputs]:
            self.model.set_input_shapes(shapes)
            self._forget()

    def infer(self, arrays: list[Array], *, reuse: bool) -> list[Array]:
        """Run and return the outputs: new arrays, or the kept ones with `reuse`."""
        out = self._kept if reuse else None
        model = self.model
        outputs = (
            model(*arrays, out=out) if isinstance(model, Model) else model.run(*arrays, out=out)
        )
        if reuse:
            self._kept = outputs
        self.last = arrays
        return outputs

    # ---- single calls ------------------------------------------------------------

    def set(self, arrays: list[Array]) -> None:
        self.last = arrays
        if isinstance(self.model, GeneralModel):
            raw.inputs_set(self.model, *arrays)

    def run(self) -> None:
        if isinstance(self.model, GeneralModel):
            raw.run(self.model)
        else:
            self._outputs = self.model(*(self.last or ()))

    def outputs(self) -> list[Array]:
        return (
            raw.outputs_get(self.model) if isinstance(self.model, GeneralModel) else self._outputs
        )


class RKNNRuntime:
    """A model with the single calls of the vendor's inner object; failures are raised.

    `RKNNLite` makes one in ``init_runtime`` and keeps it in its attribute ``rknn_runtime``. Threads
    may share it: from `set_inputs` to `get_outputs` each has its own context with the same weights.
    A thread that set no inputs takes the oldest that another one set.

    Attributes:
        is_dynamic_shape: Whether the model was built for several shapes.
        graph_is_built: Whether it has a model.
        target_soc: What was given as ``target``.
    """

    def __init__(
        self,
        root_dir: str | os.PathLike[str] | None = None,
        target: str | None = None,
        device_id: str | None = None,
        async_mode: bool = False,
        core_mask: int = 0,
        *,
        library: str | os.PathLike[str] | Library | None = None,
    ) -> None:
        """Open the runtime library; `build_graph` or an assigned `context` gives the model.

        Args:
            root_dir: Ignored.
            target: None, or the SoC of the model.
            device_id: None; other devices cannot be reached.
            async_mode: Ignored.
            core_mask: One of the ``NPU_CORE_`` numbers of `RKNNLite`.
            library: See `rknn_runtime.open_library`.

        Raises:
            LibraryLoadError: There is no library.
            ValueError: A device was given.
        """
        if device_id is not None:
            raise ValueError(f"device_id: expected None: this runs here only, got {device_id!r}")
        self._chosen = library
        self._opened: Library | None = None
        path = self._get_rknn_api_lib_path()
        # Another path if a program has replaced the method.
        is_same = self._opened is not None and self._opened.path == path
        self._library = open_library(self._opened if is_same else path)
        self.target_soc, self._core_mask = target, core_mask
        self.graph_is_built = self.is_dynamic_shape = False
        self.warn: Callable[[str], None] = _log.warning
        self._frames: list[_Frame] = []
        self._picking = threading.Lock()
        self._turn = ExclusiveLock()
        self._lib: ctypes.CDLL | None = None
        self.n_runs = 0
        _runtimes.add(self)

    def _get_rknn_api_lib_path(self) -> str:
        """Return the library to open. Programs replace this method to have another one."""
        self._opened = open_library(self._chosen)
        return self._opened.path

    def build_graph(self, rknn_data: Any, load_model_in_npu: bool = False, **options: Any) -> None:
        """Load a model.

        Args:
            rknn_data: Its bytes, or its path.
            load_model_in_npu: Ignored.
            **options: Of `GeneralModel`.

        Raises:
            ValueError: The target is another SoC, or the SoC does not have these cores. All other
                exceptions are those of `GeneralModel`.
        """
        header = arguments.header_of(rknn_data)
        arguments.refuse_other_target(self.target_soc, header)
        cores = arguments.chosen_cores(self._core_mask, header, self.warn)
        is_mini = header is not None and header.container == "mini"
        kind: Any = Model if is_mini else GeneralModel
        options = {"flags": InitFlag.PRIOR_MEDIUM, **options}

        def load(inputs: Any) -> GeneralModel | Model:
            model: GeneralModel | Model = kind(
                rknn_data, library=self._library, core_mask=cores, inputs=inputs, **options
            )
            return model

        self._take(_Frame(load(None), load))

    def _take(self, frame: _Frame) -> None:
        self.release()
        self._frames = [frame]
        self.graph_is_built = True
        self.is_dynamic_shape = bool(frame.model.dynamic_shapes)

    def release(self) -> None:
        """Release the model; idempotent."""
        frames, self._frames = self._frames, []
        self.graph_is_built = False
        for frame in reversed(frames):
            frame.model.close()

    @property
    def model(self) -> GeneralModel | Model:
        """The model in its first context."""
        return self._first().model

    def _first(self) -> _Frame:
        if not self._frames:
            raise ClosedError("the runtime has no model: call init_runtime first")
        return self._frames[0]

    # ---- the C API ---------------------------------------------------------------

    @property
    def lib(self) -> ctypes.CDLL:
        """The library in use as a ``ctypes.CDLL``, with the types of its functions.

        Its ``rknn_destroy`` raises RuntimeError for a context of this package.
        """
        if self._lib is None:
            self._lib = typed_library(self._library.path, _owner_of)
        return self._lib

    @property
    def context(self) -> int:
        """The ``rknn_context`` of the calling thread's last `set_inputs`, or the first one.

        A context that other code made, for example by ``rknn_dup_context``, may be assigned, and is
        destroyed by `release`.
        """
        with self._picking:
            return _context_of(self._mine() or self._first())

    @context.setter
    def context(self, number: int) -> None:
        value = as_int(getattr(number, "value", number), "context", 1, 2**64 - 1)
        if _owner_of(value):
            raise ValueError(f"context: expected one that no other object has, got {value}")

        def load(inputs: Any) -> GeneralModel | Model:
            raise UnavailableError("this context was made by other code: its file is not known")

        self._take(_Frame(GeneralModel.adopt(value, self._library), load))

    def contexts(self) -> set[int]:
        """Return every ``rknn_context`` of this object."""
        return {_context_of(frame) for frame in list(self._frames)}

    # ---- tensors -----------------------------------------------------------------

    def get_in_out_num(self) -> tuple[int, int]:
        """Return how many inputs and how many outputs there are."""
        return len(self.model.inputs), len(self.model.outputs)

    def get_tensor_attr(self, index: SupportsIndex, is_output: bool = False) -> Any:
        """Return the ``RKNNTensorAttr`` of an input or, with `is_output`, an output."""
        attrs = self.model.outputs if is_output else self.model.inputs
        attr = attrs[as_int(index, "index", 0, len(attrs) - 1)]
        return RKNNTensorAttr(
            index=attr.index, n_dims=len(attr.shape), dims=attr.shape, name=attr.name.encode(),
            n_elems=attr.n_elems, size=attr.size, fmt=int(attr.layout), type=int(attr.dtype),
            qnt_type=int(attr.qnt_type), fl=attr.fl, zp=attr.zero_point, scale=attr.scale,
            w_stride=attr.w_stride, size_with_stride=attr.size_with_stride,
            h_stride=attr.h_stride,
        )  # fmt: skip

    def get_output_shape(self, index: SupportsIndex) -> list[int]:
        """Return the shape of an output."""
        attrs = self.model.outputs
        return list(attrs[as_int(index, "index", 0, len(attrs) - 1)].shape)

    # ---- runs --------------------------------------------------------------------

    def set_inputs(
        self,
        inputs: list[Array],
        data_type: str | list[str] | None = None,
        data_format: str | list[str] | None = None,
        inputs_pass_through: list[int] | None = None,
    ) -> None:
        """Have the runtime copy the inputs; arguments are as for `RKNNLite.inference`."""
        frame = self._taken()
        frame.set(self._prepared(frame, inputs, data_type, data_format, inputs_pass_through))
        frame.stage, frame.has_inputs = "set", True

    def run(self, get_frame_id: bool = False) -> tuple[int, int]:
        """Run on the inputs of `set_inputs`; return 0 and the number of the run.

        A thread may run again on its own inputs.
        """
        frame = self._frame_at("set", "call set_inputs first")
        frame.run()
        frame.stage = "ran"
        self.n_runs += 1
        return 0, self.n_runs

    def get_outputs(self, get_frame_id: bool = False) -> list[Any]:
        """Return the outputs of `run` as new float32 arrays; with `get_frame_id` a number, too."""
        frame = self._frame_at("ran", "call run first")
        outputs: list[Any] = list(frame.outputs())
        frame.stage = ""
        return [*outputs, self.n_runs] if get_frame_id else outputs

    def infer(
        self,
        inputs: object,
        data_type: object = None,
        data_format: object = None,
        flags: object = None,
        *,
        reuse: bool = False,
        complain: Callable[[str], None] | None = None,
    ) -> list[Array]:
        """Do these calls in one; threads that share the object wait for each other."""
        with self._turn.held():
            frame = self._taken()
            try:
                arrays = self._prepared(frame, inputs, data_type, data_format, flags, complain)
                outputs = frame.infer(arrays, reuse=reuse)
            finally:
                frame.stage = ""
            self.n_runs += 1
            return outputs

    def _prepared(
        self,
        frame: _Frame,
        inputs: object,
        data_type: object,
        data_format: object,
        flags: object,
        complain: Callable[[str], None] | None = None,
    ) -> list[Array]:
        """Check the arguments of a run, and make a frame ready for them."""
        complain = complain or self.warn
        given = frame.model.inputs
        arrays = arguments.input_arrays(inputs, given, data_type, data_format, complain)
        frame.pass_through(arguments.pass_through_flags(flags, len(arrays)))
        frame.choose_shapes([array.shape for array in arrays])
        return [
            arguments.fitted(f"inputs[{i}]", array, attr.shape, complain)
            for i, (array, attr) in enumerate(zip(arrays, frame.model.inputs))
        ]

    def _mine(self) -> _Frame | None:
        me = threading.current_thread()
        return next((frame for frame in self._frames if frame.user is me), None)

    def _taken(self) -> _Frame:
        """Take the calling thread's frame, or one that nobody uses."""
        with self._picking:
            self._first()
            frame = self._mine()
            if frame is None:
                free = (
                    each for each in self._frames
                    # Nothing was begun with it, or by a thread that has ended.
                    if not each.stage or each.user is None or not each.user.is_alive()
                )  # fmt: skip
                frame = next(free, None)
            if frame is None:
                frame = self._frames[0].another()
                self._frames.append(frame)
            frame.user, frame.stage = threading.current_thread(), "taken"
            frame.has_inputs = False
            return frame

    def _frame_at(self, stage: str, hint: str) -> _Frame:
        """Return the calling thread's frame if it is at a stage, or the first one that is."""
        with self._picking:
            self._first()
            frame = self._mine()
            if frame is not None and stage == "set" and frame.has_inputs:
                frame.stage = "taken"
                return frame
            if frame is None or frame.stage != stage:
                frame = next((each for each in self._frames if each.stage == stage), None)
            if frame is None:
                raise ValueError(f"no thread has come so far: {hint}")
            frame.user = threading.current_thread()
            return frame

    # ---- cores, times, memory ------------------------------------------------------

    def set_core_mask(self, core_mask: int) -> int:
        """Choose the cores for the next runs; return 0."""
        for frame in self._frames:
            frame.model.set_core_mask(CoreMask(core_mask))
        return 0

    def get_run_perf(self) -> Any:
        """Return an ``RKNNPerfRun``: ``run_duration`` is the last run's time in microseconds."""
        return RKNNPerfRun(run_duration=self.model.last_run_us)

    def get_sdk_version(self) -> tuple[str, str, str]:
        """Return a framed text with the versions of runtime and driver, and the two."""
        version, line = self.model.sdk_version, "=" * 46
        text = f"{line}\nRKNN VERSION:\n  API: {version.api}\n  DRV: {version.driver}\n{line}\n"
        return text, version.api, version.driver

    def timed(self) -> str:
        """Time ten runs of the last inputs or zeros; return the median as a text."""
        frame = self._first()
        arrays = frame.last
        if arrays is None:
            arrays = [
                np.zeros(attr.shape, np.uint8 if attr.takes_pixels else np.float32)
                for attr in frame.model.inputs
            ]
        times = []
        for _ in range(10):
            begin = time.perf_counter()
            frame.infer(arrays, reuse=False)
            times.append(time.perf_counter() - begin)
        median_us = float(np.median(times)) * 1e6
        return f"Total Time(us): {median_us:.0f}\nFPS: {1e6 / median_us:.2f}"

    def memory(self) -> dict[str, int]:
        """Return bytes of NPU memory by the names of the vendor's toolkit."""
        size = self.model.memory_size
        known = size.weight_bytes + size.internal_bytes
        other = max(0, size.dma_allocated_bytes - known)
        return {
            "weight_memory": size.weight_bytes,
            "internal_memory": size.internal_bytes,
            "other_memory": other,
            "total_memory": known + other,
        }


def _context_of(frame: _Frame) -> int:
    context = frame.model._context
    with context.lock:
        return context.opened()

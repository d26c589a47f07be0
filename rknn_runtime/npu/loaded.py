"""The base class of `Model` and `GeneralModel`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex

from rknn_runtime._arrays import Array, as_int, as_member
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu import query
from rknn_runtime.npu.context import Closing, Context
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.locks import ExclusiveLock
from rknn_runtime.npu.query import MemorySize, QueriedTensor, SdkVersion
from rknn_runtime.npu.source import init_extend, opened_buffer, opened_source
from rknn_runtime.tensor import TensorAttr, ports_html

if TYPE_CHECKING:
    from rknn_runtime.modelfile.info import Preprocessing
    from rknn_runtime.npu.dma_heap import DmaBuffer
    from rknn_runtime.npu.operators import Compute, CustomOpNode
    from rknn_runtime.npu.performance import Performance
    from rknn_runtime.sim.emulator import Emulation
    from rknn_runtime.sim.inspection import Comparison

#: Flags of ``rknn_init`` that leave fences or timing to the caller: a model that runs itself
#: cannot honour them.
_FOREIGN_FLAGS = InitFlag.ASYNC | InitFlag.COLLECT_MODEL_INFO_ONLY
#: Fences, which need bound memory: see `rknn_runtime.npu.raw`.
_FENCES = InitFlag.FENCE_IN_OUTSIDE | InitFlag.FENCE_OUT_OUTSIDE
#: With these the runtime leaves the caches to `rknn_mem_sync`.
SYNC_FLAGS = InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE | InitFlag.DISABLE_FLUSH_OUTPUT_MEM_CACHE
#: Flags that only some SoCs understand, these SoCs (None: all with librknnrt), and why; see
#: docs/performance.md.
_FLAGS_OF_SOCS: dict[InitFlag, tuple[Sequence[str] | None, str]] = {
    InitFlag.FENCE_IN_OUTSIDE: (None, "librknnrt"),
    InitFlag.FENCE_OUT_OUTSIDE: (None, "librknnrt"),
    InitFlag.ENABLE_SRAM: (("rk3588",), "SRAM for the NPU"),
    InitFlag.SHARE_SRAM: (("rk3588",), "SRAM for the NPU"),
    InitFlag.EXECUTE_FALLBACK_PRIOR_DEVICE_GPU: (
        ("rk3562", "rk3566", "rk3568", "rk3576", "rk3588"),
        "a GPU that its runtime uses",
    ),
}
#: Bytes that are offered to a query whose struct is not documented.
_DEVICE_MEMORY_BYTES = 4096
_NO_INNER_TENSORS = 'an NPU shows no inner tensors: load the .rknn file with library="sim"'


def init_flags(flags: InitFlag) -> InitFlag:
    """Check the flags of ``rknn_init``: 32 bits."""
    return as_member(flags, "flags", InitFlag, 2**32 - 1)


def _checked_flags(
    flags: InitFlag, kind: str, shares_with: object, library: Library, *, zero_copy: bool
) -> InitFlag:
    """Check the flags and the model whose weights are shared; return all flags."""
    flags = init_flags(flags)
    foreign = flags & (_FOREIGN_FLAGS if zero_copy else _FOREIGN_FLAGS | _FENCES)
    if foreign:
        raise ValueError(
            f"flags: expected none that leave fences or timing to you, which a {kind} cannot do, "
            f"got {foreign!r}"
        )
    if shares_with is None:
        if flags & InitFlag.SHARE_WEIGHT_MEM:
            raise ValueError("flags: SHARE_WEIGHT_MEM needs share_weights_with=")
        return flags
    if not isinstance(shares_with, LoadedModel):
        raise TypeError(f"share_weights_with: expected a Model, got {type(shares_with).__name__}")
    if shares_with.library is not library:
        raise ValueError(
            f"share_weights_with: expected a model in {library!r}, got one in "
            f"{shares_with.library!r}"
        )
    return flags | InitFlag.SHARE_WEIGHT_MEM


def _refuse_flags(flags: InitFlag, soc: str) -> None:
    """Raise `UnavailableError` for flags that need another SoC; "" is an unknown SoC."""
    for flag, (socs, what) in _FLAGS_OF_SOCS.items():
        if not soc or not flags & flag:
            continue
        if socs is None:
            from rknn_runtime.modelfile.soc import SOCS

            socs = [name for name, each in SOCS.items() if not each.mini]
        if soc not in socs:
            names = ", ".join(name.upper() for name in socs)
            raise UnavailableError(
                f"flags: {flag.name} needs {what}, which {names} have, not {soc}"
            )


def check_outs(out: Sequence[object], count: int) -> None:
    """Check that ``out`` is a sequence with an array for each output."""
    if type(out) is not list and not isinstance(out, Sequence):
        raise TypeError(f"out: expected a list of {count} arrays, got {type(out).__name__}")
    if len(out) != count:
        raise ValueError(f"out: expected {count} arrays, got {len(out)}")


class LoadedModel(Closing):
    """Base class of `Model` and `GeneralModel`. Not for direct use.

    Every method and property that asks the runtime raises `ClosedError` if the model was
    closed, `ForkError` in a process that was forked after it was loaded, `RuntimeError` in the
    middle of another call, as in a signal handler, and `RknnStatusError` if the runtime refuses.

    Attributes:
        inputs: Logical attributes of the inputs.
        outputs: Logical attributes of the outputs.
    """

    inputs: tuple[TensorAttr, ...]
    outputs: tuple[TensorAttr, ...]
    _library: Library
    _context: Context
    #: Of a simulated model its ``rknn_runtime.sim.prepared.PreparedModel``; None on an NPU.
    _simulation: Any
    #: The SoC that the model's file names, or that is simulated; empty if unknown.
    _soc: str = ""
    _is_duplicate = False
    #: Inputs and outputs as the runtime described them first; and whether it has several shapes.
    _asked: tuple[tuple[QueriedTensor, ...], tuple[QueriedTensor, ...]]
    _is_dynamic: bool
    #: Memory is bound to inputs and outputs, and the runtime copies nothing.
    _is_zero_copy: ClassVar[bool] = True

    # ---- loading ---------------------------------------------------------------

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview | DmaBuffer,
        library: Library,
        flags: InitFlag,
        core_mask: CoreMask | None,
        check: bool,
        share_weights_with: LoadedModel | None = None,
    ) -> None:
        """Load a model; for the arguments see `Model`. The library is open."""
        self._library = library
        self._flags = _checked_flags(
            flags, type(self).__name__, share_weights_with, library, zero_copy=self._is_zero_copy
        )
        buffer, model = opened_buffer(model, self._flags)
        parent: Context | None = None
        if share_weights_with is not None:
            parent = share_weights_with._context
        with opened_source(model, library, check, zero_copy=self._is_zero_copy) as source:
            self._needs = source.needs
            self._soc = source.soc
            self._simulation = source.simulation
            _refuse_flags(flags, source.soc)
            self._context = Context(
                library,
                source.simulation,
                parent=parent,
                kept=None if buffer is None else (buffer, model),
            )
            self._context.initialise(
                source.data if buffer is None else model,
                int(self._flags),
                init_extend(buffer, model, parent is not None),
            )
            self._context.suspects = source.suspects
        self._finish(core_mask)
        if self._simulation is not None:
            self._simulation.log(self._context)
        self._warn_of_cpu()

    def _warn_of_cpu(self) -> None:
        places = [p for p in self.placement or () if p.on_npu or not p.only_moves]
        on_cpu = [place for place in places if not place.on_npu]
        if 2 * len(on_cpu) > len(places):
            import logging  # here, as it costs more than all of this package

            logging.getLogger("rknn_runtime").warning(
                "%d of %d nodes that compute run on the CPU, such as %s %r: %s",
                len(on_cpu), len(places), on_cpu[0].op, on_cpu[0].name, on_cpu[0].reason,
            )  # fmt: skip

    @property
    def _preprocessing(self) -> tuple[Preprocessing | None, ...]:
        """Mean and std per input, parsed now; None where unknown, and empty if all are."""
        told = self._needs if self._simulation is None else self._simulation
        return () if told is None else tuple(told.preprocessing)

    def _duplicate(self, original: LoadedModel, core_mask: CoreMask | None) -> None:
        """Become a duplicate of a model of this class, in place of ``__init__``."""
        context = original._context
        with context.lock:
            context.check_open()
        if context.custom is not None:
            raise UnavailableError(
                "a model with custom operators has no duplicates: load it again, perhaps with "
                "share_weights_with="
            )
        if query.is_mini(context):
            raise UnavailableError(
                "librknnmrt (RV1103, RV1106) does not implement rknn_dup_context: load the model "
                "again, perhaps with share_weights_with="
            )
        if any(t.attr.takes_pixels and t.attr.shape[0] > 1 for t in original._asked[0]):
            raise UnavailableError(
                "a model of several images per run has no duplicates, because librknnrt 2.3.2 "
                "would end the process: load the model again, perhaps with share_weights_with="
            )
        self._is_duplicate = True
        self._library, self._flags = original._library, original._flags
        self._needs = original._needs
        self._soc = original._soc
        self._simulation = original._simulation
        self._context = Context(self._library, self._simulation, parent=context)
        self._context.initialise(None, int(self._flags))
        self._context.suspects = context.suspects
        # Not asked again: librknnrt 2.3.2 would describe inputs as they are bound there.
        self._asked, self._is_dynamic = original._asked, original._is_dynamic
        self._finish(core_mask)

    def _finish(self, core_mask: CoreMask | None) -> None:
        """Prepare everything in a context that was just made, or release it."""
        self._changing = ExclusiveLock()
        context, needs = self._context, self._needs
        try:
            if core_mask is not None:
                self.set_core_mask(core_mask)
            if not self._is_duplicate:
                self._asked = query.inputs_and_outputs(context)
                self._is_dynamic = query.is_dynamic(context) if needs is None else needs.is_dynamic
            inputs, outputs = self._asked
            if self._is_dynamic:
                query.choose_shapes(context, inputs)
                outputs = tuple(map(query.without_groups, outputs))
            self._take(inputs, outputs)
        except BaseException:
            self._forget()
            context.give_up()
            raise

    def _take(self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]) -> None:
        """Bind the inputs and outputs, and then describe them so."""
        inputs, outputs = self._bind(inputs, outputs)
        self.inputs = tuple(tensor.attr for tensor in inputs)
        self.outputs = tuple(tensor.attr for tensor in outputs)

    def _bind(
        self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]
    ) -> tuple[Sequence[QueriedTensor], Sequence[QueriedTensor]]:
        """Prepare inputs and outputs, at first and in new shapes; return them as in memory."""
        raise NotImplementedError

    # ---- closing ---------------------------------------------------------------

    def close(self) -> None:
        """Release memory and context; idempotent. In a forked child nothing is released.

        Weights that a duplicate uses stay until the duplicate is closed, too.

        Raises:
            BufferError: An array that views its memory is alive; nothing was released.
        """
        self._context.close_for(self._let_go)

    def _let_go(self) -> None:
        """Make ready to be closed, inside ``with context.lock``, or raise `BufferError`."""

    def _forget(self) -> None:
        """Drop the arrays in memory that is about to be released."""

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(
            f"a {kind} can be neither copied nor pickled: it owns an NPU context. Make it where "
            "it is needed"
        )

    # ---- information -----------------------------------------------------------

    def __repr__(self) -> str:
        if self._context.is_closed:
            return f"<{type(self).__name__} closed>"
        inputs = ", ".join(f"{attr.name} {attr.shape}" for attr in self.inputs)
        outputs = ", ".join(f"{attr.name} {attr.shape}" for attr in self.outputs)
        engine = self._simulation.engine if self._simulation else ""
        computed = f", computed by {engine}" if engine else ""
        return f"<{type(self).__name__} {inputs} -> {outputs}{computed}>"

    def _repr_html_(self) -> str:
        return ports_html(self.inputs, self.outputs)

    @property
    def library(self) -> Library:
        """The runtime library; ``library.is_simulated`` tells the simulated NPU."""
        return self._library

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run."""
        return self._context.is_closed

    @property
    def sdk_version(self) -> SdkVersion:
        """Versions of the runtime and the driver, ``(api, driver)``."""
        return query.sdk_version(self._context)

    @property
    def memory_size(self) -> MemorySize:
        """Bytes of NPU memory that the model takes."""
        return query.memory_size(self._context)

    @property
    def custom_string(self) -> str:
        """The text of ``rknn.config(custom_string=...)``; empty if there was none."""
        return query.custom_string(self._context)

    def device_memory(self) -> bytes:
        """Ask librknnmrt about the device's memory (``RKNN_QUERY_DEVICE_MEM_INFO``).

        The struct is not documented: these are its bytes, padded with zeros. librknnrt always
        refuses.
        """
        info = ffi.new("uint8_t[]", _DEVICE_MEMORY_BYTES)
        status = self._context.query(lib.RKNN_QUERY_DEVICE_MEM_INFO, info, len(info))
        self._context.check_status(status, "rknn_query(DEVICE_MEM_INFO)")
        return bytes(ffi.buffer(info))

    # ---- shapes ----------------------------------------------------------------

    @property
    def dynamic_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The shapes that the model was built for: one shape per input for each choice.

        In the layout of ``model.inputs``, biggest first; empty if the model has one shape.
        """
        if self._is_dynamic:
            return query.dynamic_shapes(self._context, len(self.inputs))
        with self._context.lock:
            self._context.check_open()
        return ()

    def set_input_shapes(self, given: Sequence[Sequence[int]]) -> None:
        """Choose among `dynamic_shapes`; a dynamic model begins with the biggest.

        ``inputs``, ``outputs`` and the memory of a `Model` change with them, and the contents of
        that memory are lost. Memory that you bound stays bound if it is large enough; otherwise
        bind another before you run.

        Args:
            given: One shape per input.

        Raises:
            BufferError: Arrays that view the memory of a `Model` are alive.
            UnavailableError: The runtime cannot choose shapes.
            ValueError: The model was not built for these; the message lists its shapes.
        """
        with self._changing.held():
            wanted = query.checked_shapes(given, self.dynamic_shapes)
            with self._context.lock:
                self._context.check_open()
                self._let_go()
                self._pause("set_input_shapes has not succeeded: choose shapes again")
            inputs, outputs = query.inputs_and_outputs(self._context)
            query.choose_shapes(self._context, inputs, wanted)
            inputs, outputs = query.inputs_and_outputs(self._context, current=True)
            self._take(inputs, tuple(map(query.without_groups, outputs)))
            with self._context.lock:
                self._pause("")

    def _pause(self, reason: str) -> None:
        """Refuse to run until this is called without a reason, inside ``with context.lock``."""
        self._context.paused = reason

    # ---- running ---------------------------------------------------------------

    def run(self, *inputs: Array) -> object:
        """Run the model on these inputs."""
        raise NotImplementedError

    def _check_ready(self) -> None:
        """Check that the model is open and could run, inside ``with context.lock``."""
        self._context.check_chosen()

    def _check_count(self, inputs: Sequence[object]) -> None:
        if len(inputs) != len(self.inputs):
            names = ", ".join(f"input {i} {attr.name!r}" for i, attr in enumerate(self.inputs))
            count = "1 input" if len(self.inputs) == 1 else f"{len(self.inputs)} inputs"
            raise TypeError(f"inputs: expected {count} ({names}), got {len(inputs)}")

    # ---- cores and measurements ------------------------------------------------

    def set_core_mask(self, core_mask: CoreMask) -> None:
        """Choose the NPU cores to run on (RK3588 has 3, RK3576 2).

        Raises:
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
            UnavailableError: The SoC has one core, or the runtime no such function.
            ValueError: More than the SoC has, or less than 1.
        """
        most = self._cores("cores", "rknn_set_batch_core_num")
        number = as_int(cores, "cores", 1, most or 64)
        context = self._context
        with context.lock:
            status = lib.rkr_set_batch_core_num(context.handle, context.opened(), number)
            context.check_status(status, f"rknn_set_batch_core_num({number})")

    def _cores(self, name: str, function: str) -> int:
        """Return the cores of the SoC, 0 if it is unknown; refuse a SoC with one core."""
        self._context.library.require(function)
        cores = self._known_cores()
        if cores == 1:
            raise UnavailableError(
                f"{name}: the NPU of {self._soc} has one core, nothing to choose"
            )
        return cores

    def _known_cores(self) -> int:
        """Return the cores of the SoC, 0 if it is unknown."""
        from rknn_runtime.modelfile.soc import SOCS  # here, because most models never ask

        soc = SOCS.get(self._soc)
        return 0 if soc is None else soc.cores

    def perf_detail(self) -> Performance:
        """Report for each layer of the last run its time, cores, bandwidth, and NPU or CPU.

        Load the model with ``InitFlag.COLLECT_PERF``. Every layer is then run and measured
        separately, which takes longer than an ordinary run. librknnmrt always refuses.

        Raises:
            RknnError: The runtime returned no table, or one that cannot be read.
        """
        from rknn_runtime.npu import performance

        return performance.performance(self._context)

    @property
    def last_run_us(self) -> int:
        """Microseconds of the last run on the NPU, without inputs and outputs.

        librknnmrt always refuses.
        """
        from rknn_runtime.npu import performance

        return performance.last_run_us(self._context)

    # ---- the open runtime ------------------------------------------------------

    @property
    def placement(self) -> tuple[query.NodePlace, ...] | None:
        """Where each node runs, in the current shape; None if the runtime is the vendor's.

        The open runtime runs nodes on the NPU if it can, and the others on the CPU.
        """
        return query.placement(self._context) if self._library.is_open else None

    # ---- the emulated NPU ------------------------------------------------------

    @property
    def emulation(self) -> Emulation | None:
        """How each node is emulated, in the current shape; None if the model is not emulated.

        Raises:
            RknnError: The graph of this shape cannot be opened.
        """
        if self._simulation is None:
            return None
        found: Emulation | None = self._simulation.emulation(self._context)
        return found

    def tensors(self, *, dequantize: bool = True) -> dict[str, Array]:
        """Compute the last run of an emulated model again, and keep every tensor.

        Args:
            dequantize: True: float32. False: the tensor's own type, quantized.

        Returns:
            Inner tensors and outputs by name, in the order in which they are computed, with
            their dimensions in the exporting framework's order. Copies. For a model with a
            batch, those of the last image.

        Raises:
            RknnError: Nothing was run yet, or a node is not understood.
            UnavailableError: The model is not emulated.
        """
        if self._simulation is None:
            raise UnavailableError(_NO_INNER_TENSORS)
        found: dict[str, Array] = self._simulation.tensors(
            self._context, dequantize=bool(dequantize)
        )
        return found

    def compare(self, onnx: str | os.PathLike[str] | bytes, *inputs: Array) -> Comparison:
        """Run an emulated model and its ONNX file in float, and compare every tensor.

        Args:
            onnx: The ONNX file that the model was made of: path or bytes.
            *inputs: One array per input, as `run` takes them: uint8 pixels or float32.

        Returns:
            The tensors that both have, in the order in which they are computed.

        Raises:
            ImportError: onnxruntime is not installed.
            InvalidModelError: ``onnx`` is no ONNX file, or another model.
            RknnError: A node is not understood.
            UnavailableError: The model is not emulated.
        """
        if self._simulation is None:
            raise UnavailableError(_NO_INNER_TENSORS)
        self._check_count(inputs)
        self.run(*inputs)
        found: Comparison = self._simulation.compare(self._context, onnx, self.inputs, inputs)
        return found

    # ---- custom operators ------------------------------------------------------

    def register_custom_op(
        self,
        op_type: str,
        compute: Compute,
        *,
        init: Callable[[CustomOpNode], object] | None = None,
        destroy: Callable[[CustomOpNode], object] | None = None,
    ) -> None:
        """Compute the nodes of a custom type with a Python function.

        Call it after the model was loaded and before its first run. Only librknnrt has custom
        operators.

        Args:
            op_type: The type of the nodes, as in the ONNX file: ``"cstSoftmax"``. A type that no
                node has is no error.
            compute: ``compute(node, inputs, outputs)`` is called in each run for each such node,
                on any thread of the runtime. ``inputs`` and ``outputs`` are tuples of arrays in
                the framework's order (NCHW), in float32 from librknnrt. Inputs are copies.
                Outputs begin as zeros; write them in place. You may keep both. `run` raises its
                exceptions. It can neither use nor close this model.
            init: ``init(node)`` is called now, once for each such node; ``node.data`` is for its
                result. This call raises its exceptions.
            destroy: ``destroy(node)`` is called once for each after `close` has closed the model,
                but not if a model is only dropped.

        Raises:
            UnavailableError: librknnmrt has no custom operators, and duplicates take none,
                because they make librknnrt unstable.
            ValueError: No name that C takes, or the type has a function already.
        """
        from rknn_runtime.npu.operators import register

        register(
            self._context, op_type, compute, init, destroy, self._is_duplicate, self._take_note
        )

    def register_custom_op_library(self, path: str | os.PathLike[str]) -> str:
        """Compute the nodes of a type by a shared library that exports ``get_rknn_custom_op``.

        The library is your code and runs in this process, without protection. It is never closed.

        Args:
            path: Of the library.

        Returns:
            The type of its operator.

        Raises:
            LibraryLoadError: It cannot be loaded, or gives no operator.
            UnavailableError: As in `register_custom_op`.
            ValueError: A path with a null character, or the type has a function already.
        """
        from rknn_runtime.npu.operators import register_library

        return register_library(self._context, path, self._is_duplicate, self._take_note)

    def _take_note(self) -> None:
        """Let runs raise what an operator raised, inside ``with context.lock``."""

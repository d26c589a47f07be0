"""What the simulated runtime loads for a model, and the executor that goes with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.emulation import Comparison, Emulation
from rknn_runtime.errors import InvalidModelError, RknnError, UnavailableError
from rknn_runtime.modelfile.container import Buffer, check_format, opened
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.library import Library
from rknn_runtime.sim import inspection
from rknn_runtime.sim.bundle import MAGIC, read_bundle
from rknn_runtime.sim.emulator import Machine
from rknn_runtime.sim.executor import Executor, Graph, read_onnx
from rknn_runtime.sim.make import bundle_from_onnx
from rknn_runtime.tensor import TensorAttr

__all__ = ["PreparedModel", "prepare"]

#: What an ONNX file is simulated on.
_SOC_OF_ONNX = "rk3588"
NO_PREPROCESSING = Preprocessing((0.0,), (1.0,), rgb2bgr=False)


class PreparedModel:
    """What a context loads, and its executor; must live as long as the context.

    Attributes:
        data: The ``.rknn`` file or the bundle, until a context has loaded it.
        engine: What computes: ``"emulator"``, ``"onnxruntime"``, ``"records"``, or nothing:
            ``""``.
        preprocessing: Mean and std of each input; None where nobody says it.
        soc: Name of the SoC that is simulated.
    """

    def __init__(
        self,
        data: bytes,
        library: Library,
        executor: Executor | None,
        preprocessing: Sequence[Preprocessing | None],
        engine: str,
        soc: str,
    ) -> None:
        self.data = data
        self.engine = engine
        self.soc = soc
        self.preprocessing = tuple(preprocessing)
        self._library = library
        self._executor = executor
        # This package syncs as a board's caches need it; other programs are not asked to.
        set_caches = ffi.cast("rknn_sim_caches_fn *", library.symbol("rknn_sim_caches"))
        set_caches(lib.RKNN_SIM_STRICT_UNLESS_SAID)

    def attach(self, context: int) -> None:
        """Belong to a context, which has loaded the data.

        Raises:
            InvalidModelError: A custom operator has a name or a shape that no runtime has room
                for.
            RknnError: The context is not one of this library.
        """
        self.data = b""  # the library has what it needs of it
        if self._executor is not None:
            self._executor.attach(context, self._library)

    def duplicate(self) -> PreparedModel:
        """Return one for a duplicate of the context."""
        twin = copy(self)
        if self._executor is not None:
            twin._executor = self._executor.duplicate()
        return twin

    @contextmanager
    def machine(self, context: Context) -> Iterator[Machine]:
        """Lend the emulator of a context, locked, for the time of a ``with`` block.

        Raises:
            ClosedError: The context is closed.
            ForkError: This process was forked after it was made.
            RknnError: Its graph cannot be opened.
            RuntimeError: Called in the middle of another call, as by a signal handler.
            UnavailableError: Something else computes the model.
        """
        if self.engine != "emulator":
            raise UnavailableError(
                f"the model is not emulated, but computed by {self.engine or 'nothing'}: load the "
                ".rknn file itself"
            )
        with context.lock:
            address = self._library.symbol("rknn_sim_emulator")
            handle = ffi.cast("rknn_sim_emulator_fn *", address)(context.opened())
            if handle == ffi.NULL:
                raise RknnError(self._library.last_message())
            yield Machine(handle, self._library)

    def emulation(self, context: Context) -> Emulation | None:
        """See `LoadedModel.emulation`."""
        if self.engine != "emulator":
            return None
        with self.machine(context) as machine:
            return machine.emulation

    def tensors(self, context: Context, *, dequantize: bool) -> dict[str, Array]:
        """See `LoadedModel.tensors`."""
        with self.machine(context) as machine:
            return inspection.tensors(machine, dequantize=dequantize)

    def compare(
        self,
        context: Context,
        onnx: str | os.PathLike[str] | bytes,
        attrs: Sequence[TensorAttr],
        inputs: Sequence[Array],
    ) -> Comparison:
        """See `LoadedModel.compare`; the model has just run on the inputs."""
        content = onnx if isinstance(onnx, bytes) else read_onnx(onnx)
        with self.machine(context) as machine:
            given = inspection.real_inputs(machine, attrs, inputs)
            return inspection.compare(machine, content, given)

    def take_exception(self) -> BaseException | None:
        """Return what the executor raised in its last run, once."""
        return None if self._executor is None else self._executor.take_exception()


def prepare(model: str | os.PathLike[str] | bytes, library: Library) -> PreparedModel:
    """Make what the simulated runtime can load out of any model.

    What is given decides what computes. The commands of a ``.rknn`` file are executed by the
    emulator, whatever lies beside it. An ``.onnx`` file is computed by onnxruntime, as an RK3588
    float16 model without mean and std. A bundle is taken as it is.

    Args:
        model: Path of a model, or the bytes of a ``.rknn`` file or a bundle.
        library: The simulated runtime.

    Returns:
        What to load, with its executor.

    Raises:
        InvalidModelError: Not a model, or one that cannot be simulated; says what to do.
        RknnError: onnxruntime is needed and missing.
        OSError: The file cannot be read.
        TypeError: ``model`` is neither path nor bytes.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _of_bytes(bytes(model), library)
    with opened(model) as content:
        if Path(model).suffix == ".onnx":
            graph = Graph(bytes(content[:]))
            executor = Executor(graph, graph.inputs, graph.outputs)
            given = (NO_PREPROCESSING,) * len(graph.inputs)
            data = bundle_from_onnx(graph, soc=_SOC_OF_ONNX)
            return PreparedModel(data, library, executor, given, "onnxruntime", _SOC_OF_ONNX)
        if bytes(content[: len(MAGIC)]) == MAGIC:
            return _of_bundle(bytes(content[:]), library)
        return _of_rknn(content, library)


def _of_rknn(content: Buffer, library: Library) -> PreparedModel:
    file = ModelFile(content)  # says what it is, when it is no .rknn file
    file.check_whole()
    given = file.needs(pixels=True).preprocessing
    return PreparedModel(bytes(content[:]), library, None, given, "emulator", file.header.soc)


def _of_bundle(data: bytes, library: Library) -> PreparedModel:
    bundle = read_bundle(data)
    executor = None
    if bundle.onnx:
        first = bundle.variants[0]
        executor = Executor(Graph(bundle.onnx), first.inputs, first.outputs)
    engine = "onnxruntime" if bundle.onnx else "records" if bundle.records else ""
    # What a bundle does not say is none, what a model file does not say is unknown.
    given = tuple(given or NO_PREPROCESSING for given in bundle.preprocessing)
    return PreparedModel(data, library, executor, given, engine, bundle.soc)


def _of_bytes(data: bytes, library: Library) -> PreparedModel:
    if data.startswith(MAGIC):
        return _of_bundle(data, library)
    if not data:
        raise InvalidModelError("model: expected content, got 0 bytes")
    content = memoryview(data)
    check_format(content, signatures_only=True)
    if data.startswith(b"RKNN"):
        return _of_rknn(content, library)
    raise InvalidModelError(
        "these bytes are no model: expected those of a .rknn file or of a bundle, as "
        "rknn_runtime.sim.bundle_from_onnx(...) makes them"
    )

"""What the simulated runtime loads for a model, and the executor that goes with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import InvalidModelError, RknnError
from rknn_runtime.modelfile.container import opened
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.npu.library import Library
from rknn_runtime.sim.bundle import MAGIC, read_bundle
from rknn_runtime.sim.executor import Executor, Graph, read_onnx
from rknn_runtime.sim.make import bundle_from_onnx, bundle_of

__all__ = ["PreparedModel", "prepare"]

NO_PREPROCESSING = Preprocessing((0.0,), (1.0,), rgb2bgr=False)


class PreparedModel:
    """A bundle and its executor; must live as long as the context that loads it.

    Attributes:
        data: The bundle.
        preprocessing: Mean and std of each input.
    """

    def __init__(
        self,
        data: bytes,
        library: Library,
        executor: Executor | None,
        preprocessing: Sequence[Preprocessing | None],
    ) -> None:
        self.data = data
        # What a bundle does not say is none, what a model file does not say is unknown.
        self.preprocessing = tuple(given or NO_PREPROCESSING for given in preprocessing)
        self._library = library
        self._executor = executor
        # This package syncs as a board's caches need it; other programs are not asked to.
        set_caches = ffi.cast("rknn_sim_caches_fn *", library.symbol("rknn_sim_caches"))
        set_caches(lib.RKNN_SIM_STRICT_UNLESS_SAID)

    def attach(self, context: int) -> None:
        """Register the executor with a context; nothing for a recorded bundle.

        Raises:
            RknnError: The context is not one of this library.
        """
        if self._executor is None:
            return
        address = self._library.symbol("rknn_sim_set_executor")
        set_executor = ffi.cast("rknn_sim_set_executor_fn *", address)
        status = set_executor(context, lib.rkr_sim_execute, self._executor.handle)
        if status != lib.RKNN_SUCC:
            raise RknnError(f"rknn_sim_set_executor returned {status}")

    def take_exception(self) -> BaseException | None:
        """Return what the executor raised in its last run, once."""
        return None if self._executor is None else self._executor.take_exception()


def prepare(model: str | os.PathLike[str] | bytes, library: Library) -> PreparedModel:
    """Make what the simulated runtime can load out of any model.

    A bundle is taken as it is. An ``.onnx`` file becomes an RK3588 float16 model without
    mean and std. A ``.rknn`` file needs its ONNX file beside it: of ``m_rk3588.rknn``,
    ``m_rk3588.onnx`` or ``m.onnx``.

    Args:
        model: Path of a model, or a bundle's bytes.
        library: The simulated runtime.

    Returns:
        The bundle with its executor.

    Raises:
        InvalidModelError: Not a model, or one that cannot be simulated; says what to do.
        RknnError: onnxruntime is needed and missing.
        OSError: The file cannot be read.
        TypeError: ``model`` is neither path nor bytes.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        _refuse_no_bundle(data)
        return _of_bundle(data, library)
    with opened(model) as content:
        path = Path(model)
        if bytes(content[: len(MAGIC)]) == MAGIC:
            return _of_bundle(bytes(content[:]), library)
        if path.suffix == ".onnx":
            graph = Graph(bytes(content[:]))
            executor = Executor(graph, graph.inputs, graph.outputs)
            given = (None,) * len(graph.inputs)
            return PreparedModel(bundle_from_onnx(graph), library, executor, given)
        file = ModelFile(content)  # says what it is, when it is no .rknn file
        graph = Graph(read_onnx(_onnx_beside(path)))
        info = file.info()
        executor = Executor(graph, info.inputs, info.outputs)
        return PreparedModel(bundle_of(info, graph), library, executor, info.preprocessing)


def _of_bundle(data: bytes, library: Library) -> PreparedModel:
    bundle = read_bundle(data)
    executor = None
    if bundle.onnx:
        first = bundle.variants[0]
        executor = Executor(Graph(bundle.onnx), first.inputs, first.outputs)
    return PreparedModel(data, library, executor, bundle.preprocessing)


def _refuse_no_bundle(data: bytes) -> None:
    """Say what bytes are that are no bundle."""
    if data.startswith(MAGIC):
        return
    if not data:
        raise InvalidModelError("model: expected content, got 0 bytes")
    if data.startswith(b"RKNN"):
        raise InvalidModelError(
            "the simulated NPU cannot execute the graph of a .rknn file: give the path of the "
            "model, with its ONNX file beside it, or rknn_runtime.sim.bundle_from_rknn(...)"
        )
    raise InvalidModelError(
        "these bytes are no simulation bundle: give the path of an .onnx or .rknn file, or "
        "the result of rknn_runtime.sim.bundle_from_onnx(...)"
    )


def _onnx_beside(path: Path) -> Path:
    """Find the ONNX file of a .rknn file: the same stem, or without its last word."""
    stems = [path.stem, path.stem.rpartition("_")[0]]
    candidates = [path.with_name(f"{stem}.onnx") for stem in stems if stem]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    names = " or ".join(str(candidate) for candidate in candidates)
    raise InvalidModelError(
        f"{path}: the simulated NPU cannot execute the graph of a .rknn file; it needs the "
        f"ONNX file that it was made from as {names}"
    )

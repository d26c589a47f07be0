"""Models for the simulated runtime, and a look into its emulator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import InvalidModelError, RknnError, UnavailableError
from rknn_runtime.modelfile.container import Buffer, check_format, opened
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.library import Library

# The rest is imported where it is needed: it would take longer than the rest of a load.
if TYPE_CHECKING:
    from rknn_runtime._arrays import Array
    from rknn_runtime.modelfile.info import Preprocessing
    from rknn_runtime.sim.emulator import Emulation, Machine
    from rknn_runtime.sim.inspection import Comparison
    from rknn_runtime.tensor import TensorAttr

#: Bundles of every version begin so.
_BUNDLE = b"RKNNSIM"


class PreparedModel:
    """A model for a context; `engine` is ``"emulator"`` or ``"records"``.

    It lives as long as the context; `data` is dropped when the context has loaded it.
    """

    def __init__(
        self,
        data: bytes,
        library: Library,
        preprocessing: Callable[[], Sequence[Preprocessing | None]],
        engine: str,
        soc: str,
    ) -> None:
        self.data = data
        self.engine = engine
        self.soc = soc
        self._preprocessing = preprocessing
        self._library = library
        # This package syncs as a board's caches need it; other programs are not asked to.
        set_caches = ffi.cast("rknn_sim_caches_fn *", library.symbol("rknn_sim_caches"))
        set_caches(lib.RKNN_SIM_STRICT_UNLESS_SAID)

    @property
    def preprocessing(self) -> Sequence[Preprocessing | None]:
        """Mean and std of each input, parsed now; None where they are not known."""
        return self._preprocessing()

    @contextmanager
    def machine(self, context: Context) -> Iterator[Machine]:
        """Lend the emulator of a context, locked, for the time of a ``with`` block."""
        if self.engine != "emulator":
            raise UnavailableError(
                f"the model is not emulated, but computed by {self.engine}: load the .rknn file "
                "itself"
            )
        with context.lock:
            from rknn_runtime.sim.emulator import Machine

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

    def log(self, context: Context) -> None:
        """Log the verdicts, if the program has a log: a line, and one for each uncertain node."""
        logging = sys.modules.get("logging")
        if logging is None or self.engine != "emulator":
            return
        logger = logging.getLogger("rknn_runtime")
        if logger.isEnabledFor(logging.INFO):
            with self.machine(context) as machine:
                found = machine.emulation
            logger.info("%s", found)
            for node in found.uncertain:
                text = "%s: %s %s: %s", node.verdict.name.lower(), node.op, node.name, node.reason
                logger.info(*text)

    def tensors(self, context: Context, *, dequantize: bool) -> dict[str, Array]:
        """See `LoadedModel.tensors`."""
        from rknn_runtime.sim import inspection

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
        from rknn_runtime.sim import inspection
        from rknn_runtime.sim.graph import read_onnx

        content = onnx if isinstance(onnx, bytes) else read_onnx(onnx)
        with self.machine(context) as machine:
            given = inspection.real_inputs(machine, attrs, inputs)
            return inspection.compare(machine, content, given)


def prepare(model: str | os.PathLike[str] | bytes, library: Library) -> PreparedModel:
    """Read a model for the simulated runtime, by its path or from its bytes.

    The emulator executes the commands of a ``.rknn`` file; a bundle answers from its records.
    """
    if not isinstance(model, (bytes, bytearray, memoryview)):
        with opened(model) as content:
            if bytes(content[: len(_BUNDLE)]) == _BUNDLE:
                return _of_bundle(bytes(content[:]), library)
            return _of_rknn(content, library)
    data = bytes(model)
    if data.startswith(_BUNDLE):
        return _of_bundle(data, library)
    if not data:
        raise InvalidModelError("model: expected content, got 0 bytes")
    if data.startswith(b"RKNN"):
        return _of_rknn(memoryview(data), library)
    check_format(memoryview(data), signatures_only=True)
    raise InvalidModelError(
        "these bytes are no model: expected those of a .rknn file or of a bundle, as "
        "rknn_runtime.sim.record(...) makes them"
    )


def _of_rknn(content: Buffer, library: Library) -> PreparedModel:
    check_format(content)  # says what it is, when it is no .rknn file
    data = bytes(content[:])
    file = ModelFile(data, whole=True)
    needs = file.needs()
    return PreparedModel(data, library, lambda: needs.preprocessing, "emulator", file.soc)


def _of_bundle(data: bytes, library: Library) -> PreparedModel:
    from rknn_runtime.modelfile.info import Preprocessing
    from rknn_runtime.sim.bundle import bundle_facts

    soc, preprocessing = bundle_facts(data)
    # A bundle without the field has none; a model file without it is unknown.
    none = Preprocessing((0.0,), (1.0,), rgb2bgr=False)
    given = tuple(given or none for given in preprocessing)
    return PreparedModel(data, library, lambda: given, "records", soc)

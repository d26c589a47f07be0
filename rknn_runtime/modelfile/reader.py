"""Reads a ``.rknn`` file, on any machine, as the vendor's runtime would describe it.

The format has no public description; we compared hundreds of files with the answers of the
runtimes. ``csrc/modelfile`` does the reading: it executes nothing, checks every offset, and the
size of the file bounds time and memory.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.container import (
    Buffer,
    ModelSource,
    check_status,
    open_model,
    opened,
    text_of,
)

# The rest is imported where it is needed: each load of a model imports this module.
if TYPE_CHECKING:
    from rknn_runtime.modelfile.info import (
        CalibratedRange,
        ModelHeader,
        ModelInfo,
        Preprocessing,
    )

#: Inputs and outputs over all shapes of a dynamic model, and bytes of an honest file for each.
_MAX_PORTS = 1 << 13
_LEAST_PORT_BYTES = 512


def read(model: ModelSource, *, runtime_version: str | None = None) -> ModelInfo:
    """Read the description of a model.

    Args:
        model: A path, of which only the parts are read that are needed, or the bytes of a model.
        runtime_version: Version of the vendor's library that the attributes are described
            for: ``"2.3.2"`` or ``"1.5.2"`` of librknnrt, ``"2.3.2"`` of librknnmrt. None: the
            newest of these. Native outputs and inputs differ in their sizes.

    Returns:
        The description; nothing in it refers to the file any more.

    Raises:
        InvalidModelError: It is not a readable RKNN model; the message says what it is.
        OSError: The file cannot be opened.
        ValueError: The answers of this version of the model's library are unknown.
    """
    with opened(model) as data:
        return ModelFile(data).info(runtime_version)


def read_header(model: ModelSource) -> ModelHeader:
    """Read only the facts that decide whether a runtime can load the model.

    Works for SoCs unknown to this package, too.

    Args:
        model: A path, of which only the parts are read that are needed, or the bytes of a model.

    Returns:
        The header.

    Raises:
        InvalidModelError: It is not an RKNN model; the message says what it is.
        OSError: The file cannot be opened.
    """
    with opened(model) as data:
        return ModelFile(data, whole=True).header


class Needs(NamedTuple):
    """Requirements that runtimes neither report nor check."""

    #: Bytes that the compiler set aside for each output, for one image, in the biggest
    #: shape; librknnmrt before 2.2.0 says less.
    output_bytes: tuple[int, ...]
    #: It was built for several input shapes: one must be chosen before all else.
    is_dynamic: bool
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    #: How the toolkit was called: the text of a literal; empty if the file has none.
    metadata: bytes = b""

    @property
    def preprocessing(self) -> tuple[Preprocessing | None, ...]:
        """Mean and std per input, parsed from `metadata`; None if the file has none."""
        return _preprocessing(_entry(self.metadata, "attrs"), self.input_names)


class ModelFile:
    """An opened model file, to ask it several questions.

    Args:
        data: Its content, as `opened` or `loaded` yields it; this object must not outlive that.
        whole: Also check the JSON at the end of the file and of the types, which runtimes do not.

    Attributes: the fields of `ModelHeader`.

    Raises:
        InvalidModelError: It is not an RKNN model, or cut or damaged; the message says what it is.
    """

    container: str
    container_version: int
    soc: str
    npu: str
    toolkit_version: str

    def __init__(self, data: Buffer | bytes, *, whole: bool = False) -> None:
        self._data = data
        self._needs: Needs | None = None
        with open_model(data) as model:
            self._header = _header(model)
            if whole:
                check_status(lib.rkr_check_model(model), model)
        vars(self).update(self._header)

    @property
    def runtime(self) -> str:
        """As in `ModelHeader`."""
        from rknn_runtime.modelfile.soc import runtime_of

        return runtime_of(self.container == "mini")

    @property
    def header(self) -> ModelHeader:
        """The facts that decide whether a runtime can load it, also for unknown SoCs."""
        from rknn_runtime.modelfile.info import ModelHeader

        return ModelHeader(**self._header)

    def info(self, runtime_version: str | None = None) -> ModelInfo:
        """Read the description.

        Args:
            runtime_version: Whose answers to describe, as in `read`.

        Raises:
            InvalidModelError: It is damaged, cut short, or made for a SoC unknown to this package.
            ValueError: The answers of this version of the model's library are unknown.
        """
        from rknn_runtime.modelfile.soc import known_version

        version = known_version(self.header.runtime, runtime_version)
        with open_model(self._data) as model:
            check_status(lib.rkr_check_model(model), model)
            return _info(model, self.header, version, len(self._data))

    def calibration(self) -> dict[str, CalibratedRange]:
        """Read the ranges of inputs and outputs by name, of those that the file documents.

        Raises:
            InvalidModelError: It is damaged.
        """
        found = {}
        with open_model(self._data) as model:
            table = _entry(_metadata(model), "quant_tab")
        try:
            for name, entry in table.items():
                kept = _calibrated(entry)
                if kept is not None:
                    found[str(name)] = kept
        except (AttributeError, TypeError, ValueError, OverflowError):
            return {}
        return found

    def operators(self) -> dict[str, int]:
        """Read only how often the model has which operator, also for SoCs unknown to this package.

        Raises:
            InvalidModelError: It is damaged.
        """
        with open_model(self._data) as model:
            return _operators(model)

    def needs(self) -> Needs:
        """Read only the requirements of the model, also for SoCs unknown to this package.

        Raises:
            InvalidModelError: It is damaged.
        """
        if self._needs is None:
            with open_model(self._data) as model:
                graph = read_graph(model)
                inputs, outputs = (
                    [read_tensor(model, graph, i) for i in indices_of(indices, count)]
                    for indices, count in (
                        (graph.inputs, graph.n_inputs),
                        (graph.outputs, graph.n_outputs),
                    )
                )
                self._needs = Needs(
                    tuple(tensor.reserved_bytes for tensor in outputs),
                    _description(model).graphs > 1,
                    tuple(text_of(tensor.name) for tensor in inputs),
                    tuple(text_of(tensor.name) for tensor in outputs),
                    _metadata(model),
                )
        return self._needs


def read_graph(model: Any, index: int = 0) -> Any:
    """Return the ``rkr_model_graph *`` of one shape; 0 is the biggest."""
    graph = ffi.new("rkr_model_graph *")
    check_status(lib.rkr_read_graph(model, index, graph), model)
    return graph


def read_tensor(model: Any, graph: Any, index: int) -> Any:
    """Return the ``rkr_model_tensor *`` of a graph."""
    tensor = ffi.new("rkr_model_tensor *")
    check_status(lib.rkr_read_tensor(model, graph, index, tensor), model)
    return tensor


def indices_of(vector: Any, count: int) -> tuple[int, ...]:
    """Copy indices of tensors; absent ones are 2**32 - 1."""
    return struct.unpack(f"<{count}I", ffi.buffer(vector, 4 * count))


def _header(model: Any) -> dict[str, Any]:
    header = ffi.new("rkr_model_header *")
    check_status(lib.rkr_read_header(model, header), model)
    toolkit, _, compiler = text_of(header.toolkit).partition("(")
    return {
        "container": "mini" if header.is_mini else "standard",
        "container_version": header.version,
        "soc": text_of(header.soc),
        "npu": text_of(header.npu),
        "toolkit_version": toolkit.strip(),
        "compiler_version": compiler.replace("compiler version:", "")[:-1].strip(),
        "framework": text_of(header.framework),
    }


def _description(model: Any) -> Any:
    description = ffi.new("rkr_model_description *")
    check_status(lib.rkr_read_description(model, description), model)
    return description


def _info(model: Any, header: ModelHeader, runtime_version: str, file_bytes: int) -> ModelInfo:
    from rknn_runtime.modelfile.attributes import Rules
    from rknn_runtime.modelfile.info import ModelInfo, ShapeVariant
    from rknn_runtime.modelfile.soc import SOCS

    soc = SOCS.get(header.soc)
    if soc is None:
        raise InvalidModelError(f"made for {header.soc!r}; known here are {', '.join(SOCS)}")
    said = _description(model)
    is_mini, is_dynamic = header.container == "mini", said.graphs > 1
    version = header.container_version
    rules = Rules(soc, is_mini, said.batch, is_dynamic, version, runtime_version).for_c()
    variants = []
    room = min(_MAX_PORTS, file_bytes // _LEAST_PORT_BYTES)
    for index in range(max(1, said.graphs)):
        graph = read_graph(model, index)
        room -= graph.n_inputs + graph.n_outputs
        if room < 0 or not graph.n_outputs:
            raise InvalidModelError(
                "damaged: more inputs and outputs than the file has room for, or none"
            )
        variants.append(ShapeVariant(*(_ports(model, graph, side, rules) for side in (0, 1))))
    first = variants[0]
    return ModelInfo(
        **vars(header),
        runtime_version=runtime_version,
        file_bytes=file_bytes,
        custom_string=text_of(said.custom_string),
        batch=said.batch,
        weight_bytes=said.weight_bytes,
        internal_bytes=said.scratch_bytes,
        command_bytes=said.command_bytes,
        operators=_operators(model),
        inputs=first.inputs,
        outputs=first.outputs,
        preprocessing=_preprocessing(
            _entry(_metadata(model), "attrs"), [attr.name for attr in first.inputs]
        ),
        variants=tuple(variants) if is_dynamic else (),
    )


def _ports(model: Any, graph: Any, is_output: int, rules: Any) -> tuple[Any, ...]:
    from rknn_runtime.modelfile.attributes import describe

    count = graph.n_outputs if is_output else graph.n_inputs
    tensors = ffi.new("rkr_model_tensor[]", count)
    check_status(lib.rkr_read_ports(model, graph, is_output, tensors), model)
    try:
        return tuple(
            describe(
                tensors + index, text_of(tensors[index].name), index, rules, is_input=not is_output
            )
            for index in range(count)
        )
    except InvalidModelError:
        raise
    except ValueError as error:
        raise InvalidModelError(f"damaged: {error}") from None


def _operators(model: Any) -> dict[str, int]:
    graph, node = read_graph(model), ffi.new("rkr_model_node *")
    found: dict[str, int] = {}
    for index in range(graph.n_nodes):
        check_status(lib.rkr_read_node(model, graph, index, node), model)
        op = text_of(node.op)
        found[op] = found.get(op, 0) + 1
    return dict(sorted(found.items()))


def _metadata(model: Any) -> bytes:
    """Read the metadata text; empty where it is damaged.

    The runtimes do not read that text, so a model stays valid without it.
    """
    text = ffi.new("rkr_text *")
    with suppress(InvalidModelError):
        check_status(lib.rkr_read_metadata(model, text), model)
        return bytes(ffi.buffer(text.at, text.length)) if text.length else b""
    return b""


def _entry(metadata: bytes, key: str) -> Any:
    """Parse an entry of the metadata text; an empty one where it says nothing."""
    from rknn_runtime.modelfile.literal import parse_literal

    try:
        return parse_literal(metadata)[key]
    except (KeyError, TypeError, ValueError, OverflowError):
        return {}


def _preprocessing(attributes: Any, names: Sequence[str]) -> tuple[Preprocessing | None, ...]:
    """Return mean, std and channel order per input, which the metadata text documents."""
    try:
        return tuple(_normalisation(attributes.get(name)) for name in names)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return (None,) * len(names)


def _normalisation(attributes: Any) -> Preprocessing | None:
    """Read one input's entry of the metadata text; None when it says nothing."""
    from rknn_runtime.modelfile.info import Preprocessing

    if not attributes or "mean" not in attributes or "std" not in attributes:
        return None
    return Preprocessing(
        mean=tuple(float(value) for value in attributes["mean"]),
        std=tuple(float(value) for value in attributes["std"]),
        rgb2bgr=bool(attributes.get("rgb2bgr")),
    )


def _calibrated(entry: Any) -> CalibratedRange | None:
    """Read one tensor's entry of the metadata text; None when it says no one range."""
    from rknn_runtime.modelfile.info import CalibratedRange

    keys = ("min", "max", "ori_min", "ori_max")
    if not isinstance(entry, dict) or any(len(entry.get(key) or ()) != 1 for key in keys):
        return None
    numbers = [float(entry[key][0]) for key in keys]
    return CalibratedRange(*numbers) if all(map(math.isfinite, numbers)) else None

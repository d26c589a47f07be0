"""Run one model in every way that the C API has; without `Model`, and with any runtime.

vendor_model.py compares two runtimes on the same model, binding by binding. Each binding runs in a
separate process, which a vendor's runtime may end.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.npu.library import Library, open_library

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")

SPARE_BYTES = 4096


class CallFailed(Exception):
    """A runtime refused a call; the text is the call and its status."""


@dataclass(frozen=True)
class Way:
    """How inputs come and outputs go."""

    name: str
    #: Element type and pass_through of the inputs; None: as the runtime describes them.
    input_type: TensorType | None = None
    pass_through: bool = False
    #: Of the outputs: "native", "nhwc" or "nchw", in their own type or as float32.
    view: str = "native"
    is_float: bool = False
    #: rknn_inputs_set and rknn_outputs_get.
    is_copying: bool = False
    #: Mask of the cores of a run; 0: as the runtime chooses.
    cores: int = 0


UINT8, INT8, FLOAT32 = TensorType.UINT8, TensorType.INT8, TensorType.FLOAT32
ZERO_COPY = (
    Way("uint8", UINT8),
    Way("int8", INT8),
    Way("float32", FLOAT32),
    Way("uint8 pass_through", UINT8, pass_through=True),  # of images only
    Way("own pass_through", pass_through=True),
    Way("uint8 -> nchw", UINT8, view="nchw"),
    Way("uint8 -> nhwc", UINT8, view="nhwc"),
    Way("uint8 -> nchw float32", UINT8, view="nchw", is_float=True),
    Way("uint8 -> nhwc float32", UINT8, view="nhwc", is_float=True),
)
COPYING = (
    Way("set uint8", UINT8, is_copying=True),
    Way("set int8", INT8, is_copying=True),
    Way("set float32", FLOAT32, is_copying=True),
    Way("set own pass_through", pass_through=True, is_copying=True),
    Way("set uint8 -> get float32", UINT8, is_float=True, is_copying=True),
)
#: For SoCs with so many cores.
SEVERAL_CORES = (
    Way("uint8 on two cores", UINT8, cores=lib.RKNN_NPU_CORE_0_1),
    Way("uint8 on three cores", UINT8, cores=lib.RKNN_NPU_CORE_0_1_2),
)
INPUT_QUERIES = lib.RKNN_QUERY_INPUT_ATTR, lib.RKNN_QUERY_NATIVE_INPUT_ATTR
OUTPUT_QUERIES = {
    "nchw": lib.RKNN_QUERY_OUTPUT_ATTR,
    "native": lib.RKNN_QUERY_NATIVE_OUTPUT_ATTR,
    "nhwc": lib.RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR,
}


class Client:
    """One context of a model; releases it at the end of a ``with`` block."""

    def __init__(self, library: Library, model: bytes, is_full: bool) -> None:
        self.library, self.handle, self.is_full = library, library.handle, is_full
        self.context: Any = None
        self.memories: list[Any] = []
        context = ffi.new("rknn_context *")
        self._check("rknn_init", lib.rkr_init(self.handle, context, ffi.from_buffer(model),
                                              len(model), 0, ffi.NULL))  # fmt: skip
        self.context = int(context[0])
        counts = ffi.new("rknn_input_output_num *")
        self._query(lib.RKNN_QUERY_IN_OUT_NUM, counts)
        self.n_inputs, self.n_outputs = counts.n_input, counts.n_output
        if is_full:
            self._choose_shapes()

    def _choose_shapes(self) -> None:
        """Choose the biggest of a dynamic model, without which librknnrt ends the process."""
        info = ffi.new("rknn_input_range *")
        command = lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE
        if lib.rkr_query(self.handle, self.context, command, info, ffi.sizeof(info[0])) != 0:
            return
        logical = [self.attr(INPUT_QUERIES[0], i)[0] for i in range(self.n_inputs)]
        attrs = ffi.new("rknn_tensor_attr[]", logical)
        status = lib.rkr_set_input_shapes(self.handle, self.context, len(attrs), attrs)
        self._check("rknn_set_input_shapes", status)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in self.memories:
            lib.rkr_destroy_mem(self.handle, self.context, memory)
        lib.rkr_destroy(self.handle, self.context)

    @staticmethod
    def _check(call: str, status: int) -> None:
        if status != 0:
            raise CallFailed(f"{call} {status}")

    def _query(self, command: int, info: Any) -> None:
        size = ffi.sizeof(ffi.typeof(info).item)
        status = lib.rkr_query(self.handle, self.context, command, info, size)
        self._check(f"rknn_query({command})", status)

    def attr(self, command: int, index: int) -> Any:
        attr = ffi.new("rknn_tensor_attr *", {"index": index})
        self._query(command, attr)
        return attr

    def memory(self, size: int) -> Array:
        """New memory of the runtime, as bytes."""
        out = ffi.new("rknn_tensor_mem **")
        self._check("rknn_create_mem", lib.rkr_create_mem(self.handle, self.context, size, out))
        self.memories.append(out[0])
        return np.frombuffer(ffi.buffer(out[0].virt_addr, size), np.uint8)

    def bind(self, attr: Any) -> Array:
        # Four bytes an element, also of what fills up a row; and what nobody should write.
        # librknnrt 1.5.2 describes sizes of int16 that are none.
        sizes = attr.size_with_stride, attr.size, attr.n_elems
        size = 4 * max(size for size in sizes if size < 1 << 28)
        data = self.memory(size + SPARE_BYTES)
        status = lib.rkr_set_io_mem(self.handle, self.context, self.memories[-1], attr)
        self._check("rknn_set_io_mem", status)
        return data

    def choose_cores(self, mask: int) -> None:
        self._check("rknn_set_core_mask", lib.rkr_set_core_mask(self.handle, self.context, mask))

    def run(self) -> None:
        for memory in self.memories:
            self._sync(memory, lib.RKNN_MEMORY_SYNC_TO_DEVICE)
        self._check("rknn_run", lib.rkr_run(self.handle, self.context, ffi.NULL))
        for memory in self.memories:
            self._sync(memory, lib.RKNN_MEMORY_SYNC_FROM_DEVICE)

    def _sync(self, memory: Any, mode: int) -> None:
        if self.library.has("rknn_mem_sync"):
            lib.rkr_mem_sync(self.handle, self.context, memory, mode)


def values_for(attr: Any, dtype: np.dtype[Any], seed: int) -> Array:
    """Numbers for an input, of the attribute's shape; real ones for floats."""
    shape = tuple(attr.dims[0 : attr.n_dims])
    random = np.random.default_rng(seed)
    if dtype == np.uint8:
        return random.integers(0, 256, shape, np.uint8)
    if dtype.kind == "f" and attr.type in (TensorType.INT8, TensorType.UINT8):
        stored = random.integers(-128, 128, shape)
        return ((stored - attr.zp) * np.float32(attr.scale)).astype(dtype)
    if dtype.kind == "f":
        return random.integers(-8, 9, shape).astype(dtype) / 4
    high = 128 if dtype == np.int8 else 4
    return random.integers(-128 if dtype == np.int8 else 0, high, shape).astype(dtype)


def set_inputs(client: Client, way: Way, seed: int) -> list[Callable[[], None]]:
    """Bind and fill the inputs of the zero-copy flow; return what fills them again."""
    return [_set_input(client, way, i, seed) for i in range(client.n_inputs)]


def _set_input(client: Client, way: Way, index: int, seed: int) -> Callable[[], None]:
    logical, native = (client.attr(command, index) for command in INPUT_QUERIES)
    is_pixels = native.fmt == lib.RKNN_TENSOR_NHWC and native.n_dims == 4
    own = TensorType(native.type)
    kind = own if way.input_type is None else way.input_type
    attr = native if is_pixels or (way.pass_through and way.input_type is None) else logical
    if not is_pixels and kind is UINT8 and way.pass_through:
        kind, attr = own, native
    elif not is_pixels and kind is UINT8:
        kind = FLOAT32 if client.is_full else own
        attr = logical if kind is FLOAT32 else native
    attr.type = int(kind)
    attr.pass_through = way.pass_through or (attr is native and not is_pixels)
    data = client.bind(attr)
    values = values_for(attr, kind.numpy, seed + index)
    row = attr.w_stride if attr.fmt == lib.RKNN_TENSOR_NHWC and attr.n_dims == 4 else 0

    def fill() -> None:
        place = np.frombuffer(data, values.dtype)
        if row:
            n, h, w, c = values.shape
            place[: n * h * row * c].reshape(n, h, row, c)[:, :, :w] = values
        else:
            place[: values.size] = values.ravel()

    return fill


def run_bound(client: Client, way: Way, seed: int) -> list[Array]:
    """Outputs of the zero-copy flow: as they stand in memory, and in their own order."""
    fills = set_inputs(client, way, seed)
    places = []
    for i in range(client.n_outputs):
        attr = client.attr(OUTPUT_QUERIES[way.view], i)
        if way.is_float:
            attr.type = int(FLOAT32)
        logical = client.attr(OUTPUT_QUERIES["nchw"], i)
        places.append((attr, logical, client.bind(attr)))
    for fill in fills:
        fill()
    client.run()
    return [_logical(attr, logical, data) for attr, logical, data in places]


def _logical(attr: Any, logical: Any, data: Array) -> Array:
    """The elements of an output, without padding."""
    dtype = TensorType(attr.type).numpy
    shape = tuple(attr.dims[0 : attr.n_dims])
    values = np.frombuffer(data, dtype)[: int(np.prod(shape))].reshape(shape)
    if attr.fmt != lib.RKNN_TENSOR_NC1HWC2:
        return values.copy()
    _, c, h, w = logical.dims[0:4]
    n1, c1, h1, w1, c2 = shape
    flat = values.reshape(n1, c1, h1 * w1, c2)[:, :, : h * w].transpose(0, 1, 3, 2)
    return flat.reshape(n1, c1 * c2, h * w)[:, :c].copy()


def _in_rows(attr: Any, values: Array, are_padded: bool) -> Array:
    """Pixels as the NPU has them, where they are passed through."""
    row = attr.w_stride if attr.fmt == lib.RKNN_TENSOR_NHWC and attr.n_dims == 4 else 0
    if not are_padded or row == 0:
        return np.ascontiguousarray(values)
    n, h, w, c = values.shape
    rows = np.zeros((n, h, row, c), values.dtype)
    rows[:, :, :w] = values
    return rows


def run_copying(client: Client, way: Way, seed: int) -> list[Array]:
    """Outputs of rknn_outputs_get."""
    structs, kept = ffi.new("rknn_input[]", client.n_inputs), []
    for i, struct in enumerate(structs):
        logical, native = (client.attr(command, i) for command in INPUT_QUERIES)
        own = TensorType(native.type)
        kind = own if way.input_type is None else way.input_type
        if kind is UINT8 and not (native.fmt == lib.RKNN_TENSOR_NHWC and native.n_dims == 4):
            kind = FLOAT32
        attr = native if way.pass_through else logical
        values = _in_rows(attr, values_for(attr, kind.numpy, seed + i), way.pass_through)
        kept.append(values)
        struct.index, struct.type, struct.fmt = i, int(kind), attr.fmt
        struct.buf, struct.size = ffi.from_buffer(values), values.nbytes
        struct.pass_through = way.pass_through
    handle, context = client.handle, client.context
    client._check("rknn_inputs_set", lib.rkr_inputs_set(handle, context, len(structs), structs))
    client.run()
    wanted = [{"index": i, "want_float": way.is_float} for i in range(client.n_outputs)]
    got = ffi.new("rknn_output[]", wanted)
    client._check("rknn_outputs_get", lib.rkr_outputs_get(handle, context, len(got), got, ffi.NULL))
    dtype = np.float32 if way.is_float else np.uint8
    outputs = [np.frombuffer(ffi.buffer(o.buf, o.size), dtype).copy() for o in got]
    lib.rkr_outputs_release(handle, context, len(got), got)
    return outputs


def in_child(call: Callable[[], _T]) -> _T | str:
    """Return the result of a call in a separate process, or the signal that ended it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(call(), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    if status != 0:
        raise SystemExit(1)
    result: _T = pickle.loads(answer)
    return result


def results(
    library: str | None, model: bytes, is_full: bool
) -> Iterator[tuple[Way, list[Array] | str]]:
    """The result of a runtime for each way: arrays, or the call that it refused, or its end.

    Args:
        library: The runtime; no other process of the caller has opened it.
        model: A ``.rknn`` file.
        is_full: It is one for librknnrt; librknnmrt has only the zero-copy flow.
    """

    def result(way: Way, number: int) -> list[Array] | str:
        try:
            with Client(open_library(library), model, is_full) as client:
                flow = run_copying if way.is_copying else run_bound
                return flow(client, way, number)
        except CallFailed as error:
            return str(error)

    for number, way in enumerate(ZERO_COPY + COPYING if is_full else ZERO_COPY):
        yield way, in_child(partial(result, way, number))

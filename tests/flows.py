"""Every way to use the API, as a table: how a flow opens, runs a frame, and ends.

`tests/npu/test_fault_matrix.py` and `test_misuse_matrix.py` break each of them in every way, and
`tools/soak.py` repeats each until a leak would show.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from bundles import WHOLE, changed, image, one_object, output, recorded
from custom_models import CUSTOM, CUSTOM_SOFTMAX, softmax
from paths import DATA

from rknn_runtime import (
    Classifier,
    CoreMask,
    Detector,
    Embedder,
    GeneralModel,
    InitFlag,
    InputSpec,
    Layout,
    Matmul,
    MatmulType,
    MemoryFlag,
    Model,
    OutputSpec,
    Pool,
    Segmenter,
    TensorMemory,
    TensorType,
)
from rknn_runtime.npu import raw
from rknn_runtime.rknnlite import RKNNLite
from rknn_runtime.sim import (
    Record,
    bundle_from_arrays,
    describe_input,
    describe_output,
)

__all__ = ["FLOWS", "Opened", "opened"]

#: Result of a frame, as something that can be compared.
Result = Any
FRAME = np.random.default_rng(3).integers(0, 256, (1, 8, 20, 3)).astype(np.uint8)
SCENE = np.zeros((64, 64, 3), np.uint8)
WEIGHT_BYTES = INTERNAL_BYTES = 4096
#: Larger than any input or output here.
ROOM = 8192


class Opened:
    """The open objects of a flow; `run` is one frame of it."""

    def __init__(self) -> None:
        self.run: Callable[[], Result] = tuple
        #: Memories that would be released in the midst of a frame if nobody had them.
        self.own: list[TensorMemory] = []
        #: Models, matrix products and whatever else is closed at the end.
        self.things: list[Any] = []
        self._closes: list[Callable[[], object]] = []

    def keep(self, thing: Any, close: str = "close") -> Any:
        """Close a thing at the end, the last one first."""
        self.things.append(thing)
        self._closes.append(getattr(thing, close))
        return thing

    def close(self) -> None:
        """Close all; again and again if need be. Raises the first error when all is done."""
        first: Exception | None = None
        for close in reversed(self._closes):
            try:
                close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first


FLOWS: dict[str, Callable[[Opened], Callable[[], Result]]] = {}


def flow(
    name: str,
) -> Callable[[Callable[[Opened], Callable[[], Result]]], Callable[[Opened], Callable[[], Result]]]:
    """Add a row: a function that opens a flow's objects and returns its frame."""

    def add(make: Callable[[Opened], Callable[[], Result]]) -> Any:
        FLOWS[name] = make
        return make

    return add


def opened(name: str) -> Opened:
    """Open a flow; if that fails, close its objects."""
    made = Opened()
    try:
        made.run = FLOWS[name](made)
    except BaseException:
        made.close()
        raise
    return made


@functools.lru_cache(None)
def data_of(soc: str = "rk3588", dtype: TensorType = TensorType.INT8) -> bytes:
    """A small image to two maps, with weights and internal memory; the answer to one image."""
    outputs = [output(f"map{i}", (1, 5, 4, 6), soc, i, dtype) for i in range(2)]
    case = recorded(soc, [image(soc=soc)], outputs, [FRAME])
    return changed(case.data, weight_bytes=WEIGHT_BYTES, internal_bytes=INTERNAL_BYTES)


def buffer(size: int, data: bytes = b"") -> int:
    """A descriptor of memory, which stands in for a DMA-BUF."""
    fd = os.memfd_create("frame", os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    os.pwrite(fd, data, 0)
    return fd


def from_buffer(model: Model, size: int, data: bytes = b"") -> TensorMemory:
    """A memory of the model over such a descriptor, which it closes."""
    fd = buffer(size, data)
    try:
        return TensorMemory.from_fd(model, fd, size, owned=True, mapped=False)
    except BaseException:
        os.close(fd)
        raise


def padded(model: Model) -> bytes:
    """The frame with rows as long as the NPU has them."""
    attr = model.inputs[0]
    rows = np.zeros((8, attr.w_stride or 20, 3), np.uint8)
    rows[:, :20] = FRAME[0]
    return rows.tobytes()


# A model that is loaded and run


@flow("Model rk3588")
def _model(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(data_of(), library="sim", core_mask=CoreMask.CORE_0))
    return lambda: model(FRAME)


@flow("Model rv1106")
def _mini(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(data_of("rv1106"), library="sim"))
    return lambda: model(FRAME)


@flow("Model with specs")
def _specs(made: Opened) -> Callable[[], Result]:
    array = np.ascontiguousarray(FRAME.transpose(0, 3, 1, 2))
    inputs = [InputSpec(layout=Layout.NCHW)]
    outputs = [OutputSpec(dtype=TensorType.FLOAT32), None]
    model = made.keep(Model(data_of(), library="sim", inputs=inputs, outputs=outputs))
    return lambda: model(array, only=["map1", 0])


@flow("Model of a file")
def _file(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(DATA / "models" / "ic3_w37_rv1106.rknn", library="sim"))
    array = np.zeros(model.inputs[0].shape, np.uint8)
    return lambda: model(array)


@flow("partial sync")
def _partial_sync(made: Opened) -> Callable[[], Result]:
    flags = InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE
    model = made.keep(Model(data_of(), library="sim", flags=flags))

    def run() -> Result:
        model.input_view()[...] = FRAME
        model.input_memory().sync_to_device()
        model.run()
        model.output_memory().sync_from_device()
        return model.output_f32("map0")

    return run


@flow("GeneralModel")
def _general(made: Opened) -> Callable[[], Result]:
    model = made.keep(GeneralModel(data_of(), library="sim", core_mask=CoreMask.CORE_0))
    return lambda: model.run(FRAME)


@flow("GeneralModel, raw and a subset")
def _general_raw(made: Opened) -> Callable[[], Result]:
    data = data_of(dtype=TensorType.INT16)
    model = made.keep(GeneralModel(data, library="sim"))
    return lambda: model.run(FRAME, float_outputs=False, only=["map1"])


# Memory


@flow("memory from outside")
def _from_outside(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(data_of(), library="sim"))
    frame = padded(model)
    ring = [made.keep(from_buffer(model, ROOM, frame)) for _ in range(2)]
    own = model.input_memory()

    def run() -> Result:
        for memory in ring:
            model.bind_input(0, memory, sync=False)
            model.run()
        model.bind_input(0, own)
        return model.output_f32(1)

    return run


@flow("memory that comes and goes")
def _comes_and_goes(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(data_of("rv1106"), library="sim"))
    frame, own = padded(model), model.input_memory()

    def run() -> Result:
        flags = MemoryFlag.CACHEABLE
        with TensorMemory(model, ROOM, flags=flags), TensorMemory(model, 64) as other:
            other.sync_to_device()
            fd = buffer(ROOM, frame)
            try:
                memory = TensorMemory.from_fd(model, fd, ROOM)
                try:
                    model.bind_input(0, memory)
                    model.run()
                finally:
                    model.bind_input(0, own)
                    memory.close()
            finally:
                os.close(fd)
        return model.output_f32(1)

    return run


@flow("all memory outside")
def _all_outside(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(data_of(), library="sim", flags=InitFlag.MEM_ALLOC_OUTSIDE))
    model.set_weight_memory(TensorMemory(model, WEIGHT_BYTES))
    model.set_internal_memory(TensorMemory(model, INTERNAL_BYTES))
    model.bind_input(0, TensorMemory(model, ROOM))
    for i in range(2):
        model.bind_output(i, TensorMemory(model, ROOM))
    return lambda: model(FRAME)


@flow("two models in one memory")
def _one_memory(made: Opened) -> Callable[[], Result]:
    flags = InitFlag.INTERNAL_ALLOC_OUTSIDE
    first, second = (made.keep(Model(data_of(), library="sim", flags=flags)) for _ in range(2))
    memory = TensorMemory(first, INTERNAL_BYTES)
    first.set_internal_memory(memory)
    second.set_internal_memory(memory.shared_with(second))
    return lambda: [first(FRAME), second(FRAME)]


@flow("weights shared")
def _shared(made: Opened) -> Callable[[], Result]:
    data = data_of()
    first = made.keep(Model(data, library="sim"))
    second = made.keep(GeneralModel(data, library="sim", share_weights_with=first))
    return lambda: [first(FRAME), second.run(FRAME)]


@flow("duplicates")
def _duplicates(made: Opened) -> Callable[[], Result]:
    first = made.keep(Model(data_of(), library="sim"))
    second = made.keep(first.duplicate(core_mask=CoreMask.CORE_1))
    third = made.keep(second.duplicate())
    return lambda: [each(FRAME) for each in (first, second, third)]


@flow("duplicate of a GeneralModel")
def _general_duplicate(made: Opened) -> Callable[[], Result]:
    first = made.keep(GeneralModel(data_of(), library="sim"))
    second = made.keep(first.duplicate())
    return lambda: [first.run(FRAME), second.run(FRAME)]


# Shapes, cores, questions


_DYNAMIC = DATA / "models" / "dyn_in_rk3588.rknn"
_SHAPES = [[(1, 48, 40, 3)], [(1, 32, 32, 3)]]


@flow("dynamic shapes")
def _dynamic(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(_DYNAMIC, library="sim"))

    def run() -> Result:
        results = []
        for shapes in _SHAPES:
            model.set_input_shapes(shapes)
            results += model(np.zeros(shapes[0], np.uint8))
        return results

    return run


@flow("dynamic shapes of a GeneralModel")
def _general_dynamic(made: Opened) -> Callable[[], Result]:
    model = made.keep(GeneralModel(_DYNAMIC, library="sim"))

    def run() -> Result:
        results = []
        for shapes in _SHAPES:
            model.set_input_shapes(shapes)
            results += model.run(np.zeros(shapes[0], np.uint8))
        return results

    return run


@flow("perf_detail and questions")
def _questions(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(data_of(), library="sim", flags=InitFlag.COLLECT_PERF))

    def run() -> Result:
        result = model(FRAME)
        model.set_core_mask(CoreMask.CORE_0_1)
        assert model.perf_detail().text
        assert model.last_run_us >= 0
        return [result, model.sdk_version, model.memory_size, model.custom_string]

    return run


@flow("questions of rv1106")
def _mini_questions(made: Opened) -> Callable[[], Result]:
    model = made.keep(GeneralModel(data_of(), library="sim"))
    mini = made.keep(Model(data_of("rv1106"), library="sim"))

    def run() -> Result:
        result = mini(FRAME)
        return [result, mini.device_memory(), mini.sdk_version, model.dynamic_shapes]

    return run


@flow("raw")
def _raw(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(data_of(), library="sim"))

    def run() -> Result:
        model.input_view()[...] = FRAME
        model.input_memory().sync_to_device()
        raw.run(model, timeout_ms=10_000)
        return [model.output_f32(), raw.query(model, 5)]

    return run


@flow("custom operators")
def _operators(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(CUSTOM_SOFTMAX, library="sim"))
    model.register_custom_op(CUSTOM, softmax)
    array = np.zeros(model.inputs[0].shape, np.uint8)
    return lambda: model(array)


@flow("a run without blocking")
def _flight(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(data_of(), library="sim", flags=InitFlag.FENCE_OUT_OUTSIDE))

    def run() -> Result:
        model.input_view()[...] = FRAME
        model.input_memory().sync_to_device()
        raw.start(model).wait()
        return [model.output_f32(i) for i in range(2)]

    return run


@flow("a run behind a fence")
def _fenced(made: Opened) -> Callable[[], Result]:
    flags = InitFlag.FENCE_IN_OUTSIDE
    model = made.keep(Model(data_of(), library="sim", flags=flags))

    def run() -> Result:
        model.input_view()[...] = FRAME
        model.input_memory().sync_to_device()
        ready = os.open("/dev/null", os.O_RDONLY)  # can always be read
        try:
            raw.run(model, fence_fd=ready)
        finally:
            os.close(ready)
        return [model.output_f32(i) for i in range(2)]

    return run


# Matrices


@flow("Matmul")
def _matmul(made: Opened) -> Callable[[], Result]:
    kind = MatmulType.INT8_MM_INT8_TO_INT32
    matmul = made.keep(Matmul(4, 64, 64, kind, library="sim", core_mask=CoreMask.CORE_0))
    a, b = np.ones((4, 64), np.int8), np.full((64, 64), 2, np.int8)

    def run() -> Result:
        matmul.set_scales("A", 2.0)
        matmul.write_b(b)
        return matmul(a)

    return run


@flow("Matmul of several M")
def _several_m(made: Opened) -> Callable[[], Result]:
    kind = MatmulType.INT8_MM_INT8_TO_INT32
    matmul = made.keep(Matmul((4, 8), 64, 64, kind, library="sim"))
    matmul.write_b(np.full((64, 64), 2, np.int8))

    def run() -> Result:
        results = []
        for m in (4, 8):
            matmul.set_m(m)
            results.append(matmul(np.ones((m, 64), np.int8)))
        return results

    return run


# Images, pools, doors


_SEEING = one_object()
_NAMING = bundle_from_arrays(
    [describe_input("image", (1, 3, 16, 24), zero_point=-128, scale=1 / 255)],
    [describe_output("logits", (1, 10), zero_point=0, scale=0.05)],
    [Record([np.arange(10, dtype=np.float32)[None] / 4])],
)
_SCENE = bundle_from_arrays(
    [describe_input("image", (1, 3, 16, 24), zero_point=-128, scale=1 / 255)],
    [describe_output("scores", (1, 3, 4, 6), zero_point=0, scale=0.05)],
    [Record([np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6) % 5])],
)
_NV12 = bundle_from_arrays(
    [image((1, 1, 64, 64), name="x_y_channel"), image((1, 1, 32, 64), "rk3588", "x_uv_channel", 1)],
    [describe_output("logits", (1, 10), zero_point=0, scale=0.05)],
    [Record([np.arange(10, dtype=np.float32)[None] / 4])],
    preprocessing=[WHOLE, WHOLE],
)


def _named(classes: Any) -> Result:
    return [classes.class_id, classes.confidence]


def _found(detections: Any) -> Result:
    return [detections.xyxy, detections.confidence, detections.class_id]


@flow("Detector")
def _detector(made: Opened) -> Callable[[], Result]:
    detector = Detector(made.keep(Model(_SEEING, library="sim")))
    return lambda: _found(detector(SCENE))


@flow("Detector on a memory")
def _detector_on_memory(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(_SEEING, library="sim"))
    detector, own = Detector(model), model.input_memory()
    ring = [from_buffer(model, 3 * 64 * 64) for _ in range(2)]
    return lambda: [_found(detector(memory)) for memory in (*ring, own)]


@flow("Classifier for NV12")
def _nv12(made: Opened) -> Callable[[], Result]:
    model = made.keep(Model(_NV12, library="sim"))
    classifier = Classifier(model)
    made.own = [model.input_memory(i) for i in range(2)]
    ring = [from_buffer(model, 64 * 96) for _ in range(2)]
    return lambda: [_named(classifier(memory)) for memory in ring]


@flow("Classifier")
def _classifier(made: Opened) -> Callable[[], Result]:
    classifier = Classifier(made.keep(Model(_NAMING, library="sim")))

    return lambda: _named(classifier(SCENE))


@flow("Segmenter")
def _segmenter(made: Opened) -> Callable[[], Result]:
    segmenter = Segmenter(made.keep(Model(_SCENE, library="sim")))
    return lambda: segmenter(SCENE).class_map.tolist()


@flow("Embedder")
def _embedder(made: Opened) -> Callable[[], Result]:
    embedder = Embedder(made.keep(Model(_NAMING, library="sim")))
    return lambda: embedder(SCENE).tolist()


@flow("Pool")
def _pool(made: Opened) -> Callable[[], Result]:
    pool = made.keep(Pool(_SEEING, Detector, contexts=2, library="sim"))
    return lambda: _found(pool.submit(SCENE).result())


@flow("RKNNLite")
def _lite(made: Opened) -> Callable[[], Result]:
    lite = made.keep(RKNNLite(library="sim", strict=True), "release")
    lite.load_rknn(str(DATA / "models" / "ic3_w37_rk3588.rknn"))
    lite.init_runtime()
    array = np.zeros((1, 21, 37, 3), np.uint8)
    return lambda: [*lite.inference([array]), lite.get_sdk_version()]

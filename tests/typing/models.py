"""The types of models, for a user's type checker. Checked by mypy, never run.

An assignment proves that a type fits. A line with ``type: ignore`` proves that a wrong one is
refused: mypy fails on an ignore without an error, so nothing public may be ``Any`` by accident.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime import (
    CoreMask,
    Detector,
    GeneralModel,
    InitFlag,
    InputSpec,
    Layout,
    Library,
    MemoryFlag,
    MemorySize,
    Model,
    OutputSpec,
    SdkVersion,
    TensorAttr,
    TensorMemory,
    TensorType,
    open_library,
)

Array = np.ndarray[Any, Any]


def loading(path: str, file: Path, data: bytes, entry: os.PathLike[str]) -> None:
    Model(path)
    Model(file, library="sim", check=False)
    Model(data, flags=InitFlag.PRIOR_LOW, core_mask=CoreMask.CORE_0 | CoreMask.CORE_1)
    Model(entry, library=open_library("sim"))
    model: Model = Model(path, library="sim")
    general: GeneralModel = GeneralModel(path)
    wrong: GeneralModel = Model(path)  # type: ignore[assignment]
    Model(3)  # type: ignore[arg-type]
    Model(path, core_mask="all")  # type: ignore[arg-type]
    Model(path, libary="sim")  # type: ignore[call-arg]
    with Model(path) as entered, GeneralModel(path) as copying:
        model, general = entered, copying
        wrong = entered  # type: ignore[assignment]
    print(model, general, wrong)


def flows(model: Model, general: GeneralModel, path: str, frame: Array) -> None:
    Model(path, inputs=[InputSpec(layout=Layout.NCHW), None], outputs={"y": OutputSpec()})
    Model(path, inputs={0: InputSpec()}, share_weights_with=general)
    Model(path, inputs=[OutputSpec()])  # type: ignore[list-item]
    GeneralModel(path, inputs={"x": InputSpec(dtype=TensorType.FLOAT32, pass_through=False)})
    GeneralModel(path, outputs=[None])  # type: ignore[call-arg]
    twin: Model = model.duplicate(core_mask=CoreMask.CORE_1)
    other: GeneralModel = general.duplicate()
    memory: TensorMemory = TensorMemory.from_fd(model, 3, 64, 0, owned=True, mapped=False)
    memory = TensorMemory(general, 64, flags=MemoryFlag.CACHEABLE)
    memory = TensorMemory.from_physical(model, 0x1000, 64, frame)
    with TensorMemory.from_dma_heap(model, 64, "cma") as entered:
        memory = entered.shared_with(twin)
    model.bind_input("x", memory, sync=False)
    model.bind_output(0, b"")  # type: ignore[arg-type]
    model.set_internal_memory(memory)
    shapes: tuple[tuple[tuple[int, ...], ...], ...] = model.dynamic_shapes
    other.set_input_shapes([[1, 2, 3, 4], (5,)])
    results: list[Array] = model(frame, only=["y", 0])
    print(shapes, results)


def describing(model: Model) -> None:
    attr: TensorAttr = model.inputs[0]
    shape: tuple[int, ...] = attr.shape
    layout: Layout = attr.layout
    dtype: TensorType = attr.dtype
    element: np.dtype[Any] = attr.dtype.numpy
    scale: float = attr.scale
    affine: tuple[int, float] | None = attr.affine
    stored: TensorAttr = attr.stored
    order: tuple[int, ...] = attr.nchw_shape
    sides: tuple[int, int, int] = (attr.channels, attr.height, attr.width)
    native: TensorAttr | None = attr.native
    attr.native.shape  # type: ignore[union-attr]
    attr.shape = (1,)  # type: ignore[misc]
    attr.zero_point.nothing  # type: ignore[attr-defined]
    sdk: SdkVersion = model.sdk_version
    memory: MemorySize = model.memory_size
    library: Library = model.library
    simulated: bool = library.is_simulated
    text: str = model.custom_string
    number: int = model.custom_string  # type: ignore[assignment]
    model.library = library  # type: ignore[misc]
    print(shape, layout, dtype, element, scale, native, sdk, memory, simulated, text, number)
    print(affine, stored, order, sides)


def running(model: Model, frame: Array, out: list[Array]) -> None:
    outputs: list[Array] = model(frame, out=out)
    raw: Array = model.output_raw(np.int64(0))
    real: Array = model.output_f32(0, out[0])
    view: Array = model.input_view()
    block: TensorMemory = model.output_memory(0)
    nothing: Array = model.run(frame)  # type: ignore[assignment, func-returns-value]
    model.run([[0]])  # type: ignore[arg-type]
    model("image.png")  # type: ignore[arg-type]
    model.output_raw("map")
    model.output_raw(1.0)  # type: ignore[arg-type]
    text: str = model.output_raw()  # type: ignore[assignment]
    text = model.output_f32()  # type: ignore[assignment]
    text = model.input_view()  # type: ignore[assignment]
    texts: list[str] = model(frame)  # type: ignore[assignment]
    print(outputs, raw, real, view, block, nothing, text, texts)


def copying(model: GeneralModel, frame: Array, out: list[Array | None]) -> None:
    outputs: list[Array] = model.run(frame, float_outputs=False, out=out)
    attr: TensorAttr = model.outputs[0]
    texts: list[str] = model.run(frame)  # type: ignore[assignment]
    model.run(frame, out="outputs")  # type: ignore[arg-type]
    model.run(frame, want_float=True)  # type: ignore[call-arg]
    model.output_raw(0)  # type: ignore[attr-defined]
    Detector(model)  # type: ignore[arg-type]
    print(outputs, attr, texts)

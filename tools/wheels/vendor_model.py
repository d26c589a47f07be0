"""Load and run one model on the runtime of this root; print what became of it.

    python vendor_model.py LIBRARY MODEL

LIBRARY "" is the one that the package finds. The last line on standard output is
``ok: ...``, ``refused: ...`` (the package said why before the runtime could), or there is none.
"""

from __future__ import annotations

import sys
from dataclasses import fields

import numpy as np

from rknn_runtime import GeneralModel, Model, TensorAttr
from rknn_runtime.enums import Layout
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import reader
from rknn_runtime.modelfile.soc import RUNTIME_VERSIONS


def zeros(attr: TensorAttr, view: np.ndarray) -> np.ndarray:
    """An input of a model in the form that ``run`` takes."""
    if attr.layout is Layout.NC1HWC2:
        return np.zeros(view.shape, view.dtype)
    return np.zeros(attr.shape, np.uint8 if attr.takes_pixels else np.float32)


def differences(model: Model, info: reader.ModelInfo) -> list[str]:
    """Name the fields in which the runtime's attributes differ from the file's."""
    found = []
    for asked, read in zip((*model.inputs, *model.outputs), (*info.inputs, *info.outputs)):
        for field in fields(TensorAttr):
            if getattr(asked, field.name) != getattr(read, field.name):
                found.append(f"{read.name}.{field.name}")
    return found


def run(library: str | None, path: str) -> str:
    info = reader.read(path)
    with Model(path, library=library) as model:
        version = model.sdk_version.api
        if version.split()[0] in RUNTIME_VERSIONS[info.runtime]:
            info = reader.read(path, runtime_version=version.split()[0])
        differ = differences(model, info)
        frame = [zeros(attr, model.input_view(i)) for i, attr in enumerate(model.inputs)]
        for _ in range(2):
            outputs = model(*frame)
        for output, attr in zip(outputs, model.outputs):
            assert output.shape == attr.shape, (output.shape, attr.shape)
    if info.container == "standard":
        with GeneralModel(path, library=library) as model:
            for output, attr in zip(model.run(*frame), model.outputs):
                assert output.shape == attr.shape, (output.shape, attr.shape)
    attributes = f"differ in {', '.join(differ)}" if differ else "as read from the file"
    return f"{version}; attributes {attributes}"


def main() -> None:
    library, path = sys.argv[1:]
    try:
        print(f"ok: {run(library or None, path)}")
    except InvalidModelError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()

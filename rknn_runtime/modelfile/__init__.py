"""Read ``.rknn`` files on any machine, without a runtime."""

from rknn_runtime import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.modelfile.info import ModelHeader, ModelInfo, Preprocessing, ShapeVariant
    from rknn_runtime.modelfile.layers import Layer, LayerTensor, read_layers
    from rknn_runtime.modelfile.prediction import LayerTime, Prediction, predict
    from rknn_runtime.modelfile.reader import ModelFile, Needs, read, read_header
    from rknn_runtime.modelfile.soc import SOCS, Soc, find_soc, soc_of_this_machine

__all__ = [  # for the documentation site, which imports nothing; `lazily` makes the same
    "SOCS",
    "Layer",
    "LayerTensor",
    "LayerTime",
    "ModelFile",
    "ModelHeader",
    "ModelInfo",
    "Needs",
    "Prediction",
    "Preprocessing",
    "ShapeVariant",
    "Soc",
    "find_soc",
    "predict",
    "read",
    "read_header",
    "read_layers",
    "soc_of_this_machine",
]

lazily(
    globals(),
    {
        "info": ("ModelHeader", "ModelInfo", "Preprocessing", "ShapeVariant"),
        "layers": ("Layer", "LayerTensor", "read_layers"),
        "prediction": ("LayerTime", "Prediction", "predict"),
        "reader": ("ModelFile", "Needs", "read", "read_header"),
        "soc": ("SOCS", "Soc", "find_soc", "soc_of_this_machine"),
    },
)

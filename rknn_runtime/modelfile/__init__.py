"""What a ``.rknn`` file says of itself, read on any machine, without a runtime."""

from rknn_runtime.modelfile.info import ModelHeader, ModelInfo, Needs, Preprocessing, ShapeVariant
from rknn_runtime.modelfile.reader import ModelFile, read, read_header
from rknn_runtime.modelfile.soc import SOCS, Soc, find_soc, soc_of_this_machine

__all__ = [
    "SOCS",
    "ModelFile",
    "ModelHeader",
    "ModelInfo",
    "Needs",
    "Preprocessing",
    "ShapeVariant",
    "Soc",
    "find_soc",
    "read",
    "read_header",
    "soc_of_this_machine",
]

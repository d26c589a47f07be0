"""What a ``.rknn`` file says of itself, read on any machine, without a runtime."""

from rknn_runtime._lazy import import_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.modelfile.info import (
        ModelHeader,
        ModelInfo,
        Needs,
        Preprocessing,
        ShapeVariant,
    )
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

if not TYPE_CHECKING:  # else every misspelt name would have a type
    #: Module -> the names that come from it.
    _HOMES = {
        "info": ("ModelHeader", "ModelInfo", "Needs", "Preprocessing", "ShapeVariant"),
        "reader": ("ModelFile", "read", "read_header"),
        "soc": ("SOCS", "Soc", "find_soc", "soc_of_this_machine"),
    }

    def __getattr__(name: str) -> object:
        return import_name(globals(), _HOMES, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

"""Run ``.rknn`` models on Rockchip NPUs, or on a simulated one.

`Detector`, `Classifier`, `TextReader` and others turn images into results; `Model` and
`GeneralModel` run any model; a `Pool` keeps every core of the NPU busy.
See also `rknn_runtime.errors`, `rknn_runtime.kernels` (layouts, quantization, resizing),
`rknn_runtime.modelfile` (reads model files), `rknn_runtime.vision` (heads, letterbox, drawing)
and `rknn_runtime.sim` (the simulated NPU).

Names are imported when they are first used.
"""

from __future__ import annotations

from rknn_runtime import _ffi as _ffi  # now, so that a broken installation is noticed here

TYPE_CHECKING = False  # typing's own would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any

    from rknn_runtime import errors as errors
    from rknn_runtime import kernels as kernels
    from rknn_runtime import modelfile as modelfile
    from rknn_runtime import sim as sim
    from rknn_runtime import vision as vision
    from rknn_runtime.conversion.convert import convert as convert
    from rknn_runtime.conversion.report import Conversion as Conversion
    from rknn_runtime.enums import CoreMask as CoreMask
    from rknn_runtime.enums import InitFlag as InitFlag
    from rknn_runtime.enums import Layout as Layout
    from rknn_runtime.enums import MemoryFlag as MemoryFlag
    from rknn_runtime.enums import QuantType as QuantType
    from rknn_runtime.enums import TensorType as TensorType
    from rknn_runtime.errors import RknnError as RknnError
    from rknn_runtime.npu.general import GeneralModel as GeneralModel
    from rknn_runtime.npu.library import Library as Library
    from rknn_runtime.npu.library import open_library as open_library
    from rknn_runtime.npu.matmul import Matmul as Matmul
    from rknn_runtime.npu.matmul_kinds import MatmulType as MatmulType
    from rknn_runtime.npu.matmul_kinds import MatrixLayout as MatrixLayout
    from rknn_runtime.npu.matmul_kinds import MatrixScales as MatrixScales
    from rknn_runtime.npu.memory import TensorMemory as TensorMemory
    from rknn_runtime.npu.model import Model as Model
    from rknn_runtime.npu.query import MemorySize as MemorySize
    from rknn_runtime.npu.query import SdkVersion as SdkVersion
    from rknn_runtime.npu.spec import InputSpec as InputSpec
    from rknn_runtime.npu.spec import OutputSpec as OutputSpec
    from rknn_runtime.streams.pool import Pool as Pool
    from rknn_runtime.tensor import TensorAttr as TensorAttr
    from rknn_runtime.vision.classifier import Classifier as Classifier
    from rknn_runtime.vision.detections import Detection as Detection
    from rknn_runtime.vision.detections import Detections as Detections
    from rknn_runtime.vision.detector import Detector as Detector
    from rknn_runtime.vision.embedder import Embedder as Embedder
    from rknn_runtime.vision.heads.classification import Classifications as Classifications
    from rknn_runtime.vision.letterbox import letterbox as letterbox
    from rknn_runtime.vision.pose_estimator import PoseEstimator as PoseEstimator
    from rknn_runtime.vision.scenes import Segmentation as Segmentation
    from rknn_runtime.vision.scenes import ValueMap as ValueMap
    from rknn_runtime.vision.segmenter import MapEstimator as MapEstimator
    from rknn_runtime.vision.segmenter import Segmenter as Segmenter
    from rknn_runtime.vision.text import TextDetector as TextDetector
    from rknn_runtime.vision.text import TextLine as TextLine
    from rknn_runtime.vision.text import TextLines as TextLines
    from rknn_runtime.vision.text import TextReader as TextReader
    from rknn_runtime.vision.text import TextRecognizer as TextRecognizer

#: As in pyproject.toml; reading the installed metadata would cost more than all the rest.
__version__ = "0.1.0"


def lazily(
    package: dict[str, Any], homes: dict[str, tuple[str, ...]], others: tuple[str, ...] = ()
) -> None:
    """Let a package import names when they are first used, and say in ``__all__`` which it has.

    Every module costs start-up time on a board (PEP 562).

    Args:
        package: Its ``globals()``.
        homes: Module of the package -> the names that come from it.
        others: Names in ``__all__`` that the package has already, or that are modules.
    """
    names = {name: home for home, given in homes.items() for name in given}

    def import_name(name: str) -> object:
        from importlib import import_module

        path, home = package["__name__"], names.get(name)
        if home is None and name not in homes and name not in others:
            raise AttributeError(f"module {path!r} has no attribute {name!r}")
        module = import_module(f"{path}.{home or name}")
        package[name] = module if home is None else getattr(module, name)
        return package[name]

    package["__all__"] = sorted({*names, *others})
    package["__getattr__"] = import_name
    package["__dir__"] = lambda: sorted({*package, *package["__all__"]})


lazily(
    globals(),
    {
        "enums": ("CoreMask", "InitFlag", "Layout", "MemoryFlag", "QuantType", "TensorType"),
        "conversion.convert": ("convert",),
        "conversion.report": ("Conversion",),
        "errors": ("RknnError",),
        "npu.general": ("GeneralModel",),
        "npu.library": ("Library", "open_library"),
        "npu.matmul": ("Matmul",),
        "npu.matmul_kinds": ("MatmulType", "MatrixLayout", "MatrixScales"),
        "npu.memory": ("TensorMemory",),
        "npu.model": ("Model",),
        "npu.query": ("MemorySize", "SdkVersion"),
        "npu.spec": ("InputSpec", "OutputSpec"),
        "streams.pool": ("Pool",),
        "tensor": ("TensorAttr",),
        "vision.classifier": ("Classifier",),
        "vision.detections": ("Detection", "Detections"),
        "vision.detector": ("Detector",),
        "vision.heads.classification": ("Classifications",),
        "vision.embedder": ("Embedder",),
        "vision.letterbox": ("letterbox",),
        "vision.pose_estimator": ("PoseEstimator",),
        "vision.scenes": ("Segmentation", "ValueMap"),
        "vision.segmenter": ("MapEstimator", "Segmenter"),
        "vision.text": ("TextDetector", "TextLine", "TextLines", "TextReader", "TextRecognizer"),
    },
    others=("errors", "kernels", "modelfile", "sim", "vision"),
)

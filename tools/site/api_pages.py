"""The pages of the reference, with the public names by subject.

The docstrings are read from the sources by griffe; nothing is imported.
"""

from __future__ import annotations

__all__ = ["PAGES", "page"]

#: File -> title, subject in words, and the names that mkdocstrings shows.
PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "models.md": (
        "Models",
        "Load a model, run it, read its outputs.",
        (
            "rknn_runtime.npu.model.Model",
            "rknn_runtime.npu.general.GeneralModel",
            "rknn_runtime.npu.spec.InputSpec",
            "rknn_runtime.npu.spec.OutputSpec",
            "rknn_runtime.npu.memory.TensorMemory",
            "rknn_runtime.npu.matmul.Matmul",
            "rknn_runtime.npu.library.Library",
            "rknn_runtime.npu.library.open_library",
            "rknn_runtime.npu.query.MemorySize",
            "rknn_runtime.npu.query.SdkVersion",
            "rknn_runtime.tensor.TensorAttr",
        ),
    ),
    "enums.md": (
        "Enumerations",
        "The constants of the C API.",
        (
            "rknn_runtime.enums.CoreMask",
            "rknn_runtime.enums.InitFlag",
            "rknn_runtime.enums.Layout",
            "rknn_runtime.enums.MemoryFlag",
            "rknn_runtime.enums.QuantType",
            "rknn_runtime.enums.TensorType",
            "rknn_runtime.npu.matmul_kinds.MatmulType",
            "rknn_runtime.npu.matmul_kinds.MatrixLayout",
            "rknn_runtime.npu.matmul_kinds.MatrixScales",
        ),
    ),
    "vision.md": (
        "Vision",
        "From images to objects, classes and maps.",
        (
            "rknn_runtime.vision.detector.Detector",
            "rknn_runtime.vision.detections.Detections",
            "rknn_runtime.vision.detections.Detection",
            "rknn_runtime.vision.tracking.Tracker",
            "rknn_runtime.vision.classifier.Classifier",
            "rknn_runtime.vision.heads.classification.Classifications",
            "rknn_runtime.vision.segmenter.Segmenter",
            "rknn_runtime.vision.scenes.Segmentation",
            "rknn_runtime.vision.segmenter.MapEstimator",
            "rknn_runtime.vision.scenes.ValueMap",
            "rknn_runtime.vision.text.TextReader",
            "rknn_runtime.vision.text.TextLines",
            "rknn_runtime.vision.text.TextDetector",
            "rknn_runtime.vision.text.TextRecognizer",
            "rknn_runtime.vision.text.TextLine",
            "rknn_runtime.vision.embedder.Embedder",
            "rknn_runtime.vision.pose_estimator.PoseEstimator",
            "rknn_runtime.vision.letterbox.letterbox",
            "rknn_runtime.vision.letterbox.LetterboxTransform",
            "rknn_runtime.vision.nms.nms",
        ),
    ),
    "decoders.md": (
        "Decoders",
        "From arrays to results, without a model.",
        (
            "rknn_runtime.vision.heads.find",
            "rknn_runtime.vision.heads.split.SplitDecoder",
            "rknn_runtime.vision.heads.single",
            "rknn_runtime.vision.heads.anchors",
            "rknn_runtime.vision.heads.segmentation",
            "rknn_runtime.vision.heads.pose",
            "rknn_runtime.vision.heads.oriented",
            "rknn_runtime.vision.heads.yolox.YoloxDecoder",
            "rknn_runtime.vision.heads.pair",
            "rknn_runtime.vision.heads.priors.SsdDecoder",
            "rknn_runtime.vision.heads.gfl.GflDecoder",
            "rknn_runtime.vision.heads.faces",
            "rknn_runtime.vision.heads.classification.ClassificationDecoder",
            "rknn_runtime.vision.heads.keypoints",
            "rknn_runtime.vision.heads.scene.SceneDecoder",
            "rknn_runtime.vision.heads.scene.MapDecoder",
            "rknn_runtime.vision.heads.text.TextBoxDecoder",
            "rknn_runtime.vision.heads.text.TextLineDecoder",
        ),
    ),
    "streams.md": (
        "Streams and fleets",
        "Many frames, many contexts, many boards.",
        (
            "rknn_runtime.streams.pool.Pool",
            "rknn_runtime.streams.ordered.Results",
            "rknn_runtime.streams.stats",
            "rknn_runtime.streams.source.FrameSource",
            "rknn_runtime.streams.source.Frame",
            "rknn_runtime.streams.dask",
        ),
    ),
    "kernels.md": (
        "Kernels",
        "Layouts, quantization and resizing by themselves, in C.",
        (
            "rknn_runtime.kernels.layout",
            "rknn_runtime.kernels.elements.Nc1hwc2Layout",
            "rknn_runtime.kernels.quantization",
            "rknn_runtime.kernels.matrices",
            "rknn_runtime.kernels.resize",
        ),
    ),
    "files.md": (
        "Files and conversion",
        "What a file says of itself, how one is made, and whether it is healthy.",
        (
            "rknn_runtime.conversion.convert.convert",
            "rknn_runtime.conversion.report.Conversion",
            "rknn_runtime.modelfile",
            "rknn_runtime.conversion.health",
            "rknn_runtime.conversion.readings",
            "rknn_runtime.conversion.accuracy",
            "rknn_runtime.conversion.analysis.analyse",
        ),
    ),
    "tools.md": (
        "Tools",
        "The doctor, measurements, the live view, and questions to a board.",
        (
            "rknn_runtime.tools.doctor.doctor",
            "rknn_runtime.tools.doctor.Diagnosis",
            "rknn_runtime.tools.doctor.rules.Observation",
            "rknn_runtime.tools.doctor.facts.Surroundings",
            "rknn_runtime.tools.bench",
            "rknn_runtime.tools.serve",
            "rknn_runtime.tools.verify",
        ),
    ),
    "sklearn.md": (
        "scikit-learn",
        "Perceptrons on the NPU.",
        ("rknn_runtime.sklearn.models", "rknn_runtime.sklearn.conversion"),
    ),
    "simulation.md": ("The simulated NPU", "For tests and programs.", ("rknn_runtime.sim",)),
    "raw.md": ("One call at a time", "What no class covers.", ("rknn_runtime.npu.raw",)),
    "rknnlite.md": ("RKNNLite", "For scripts of the vendor's.", ("rknn_runtime.rknnlite",)),
}


def page(title: str, about: str, shown: tuple[str, ...]) -> str:
    """The Markdown of one page, with a directive of mkdocstrings for each name."""
    return "\n\n".join([f"# {title}", about, *(f"::: {name}" for name in shown)]) + "\n"

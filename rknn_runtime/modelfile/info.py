"""The description of a model, independent of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rknn_runtime._files import html_table
from rknn_runtime.modelfile.soc import runtime_of
from rknn_runtime.tensor import TensorAttr, ports_html


@dataclass(frozen=True)
class ModelHeader:
    """Facts that decide whether a runtime can load the model."""

    #: ``"standard"`` or ``"mini"``.
    container: str
    container_version: int
    #: Target as the toolkit was told: ``"rk3588"``.
    soc: str
    #: NPU generation, for example ``"RKNPU v2"``.
    npu: str
    #: ``"2.3.2"``.
    toolkit_version: str
    #: Version, commit and date; empty if the file lacks them.
    compiler_version: str
    #: Where the network came from: ``"ONNX"``, ``"TFLITE"``, ``"PYTORCH"``.
    framework: str

    @property
    def runtime(self) -> str:
        """The vendor's library that reads the container: ``librknnrt`` or ``librknnmrt``."""
        return runtime_of(self.container == "mini")


@dataclass(frozen=True)
class Preprocessing:
    """Normalisation of the values of an input: ``(value - mean) / std``.

    The NPU does it to pixels, `Model` to the float32 of other inputs, librknnrt to what
    `GeneralModel` hands it.
    """

    #: One value, or one per channel, in the unit of the input (0 to 255 for images).
    mean: tuple[float, ...]
    std: tuple[float, ...]
    #: The toolkit was told to swap channels 0 and 2 of calibration images.
    rgb2bgr: bool


@dataclass(frozen=True)
class CalibratedRange:
    """The range of a tensor that the toolkit's quantization covers, as the file documents it."""

    lowest: float
    highest: float
    #: Range of the calibration data, before the algorithm cut it.
    measured_lowest: float
    measured_highest: float


@dataclass(frozen=True)
class ShapeVariant:
    """The inputs and outputs of a dynamic model in one of its input shapes."""

    inputs: tuple[TensorAttr, ...]
    outputs: tuple[TensorAttr, ...]


@dataclass(frozen=True)
class ModelInfo(ModelHeader):
    """The whole description of a model."""

    #: Version of `runtime` whose answers the attributes are.
    runtime_version: str
    file_bytes: int
    #: What ``rknn.config(custom_string=...)`` was given; empty when nothing.
    custom_string: str
    #: Images per run as built into the model; every shape and size includes it.
    batch: int
    #: All shapes of a dynamic model together.
    weight_bytes: int
    #: Scratch memory of one context, without weights, inputs and outputs.
    internal_bytes: int
    #: Commands for the NPU, which the runtime also keeps in NPU memory; 0 for a standard
    #: container, which has no such sum.
    command_bytes: int
    #: Count of nodes by operator type.
    operators: Mapping[str, int]
    #: Logical attributes with their ``native`` and ``nhwc`` views.
    inputs: tuple[TensorAttr, ...]
    outputs: tuple[TensorAttr, ...]
    #: One per input; None if the file has none.
    preprocessing: tuple[Preprocessing | None, ...]
    #: One per input shape of a dynamic model, biggest first; empty for a static model.
    variants: tuple[ShapeVariant, ...]

    def _repr_html_(self) -> str:
        facts = [
            ("SoC", self.soc),
            ("toolkit", self.toolkit_version),
            ("weights", f"{self.weight_bytes:,} bytes"),
            ("operators", ", ".join(f"{n} {op}" for op, n in self.operators.items())),
        ]
        return html_table((), facts) + ports_html(self.inputs, self.outputs)

    @property
    def dynamic_shapes(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Shapes of each input of a dynamic model, biggest first; empty for a static one."""
        return {
            attr.name: tuple(variant.inputs[attr.index].shape for variant in self.variants)
            for attr in (self.inputs if self.variants else ())
        }

"""Find and read text in images."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray
from rknn_runtime._files import printable
from rknn_runtime.npu.context import Closing
from rknn_runtime.npu.model import Model
from rknn_runtime.vision.classifier import Classifier
from rknn_runtime.vision.detections import Detections, _quoted
from rknn_runtime.vision.heads.outputs import describe
from rknn_runtime.vision.heads.text import TextBoxDecoder, TextLineDecoder
from rknn_runtime.vision.image_model import ImageModel
from rknn_runtime.vision.images import as_pixels
from rknn_runtime.vision.labels import read_characters, refuse_labels
from rknn_runtime.vision.letterbox import LINE_PAD, placed
from rknn_runtime.vision.nms import as_threshold

#: The smallest confidence to turn a line by 180 degrees, as in PaddleOCR.
_SURE = 0.9


class TextLine(NamedTuple):
    """The text of one line."""

    text: str
    #: 0..1, the mean of its characters' probabilities; 0 for no text.
    confidence: float

    def to_dict(self, labels: object = None) -> dict[str, Any]:
        """Return ``text`` and ``confidence``."""
        return {"text": self.text, "confidence": self.confidence}

    def to_csv(self, labels: object = None, *, header: bool = True) -> str:
        """Return a table with one line: ``text``, ``confidence``."""
        return "text,confidence\n" * header + f"{_quoted(self.text)},{self.confidence}\n"

    def draw(self, image: Any, labels: object = None, **options: Any) -> Any:
        """Write the text into a corner of a copy of an image; see `Classifications.draw`."""
        from rknn_runtime.vision.drawing import draw_captions

        return draw_captions(image, [(self.text, f"{self.confidence:.0%}")], **options)

    def _lines(self, labels: object) -> list[str]:
        return [printable(f"{self.text}  {self.confidence:.1%}")]


class TextDetector(ImageModel):
    """Find text in images: DB heads, such as PP-OCR's.

    Results are `Detections` with the corners of turned boxes, `Detections.xyxyxyxy`, from the upper
    left one clockwise as the text is read; `Detections.crop_turned` cuts them out upright. Threads
    and the model's life time are as for `Detector`.

    Args:
        model: A loaded model with one image input and a map of probabilities as output.
        labels: None: there are none.
        output: Index or name of the output, if there are several.
        threshold: The lowest probability of a cell with text.
        box_threshold: The smallest score of a box that counts.
        unclip_ratio: How much boxes grow; see `TextBoxDecoder`.
        input_color: Channel order that the model was converted for; see `Detector`.
        pad_value: 0..255 around the image.
        stretch: Fill the model's input and ignore proportions.
        **options: Further options of `rknn_runtime.vision.heads.text.TextBoxDecoder`.
    """

    _tasks: ClassVar[tuple[str, ...]] = ("text-detection",)

    def __init__(
        self,
        model: Model,
        labels: None = None,
        *,
        output: int | str | None = None,
        threshold: float = 0.3,
        box_threshold: float = 0.6,
        unclip_ratio: float = 1.5,
        input_color: str | None = None,
        pad_value: int = 114,
        stretch: bool = False,
        **options: Any,
    ) -> None:
        refuse_labels(labels)
        super().__init__(model, None, input_color)
        self.labels = ["text"]
        options = {**options, "output": output, "unclip_ratio": unclip_ratio}
        self.decoder = TextBoxDecoder(
            model.outputs, self.input_size, threshold=threshold, box_threshold=box_threshold,
            **options,
        )  # fmt: skip
        self._settle(pad_value=pad_value, stretch=stretch)
        self._made_with = {
            **options, "input_color": input_color, "pad_value": pad_value, "stretch": stretch
        }  # fmt: skip

    def _twin(self, model: Model) -> TextDetector:
        decoder = self.decoder
        return type(self)(
            model, threshold=decoder.threshold, box_threshold=decoder.box_threshold,
            **self._made_with,
        )  # fmt: skip

    def __call__(
        self, image: Any, *, color: str = "RGB", matrix: str = "bt601", full_range: bool = False
    ) -> Detections:
        """Find the text in one image; arguments and exceptions as for `Detector`.

        Returns:
            Boxes by falling score, in pixels of the image.
        """
        found: Detections = self._run(image, color, matrix, full_range)
        return found


class TextRecognizer(ImageModel):
    """Read one line of text: CTC heads, such as PP-OCR's, CRNN and LPRNet.

    The image is the line, upright. It is scaled to the height of the input, and the rest of the
    input to its right is filled, as PaddleOCR does; lines that are longer than the input are made
    narrower. Threads and the model's life time are as for `Detector`.

    Args:
        model: A loaded model with one image input, and scores of characters as output.
        characters: The text of each class in order, as for
            `rknn_runtime.vision.heads.text.TextLineDecoder`; or a ``.txt`` file with one per line,
            such as PaddleOCR's ``ppocr_keys_v1.txt``. None: those in the model's custom string, if
            it is JSON with ``"characters"`` (a text) or ``"labels"``.
        blank: ``"first"`` or ``"last"``; see `TextLineDecoder`.
        softmax: Whether scores are logits. None: see `ClassificationDecoder`.
        beam: How many texts to follow; see `TextLineDecoder`.
        input_color: Channel order that the model was converted for; see `Detector`.
        pad_value: 0..255 beside the line.
        stretch: Fill the model's input and ignore proportions, as LPRNet's examples do.

    Attributes:
        characters: The text of each class, ``""`` for the blank.

    Raises:
        OSError: The file of characters cannot be read.
        TypeError: `model` is not a `Model`, or `characters` no sequence of texts.
        ValueError: The model does not have one image input and such an output, or the characters
            do not fit it or are not known.
    """

    _tasks: ClassVar[tuple[str, ...]] = ("text-recognition",)

    def __init__(
        self,
        model: Model,
        characters: Sequence[str] | str | os.PathLike[str] | None = None,
        *,
        blank: str | None = None,
        softmax: bool | None = None,
        beam: int = 1,
        input_color: str | None = None,
        pad_value: int = LINE_PAD,
        stretch: bool = False,
    ) -> None:
        super().__init__(model, None, input_color)
        given = self._facts.get("characters", self.labels) if characters is None else characters
        if given is None:
            raise ValueError(
                "characters: expected the text of each class, or a .txt file with one per line, as "
                "the model does not have them, got None"
            )
        if isinstance(given, (str, os.PathLike)) and characters is not None:
            given = read_characters(given)
        if not isinstance(given, (Sequence, str)):
            raise TypeError(f"characters: expected a sequence, got {type(given).__name__}")
        if len(model.outputs) != 1:
            raise ValueError(f"expected a model with one output, got\n{describe(model.outputs)}")
        self.labels = None
        self.decoder = TextLineDecoder(
            model.outputs[0], list(given), blank=blank, softmax=softmax, beam=beam
        )
        self.characters: tuple[str, ...] = self.decoder.characters
        self._gives = f" of {len(self.characters) - 1} characters"
        self._settle(pad_value=pad_value, fit="stretch" if stretch else "line")
        self._made_with = {
            "characters": list(given), "blank": blank, "softmax": softmax, "beam": beam,
            "input_color": input_color, "pad_value": pad_value, "stretch": stretch,
        }  # fmt: skip

    def __call__(
        self, image: Any, *, color: str = "RGB", matrix: str = "bt601", full_range: bool = False
    ) -> TextLine:
        """Read one line; arguments and exceptions as for a call of `Detector`."""
        return TextLine(*self._run(image, color, matrix, full_range))


@dataclass(frozen=True, eq=False, repr=False)
class TextLines:
    """The lines of text in one image, from top to bottom and left to right.

    ``len(t)`` is the number of lines; iterating yields `TextLine`.
    """

    lines: tuple[TextLine, ...]
    #: Where they are, and how certain it is that there is text.
    detections: Detections

    def __post_init__(self) -> None:
        """Check the numbers."""
        if len(self.lines) != len(self.detections):
            raise ValueError(
                f"lines: expected {len(self.detections)}, as there are detections, got "
                f"{len(self.lines)}"
            )

    def __eq__(self, other: object) -> bool:
        """Compare lines and places."""
        if not isinstance(other, TextLines):
            return NotImplemented
        return self.lines == other.lines and self.detections == other.detections

    __hash__ = None  # type: ignore[assignment]

    @property
    def text(self) -> str:
        """All lines, each followed by a line break but the last."""
        return "\n".join([line.text for line in self.lines])

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[TextLine]:
        return iter(self.lines)

    def __repr__(self) -> str:
        return f"<TextLines of {len(self)} lines>"

    def __str__(self) -> str:
        return printable(self.text.replace("\n", " | "))

    def _lines(self, labels: object) -> list[str]:
        return [line for each in self.lines for line in each._lines(labels)]

    def draw(self, image: Any, labels: object = None, **options: Any) -> Any:
        """Draw the boxes with their text on a copy of an image.

        Args:
            image: As for `Detections.draw`.
            labels: Not used.
            **options: As for `Detections.draw`.
        """
        captions = [line.text for line in self.lines]
        return self.detections.draw(image, captions=captions, **options)

    def to_dict(self, labels: object = None) -> dict[str, Any]:
        """Return ``{"lines": [...]}``: ``text``, ``confidence`` and ``xyxyxyxy`` of each."""
        corners = self.detections.xyxyxyxy
        places = self.detections.xyxy if corners is None else corners
        name = "xyxy" if corners is None else "xyxyxyxy"
        rows = [
            {**line.to_dict(), name: place}
            for line, place in zip(self.lines, places.astype(float).round(2).tolist())
        ]
        return {"lines": rows}

    def to_csv(self, labels: object = None, *, header: bool = True) -> str:
        """Return one line per line: ``text``, ``confidence``, then the place in pixels."""
        corners = self.detections.xyxyxyxy
        titles = ["left", "top", "right", "bottom"]
        places = self.detections.xyxy
        if corners is not None:
            places = corners.reshape(-1, 8)
            titles = [f"{axis}{corner}" for corner in range(1, 5) for axis in "xy"]
        rows = [",".join(["text", "confidence", *titles])] * header
        for line, place in zip(self.lines, places.astype(float).round(2).tolist()):
            rows.append(",".join([_quoted(line.text), str(line.confidence), *map(str, place)]))
        return "".join(f"{row}\n" for row in rows)


class TextReader(Closing):
    """Find and read the text in images: a `TextDetector`, whose boxes a `TextRecognizer` reads.

    Boxes are cut out upright; those that are half as high again as wide are turned by a quarter, as
    PaddleOCR does for text that runs downwards.

    Args:
        detector: Finds the lines.
        recognizer: Reads them.
        direction: A classifier of upside-down lines (class 1), such as PP-OCR's: if it is surer
            than 0.9, the line is turned before it is read.
        conf_threshold: Lines below this confidence, and empty ones, are dropped.
    """

    def __init__(
        self,
        detector: TextDetector,
        recognizer: TextRecognizer,
        direction: Classifier | None = None,
        *,
        conf_threshold: float = 0.5,
    ) -> None:
        if not isinstance(detector, TextDetector):
            raise TypeError(f"detector: expected a TextDetector, got {type(detector).__name__}")
        if not isinstance(recognizer, TextRecognizer):
            raise TypeError(
                f"recognizer: expected a TextRecognizer, got {type(recognizer).__name__}"
            )
        if direction is not None and not isinstance(direction, Classifier):
            raise TypeError(f"direction: expected a Classifier, got {type(direction).__name__}")
        if direction is not None and direction.decoder.num_classes != 2:
            raise ValueError(
                "direction: expected 2 classes, upright and turned round, got "
                f"{direction.decoder.num_classes}"
            )
        self.detector, self.recognizer, self.direction = detector, recognizer, direction
        self.conf_threshold = as_threshold(conf_threshold, "conf_threshold", 1)
        #: As of other tasks; texts have no classes.
        self.labels = None

    @classmethod
    def open(
        cls,
        detector: str | os.PathLike[str],
        recognizer: str | os.PathLike[str],
        characters: Sequence[str] | str | os.PathLike[str] | None = None,
        *,
        library: Any = None,
        conf_threshold: float = 0.5,
    ) -> TextReader:
        """Load both models; `close` or the end of a ``with`` block closes them.

        Args:
            detector: The model of the `TextDetector`.
            recognizer: The model of the `TextRecognizer`.
            characters: As for `TextRecognizer`.
            library: As for `Model`.
            conf_threshold: As for the class.

        Raises:
            OSError: A file cannot be read.
            RknnError: A model cannot be loaded; see `Model`.
            ValueError: A model does not do its task; see the classes.
        """
        first = TextDetector.open(detector, library=library)
        try:
            second = TextRecognizer.open(recognizer, characters, library=library)
            return cls(first, second, conf_threshold=conf_threshold)
        except BaseException:
            first.close()
            raise

    def close(self) -> None:
        """Close the models that `open` loaded."""
        self.detector.close()
        self.recognizer.close()

    def __repr__(self) -> str:
        return f"<TextReader of {self.detector!r} and {self.recognizer!r}>"

    def __call__(self, image: Any, *, color: str = "RGB") -> TextLines:
        """Read the text in one image.

        Args:
            image: An array ``(H, W)`` or ``(H, W, 1, 3 or 4)`` of uint8, a Pillow image or a file's
                path.
            color: Channel order of an array, ``"RGB"`` or ``"BGR"``.

        Returns:
            The lines in reading order.

        Raises:
            Exception: As for a call of `Detector`.
        """
        pixels, color = as_pixels(image, color)
        found = self.detector(pixels, color=color)
        found = found[reading_order(found.xyxy)]
        crops = found.crop_turned(pixels)
        if self.direction is not None:
            crops = [self._upright(crop, self.direction, color) for crop in crops]
        lines = [self.recognizer(crop, color=color) for crop in crops]
        kept = [
            i
            for i, line in enumerate(lines)
            if line.text.strip() and line.confidence >= self.conf_threshold
        ]
        return TextLines(tuple(lines[i] for i in kept), found[np.array(kept, np.intp)])

    def _upright(
        self, crop: NDArray[np.uint8], direction: Classifier, color: str
    ) -> NDArray[np.uint8]:
        """Turn a line round if it stands on its head."""
        # As PaddleOCR shows it to the classifier: in the input's size, so that nothing is scaled.
        found = direction(placed(crop, direction.input_size, "RGB", "line", color)[0])
        is_turned = found.class_id[0] == 1 and found.confidence[0] > _SURE
        return np.ascontiguousarray(crop[::-1, ::-1]) if is_turned else crop


def reading_order(xyxy: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return boxes from top to bottom, and from left to right within a row.

    A box belongs to a row if the middles of it and of the row's first box are apart by less than
    half the height of the lower one.
    """
    middles, heights = xyxy[:, [1, 3]].mean(axis=1), xyxy[:, 3] - xyxy[:, 1]
    rows: list[list[int]] = []
    for i in np.argsort(middles, kind="stable").tolist():
        first = rows[-1][0] if rows else i
        is_near = middles[i] - middles[first] < min(heights[i], heights[first]) / 2
        if rows and is_near:
            rows[-1].append(i)
        else:
            rows.append([i])
    ordered = [i for row in rows for i in sorted(row, key=lambda i: float(xyxy[i, 0]))]
    return np.array(ordered, np.intp)

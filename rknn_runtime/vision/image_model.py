"""A model with one image input: the base of `Detector`, `Classifier` and the other tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from rknn_runtime._arrays import NDArray
from rknn_runtime._ffi import ffi
from rknn_runtime.kernels.yuv import FORMATS, YuvFrame, check_yuv_options
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.npu.context import Closing
from rknn_runtime.npu.memory import TensorMemory
from rknn_runtime.npu.model import Model
from rknn_runtime.vision.images import COLORS, Scaled, as_pixels, as_scaled
from rknn_runtime.vision.labels import read_labels
from rknn_runtime.vision.letterbox import ImageWriter, LetterboxTransform, transform_for

if TYPE_CHECKING:
    from rknn_runtime.enums import CoreMask
    from rknn_runtime.npu.library import Library
    from rknn_runtime.streams.ordered import Results
    from rknn_runtime.vision.labels import Labels
    from rknn_runtime.vision.nv12 import Nv12Input

_M = TypeVar("_M", bound="ImageModel")
#: A set answers sooner than a tuple.
_CAMERAS = frozenset(FORMATS)
#: Width by height of camera frames.
_CAMERA_SHAPES = (4 / 3, 16 / 9)
_NULL, _from_buffer = ffi.NULL, ffi.from_buffer


class ImageModel(Closing):
    """A loaded model with one image input, which is bound once.

    An image goes from its array to the results under the model's lock. Only addresses of the
    model's memory are kept, and used while the lock is held and the model is open: so the model
    can be closed at any other time. For the arguments see `Detector`.
    """

    #: Tasks of Ultralytics that this class does.
    _tasks: ClassVar[tuple[str, ...]] = ()
    #: Reads the outputs; a subclass makes it and then calls `_settle`.
    decoder: Any
    #: What it gives, in words.
    _gives = ""
    #: The options that it was made with.
    _made_with: dict[str, Any]
    #: The model that `open` loaded and `close` closes.
    _opened: Model | None = None

    def __init__(
        self,
        model: Model,
        labels: Labels | str | os.PathLike[str] | None,
        input_color: str | None,
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model: expected a Model, got {type(model).__name__}")
        if isinstance(labels, (str, os.PathLike)):
            labels = read_labels(labels)
        if labels is not None and (
            isinstance(labels, bytes) or not isinstance(labels, (Sequence, Mapping))
        ):
            raise TypeError(
                f"labels: expected a sequence of names or a mapping, got {type(labels).__name__}"
            )
        if input_color not in (None, "RGB", "BGR"):
            raise ValueError(f'input_color: expected "RGB" or "BGR", got {input_color!r}')
        self.model = model
        self._facts = facts_of(model.custom_string)
        self.labels: Labels | None = self._facts.get("labels") if labels is None else labels
        self._nv12: Nv12Input | None = None
        if len(model.inputs) == 2:
            # Programs whose model has one input do not load it.
            from rknn_runtime.vision.nv12 import nv12_input

            self._nv12 = nv12_input(model)
        if self._nv12 is not None:
            if input_color is not None:
                raise ValueError(
                    f"input_color: expected None, as the model was converted for NV12, got "
                    f"{input_color!r}"
                )
            self.input_size, self.input_color = self._nv12.size, "NV12"
        else:
            self.input_size, channels = _image_size(model)
            self.input_color = input_color or self._facts.get("color") or calibrated_for(model)
            if channels == 1:
                self.input_color = "GRAY"
        self._frame = model._frame
        self._forms = _forms(model)

    def __repr__(self) -> str:
        height, width = self.input_size
        kind = type(self).__name__
        return f"<{kind}{self._gives}, {width}x{height} pixels, {self.model!r}>"

    @classmethod
    def open(
        cls: type[_M],
        path: str | os.PathLike[str],
        labels: Labels | str | os.PathLike[str] | None = None,
        *,
        library: str | os.PathLike[str] | Library | None = None,
        core_mask: CoreMask | None = None,
        **options: Any,
    ) -> _M:
        """Load a model and wrap it; `close` or the end of a ``with`` block closes the model.

        Args:
            path: A model as for `Model`, or the folder that Ultralytics' export to RKNN writes,
                ``best_rknn_model``: its ``metadata.yaml`` gives labels, task and size (needs
                PyYAML: ``pip install PyYAML``).
            labels: Used instead of those in the file or the folder.
            library: The runtime library; see `rknn_runtime.open_library`.
            core_mask: NPU cores to run on; None leaves the choice to the runtime.
            **options: As for the class.

        Raises:
            ImportError: PyYAML is needed and not installed.
            OSError: A file cannot be read.
            RknnError: The model cannot be loaded; see `Model`.
            ValueError: The folder has no ``.rknn`` file or several, or its metadata names another
                task or size than the model's; or see the class.
        """
        from rknn_runtime.vision.export_folder import read_export_folder

        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path: expected a path, got {type(path).__name__}")
        folder = read_export_folder(path) if os.path.isdir(path) else None  # noqa: PTH112
        if folder is not None and folder.task not in cls._tasks:
            raise ValueError(
                f"{os.fsdecode(path)}: expected the task {' or '.join(cls._tasks)} for a "
                f"{cls.__name__}, got {folder.task!r}"
            )
        model = Model(
            path if folder is None else folder.model, library=library, core_mask=core_mask
        )
        try:
            if folder is None:
                made = cls(model, labels, **options)
            else:
                given = folder.labels if labels is None else labels
                made = cls._of_task(folder.task, model, given, options)
                if folder.image_size not in (None, made.input_size):
                    raise ValueError(
                        f"{os.fsdecode(path)}: expected imgsz {folder.image_size}, got a model of "
                        f"{made.input_size}: the two are of different exports"
                    )
        except BaseException:
            model.close()
            raise
        made._opened = model
        return made

    @classmethod
    def _of_task(cls: type[_M], task: str, model: Model, labels: Any, options: Any) -> _M:
        """Make one for a model of a task of Ultralytics."""
        return cls(model, labels, **options)

    def close(self) -> None:
        """Close the model if `open` loaded it; a model that was passed in stays open.

        Raises:
            BufferError: An array that views its memory is alive; nothing was released.
            RknnStatusError: The runtime refused; the model is closed nevertheless.
            RuntimeError: Called in the middle of another call, as by a signal handler.
        """
        if self._opened is not None:
            self._opened.close()

    def stream(
        self,
        source: str | os.PathLike[str] | int,
        *,
        drop: str | None = "auto",
        reconnect_s: float = 60.0,
        **options: Any,
    ) -> Results:
        """Run on every image of a folder, a video, a camera or a network stream, on all cores.

        A `Pool` of duplicates of the model does it, with the options that this object has now.
        It ends when the iterator is exhausted or closed. Make your own `Pool` to choose cores and
        contexts or to see `stats`.

        Args:
            source: See `rknn_runtime.streams.FrameSource`.
            drop: As in `Pool.map`; ``"auto"`` is ``"oldest"`` for cameras and network streams and
                None for files.
            reconnect_s: How long to try to reopen a camera or stream after it broke off.
            **options: For each call.

        Returns:
            An iterator over ``(frame, result)`` in order; ``frame`` is a `Frame` with the image,
            its place in the source and its time. Close the iterator, or use it in a ``with``
            block, when you leave a loop early.

        Raises:
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            ImportError: OpenCV or Pillow is missing.
            OSError: The source cannot be opened.
            ValueError: `drop` is not known, or a folder has no images.
        """
        # Streams know this module. This is the only import in the other direction.
        from rknn_runtime.streams.pool import Pool

        pool = Pool(self.model, self._twin)
        try:
            results = pool.stream(source, drop=drop, reconnect_s=reconnect_s, **options)
        except BaseException:
            pool.close()
            raise
        return results.ending_with(pool.close)

    def _twin(self: _M, model: Model) -> _M:
        """Make the same object for another context of its model."""
        return type(self)(model, **self._made_with)

    def _settle(
        self, *, pad_value: Any = 114, stretch: bool = False, fit: str | None = None
    ) -> None:
        """Bind to the model's memory, once, when there is a decoder; see `ImageWriter`."""
        self._options = {
            "pad_value": pad_value, "fit": fit or ("stretch" if stretch else "center")
        }  # fmt: skip
        context = self._frame.context
        with context.lock:
            context.check_open()
            self._settle_outputs()
            self._state: object = None
            if self._nv12 is None and self._frame.inputs[0].is_seen:
                self._settle_input()

    def _settle_outputs(self) -> None:
        """Bind to the outputs, and again after the caller bound others."""
        self._frame.context.check_chosen()
        if self._forms != _forms(self.model):
            raise RuntimeError(
                f"the model's shapes were changed after this {type(self).__name__} was made for "
                f"{self.input_size}: make another one"
            )
        outputs = [binding.private() for binding in self._frame.outputs]
        self.decoder.settle(outputs, self._frame.context.exclusive)
        self._output_state = self._frame.output_state

    def _settle_input(self) -> None:
        """Bind to the input, and again after the caller bound another one."""
        if self._frame.output_state is not self._output_state:
            self._settle_outputs()
        frame = self._frame.inputs[0].private()
        self._writer = ImageWriter(frame, self.input_color, **self._options)
        self._state = self._frame.state

    def _run_written(self, transform: LetterboxTransform) -> Any:
        """Run on the content of the input and decode the outputs; the lock is held."""
        native = self.decoder.settled()
        self._frame.run_frame(_NULL, _NULL, native, transform._placement)
        return self.decoder.results(transform)

    def _run_as_is(
        self, memories: Sequence[TensorMemory], planes: Sequence[NDArray[np.uint8]] = ()
    ) -> Any:
        """Run on memories or planes that hold an image as the model takes it."""
        frame, context = self._frame, self._frame.context
        with context.lock:
            context.check_chosen()
            for binding, memory in zip(frame.inputs, memories):
                if not (binding.is_bound and binding.memory is memory):
                    self.model._bind_locked(binding, memory, True)
            if frame.output_state is not self._output_state:
                self._settle_outputs()
            for binding, plane in zip(frame.inputs, planes):
                np.copyto(binding.private()[0, :, :, 0], plane)
            size = self.input_size
            return self._run_written(LetterboxTransform(size, size, size, (0, 0)))

    def _needed(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the height and width that an image of a height and width is scaled to."""
        return transform_for(size, self.input_size, self._options["fit"]).resized_size

    def _run(self, image: Any, color: str, matrix: str, full_range: bool) -> Any:
        """Run on one image and decode the outputs."""
        # Before the lock: reading a file must not keep others waiting, and an exception about the
        # image must not keep an array of the model's memory alive in its traceback.
        if self._nv12 is not None:
            if isinstance(image, TensorMemory):
                return self._run_as_is((image, self._nv12.chroma_of(image)))
            return self._run_as_is((), self._nv12.planes(image, color))
        source = None
        if color in _CAMERAS:
            source = YuvFrame(image, color, matrix, full_range)
        else:
            if full_range is not False or matrix != "bt601":
                check_yuv_options(matrix, full_range)
            if not isinstance(image, np.ndarray):
                if isinstance(image, TensorMemory):
                    return self._run_as_is((image,))
                _check_color(color)
                read = as_scaled(image, color, self._needed)
                image, color = read if read.is_smaller else read.pixels, read.order
            elif image.ndim == 2 and self.input_color != "GRAY":
                _check_color(color)
                _check_grey(image, self.input_size)
        frame, context = self._frame, self._frame.context
        with context.lock:
            context.check_open()
            if frame.state is not self._state:
                self._settle_input()
            if source is not None:
                return self._run_written(self._writer.write_camera(source))
            prepared = self._writer.prepare(image, color)
            if prepared is not None:
                letterbox, transform, placement = prepared
                decoder = self.decoder
                native = decoder.settled()
                if frame.run_frame(letterbox, _from_buffer(image), native, placement):
                    return decoder.results(transform)
            _check_color(color)
            if not isinstance(image, Scaled):
                image, color = as_pixels(image, color)
            array = frame.inputs[0].private()
            return self._run_written(self._writer.write_any(image, color, array))


def _check_color(color: str) -> None:
    if color not in COLORS:
        raise ValueError(f"color: expected one of {', '.join((*COLORS, *FORMATS))}, got {color!r}")


def _forms(model: Model) -> list[tuple[Any, ...]]:
    """Return everything about inputs and outputs that decoders and letterboxes depend on."""
    attrs = (*model.inputs, *model.outputs)
    return [
        (attr.shape, attr.stored.shape, attr.stored.layout, attr.stored.dtype, attr.affine)
        for attr in attrs
    ]


def _check_grey(image: np.ndarray[Any, Any], input_size: tuple[int, int]) -> None:
    """Refuse an array that has the shape of a camera's frame rather than of a grey image."""
    rows, width = image.shape
    height, rest = divmod(2 * rows, 3)
    shape = width / max(height, 1)
    if not rest and height % 2 == 0 and ((height, width) == input_size or shape in _CAMERA_SHAPES):
        raise ValueError(
            f'color: expected "NV12", "NV21" or "I420" for a camera frame, or an image of shape '
            f"({rows}, {width}, 1) if it is grey, got {image.shape}, which may be {width}x{height} "
            "pixels in NV12"
        )


def calibrated_for(model: Model) -> str:
    """Return the channel order that the toolkit's ``quant_img_RGB2BGR`` asks for."""
    given = model._preprocessing
    return "BGR" if given and given[0] is not None and given[0].rgb2bgr else "RGB"


def _image_size(model: Model) -> tuple[tuple[int, int], int]:
    shapes = [(attr.name, list(attr.shape)) for attr in model.inputs]
    if [(len(attr.shape), attr.shape[:1]) for attr in model.inputs] != [(4, (1,))]:
        raise ValueError(f"expected a model with one image input, got {shapes}")
    attr = model.inputs[0]
    if not attr.takes_pixels or attr.channels not in (1, 3):
        raise ValueError(f"expected an image input of 1 or 3 channels, got {shapes}")
    taken = model._frame.inputs[0].dtype
    if taken != np.uint8:
        raise ValueError(f"inputs: expected a model that takes uint8 pixels, got one of {taken}")
    return (attr.height, attr.width), attr.channels

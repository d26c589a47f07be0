"""Run a vision model on images, videos, cameras and streams, on all cores.

Depending on the task, the results are boxes, masks, keypoints, oriented boxes,
text, or the classes of images or pixels.

Examples:
  rknn-runtime detect yolov8n.rknn bus.jpg
  rknn-runtime detect yolov8n.rknn photos/ --format coco --output results.json
  rknn-runtime detect yolov8n.rknn rtsp://camera/stream --json
  rknn-runtime detect yolov8n.rknn video.mp4 --save drawn/ --sim
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknn_runtime._files import printable, replaced_file
from rknn_runtime.cli.files import (
    check_folder,
    check_readable,
    check_writable,
    counted,
    labels_file,
    line_of,
    naming,
)
from rknn_runtime.cli.options import add_library, add_switch, refusals, shows_progress, tell
from rknn_runtime.errors import RknnError
from rknn_runtime.vision import tasks
from rknn_runtime.vision.labels import read_labels
from rknn_runtime.vision.tasks import TASKS

if TYPE_CHECKING:
    from rknn_runtime.cli.reports import Report
    from rknn_runtime.cli.sources import Item
    from rknn_runtime.streams.pool import Pool

_DETECTS = "a model that detects"
_BY_ENDING = {".csv": "csv", ".jsonl": "jsonl", ".json": "coco"}


def add_arguments(parser: ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="an image, a folder of images, a pattern such as 'photos/*.jpg', a video, a camera's "
        "number, or a URL (videos, cameras and URLs need OpenCV)",
    )
    forms = ("text", "jsonl", "csv", "coco", "yolo")
    parser.add_argument(
        "--format",
        choices=forms,
        help="format of the results; default: by the ending of --output (.csv, .jsonl; .json is "
        "coco), else text",
    )
    parser.add_argument(
        "--json", action="store_const", const="jsonl", dest="format", help="same as --format jsonl"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="write to this file; for yolo, to this folder"
    )
    add_switch(parser, "--coco-ids", "for coco: number the 80 classes from 1 to 90 as COCO does")
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="write images or videos with the objects drawn"
    )
    parser.add_argument("--frames", type=int, metavar="N", help="stop after N images")
    add_switch(parser, "--every-frame", "do not drop frames of a live source")
    add_switch(parser, "--quiet", "show no progress")


def add_model_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the commands that run a task on images."""
    parser.add_argument(
        "model", metavar="MODEL", help="a .rknn file, or the folder of Ultralytics' export"
    )
    add_library(parser, sim="run on the simulated NPU, on any PC")
    parser.add_argument(
        "--task",
        choices=("auto", *TASKS),
        default="auto",
        help="default: the file's, else guessed from the outputs",
    )
    parser.add_argument(
        "--labels", metavar="FILE", help='file of class names or characters, or "coco"'
    )
    parser.add_argument(
        "--conf", type=float,
        help="confidence threshold (0.25), also of text and of scenes of one class",
    )  # fmt: skip
    parser.add_argument("--iou", type=float, help="IoU threshold of the NMS (0.45)")
    parser.add_argument(
        "--top", type=int, metavar="N", help="for classifiers: show the N most likely classes (5)"
    )
    parser.add_argument(
        "--recognizer",
        metavar="MODEL",
        help="for text detectors: read the text with this model, whose characters --labels gives",
    )
    parser.add_argument("--head", help="such as yolov10, if the outputs do not show it")
    parser.add_argument(
        "--color",
        choices=("RGB", "BGR"),
        help="channel order that the model expects; default: the file's",
    )
    parser.add_argument("--contexts", type=int, help="number of contexts; default: two per core")
    add_switch(
        parser, "--track", "number objects over frames or images by ByteTrack (needs trackers)"
    )


def check_model_arguments(arguments: Namespace) -> None:
    for name in ("conf", "iou"):
        value = getattr(arguments, name)
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"--{name}: expected 0 to 1, got {value}")
    is_folder = Path(arguments.model).is_dir()  # of an export
    check_readable(None if is_folder else arguments.model, labels_file(arguments.labels))


def task_of(arguments: Namespace) -> tuple[Any, Callable[[Any], Any]]:
    """Return the model, and a factory of what reads it, which refuses options of other tasks."""
    model, labels, task = arguments.model, arguments.labels, arguments.task
    folder = None
    if Path(model).is_dir():
        from rknn_runtime.vision.export_folder import read_export_folder

        folder = read_export_folder(model)
        model, labels = folder.model, folder.labels if labels is None else labels
        if task == "auto":
            task = "classify" if folder.task == "classify" else "detect"

    recognizer = arguments.recognizer
    if (task == "text") != (recognizer is not None) and task != "auto":
        raise ValueError(f"--recognizer: expected one with --task text alone, got --task {task}")
    read = _recognizers(recognizer, labels, arguments)

    def made(loaded: Any) -> Any:
        name = task if task != "auto" else _task_of_model(loaded, arguments)
        if recognizer is not None:
            if name not in ("text", "text-detection"):
                raise ValueError(f"--recognizer: expected a text detector, got {TASKS[name].what}")
            name = "text"
        kind = TASKS[name]
        if arguments.track and name != "detect":
            raise ValueError(f"--track: expected {_DETECTS}, got {kind.what}")
        options = _given(arguments, {**kind.options, "input_color": "color"})
        for other in TASKS.values():
            for parameter, option in other.options.items():
                if option not in kind.options.values() and _given(arguments, {parameter: option}):
                    raise ValueError(f"--{option}: expected {other.what}, got {kind.what}")
        if name == "text":
            color = {"input_color": options.pop("input_color", None)}
            detector = TASKS["text-detection"].load()(loaded, **color)
            return kind.load()(detector, read(), **options)
        if name == "detect" and folder is not None and arguments.task == "auto":
            return kind.load()._of_task(folder.task, loaded, labels, options)
        return kind.load()(loaded, labels, **options)

    return model, made


def _recognizers(path: str | None, labels: Any, arguments: Namespace) -> Callable[[], Any]:
    """Return a function that makes a recognizer for each context, with one copy of the weights."""
    models: list[Any] = []

    def read() -> Any:
        from rknn_runtime.npu.model import Model

        assert path is not None
        with naming(path):
            models.append(
                models[0].duplicate() if models else Model(path, library=arguments.library)
            )
            return TASKS["text-recognition"].load()(models[-1], labels)

    return read


def _task_of_model(loaded: Any, arguments: Namespace) -> str:
    """Return the task that a model's file and outputs show.

    If no task fits, it is detection, which raises the error.
    """
    if arguments.head:
        return "detect"
    from rknn_runtime.modelfile.custom_string import facts_of
    from rknn_runtime.modelfile.reader import read
    from rknn_runtime.vision.image_model import ImageModel

    facts, operators = facts_of(loaded.custom_string), None
    if arguments.labels is not None and "task" not in facts:
        facts["labels"] = read_labels(arguments.labels)
    size = ImageModel(loaded, None, None).input_size
    with suppress(OSError, RknnError):  # a folder, or no model of the vendor's
        operators = read(arguments.model).operators
    found = tasks.find_task(loaded.outputs, size, facts, operators)
    possible = () if found else tasks.possible_tasks(loaded.outputs, size)
    if possible:
        raise ValueError(
            f"--task: expected {' or '.join(possible)}, or another that fits, as the outputs do "
            "not tell, got none"
        )
    return found or "detect"


def _given(arguments: Namespace, names: Mapping[str, str]) -> dict[str, Any]:
    values = {key: getattr(arguments, name, None) for key, name in names.items()}
    return {key: value for key, value in values.items() if value is not None}


def run(arguments: Namespace) -> int:
    """Return 0; 1 if an image failed; 130 after a signal, with the results so far."""
    from rknn_runtime.cli.sources import expanded
    from rknn_runtime.streams.pool import Pool

    with refusals():
        _check(arguments)
        sources = expanded(arguments.sources)
        _check_places(arguments, sources)
        model, task = task_of(arguments)
        with naming(arguments.model):
            pool = Pool(model, task, library=arguments.library, contexts=arguments.contexts)
        with pool:
            return _run(arguments, pool, sources)


def _check(arguments: Namespace) -> None:
    check_model_arguments(arguments)
    if arguments.format is None:
        ending = Path(arguments.output or "").suffix.lower()
        arguments.format = _BY_ENDING.get(ending, "text")
    if arguments.format == "yolo" and not arguments.output:
        raise ValueError("--format yolo: expected --output with a folder, got none")
    if arguments.coco_ids and arguments.format != "coco":
        raise ValueError(f"--coco-ids: expected --format coco, got {arguments.format}")
    if arguments.frames is not None and arguments.frames < 1:
        raise ValueError(f"--frames: expected 1 or more, got {arguments.frames}")


def _check_places(arguments: Namespace, sources: list[str]) -> None:
    """Refuse outputs that cannot be written, or that would overwrite an input."""
    from rknn_runtime.streams.source import is_live

    read = [Path(source) for source in sources if not is_live(source)]
    output, folder = arguments.output, arguments.save
    writes = os.W_OK | os.X_OK
    check_folder(folder and str(folder), writes, is_made=True)
    if arguments.format == "yolo":
        check_folder(output, writes, is_made=True)
    else:
        check_writable(output)
    if output and Path(output).resolve() in [
        path.resolve() for path in (*read, Path(arguments.model))
    ]:
        raise ValueError(f"--output: expected another file than what is read, got {output}")
    if folder and folder.resolve() in {path.parent.resolve() for path in read}:
        raise ValueError(f"--save: expected another folder than that of the images, got {folder}")


def _run(arguments: Namespace, pool: Pool, sources: list[str]) -> int:
    from rknn_runtime.cli.sources import Tracks, results_of

    first: Any = pool.tasks[0]
    labels = first.labels
    task = tasks.task_of(first)
    detects = task.what == _DETECTS
    if arguments.format in ("coco", "yolo") and not detects:
        raise ValueError(f"--format {arguments.format}: expected {_DETECTS}, got {task.what}")
    if arguments.save and not task.draws:
        raise ValueError(f"--save: expected {_DETECTS}, got {task.what}")
    tracks = Tracks() if arguments.track else None
    failed = done = 0
    #: Frames and objects of each video, and of all images.
    videos: dict[str, tuple[int, int]] = {}
    images = objects = 0
    progress = _Progress(shows_progress(arguments), bool(arguments.output))
    with ExitStack() as stack:
        report = _report(arguments, labels, sources, stack)
        stack.callback(report.end)
        gallery = None
        if arguments.save:
            from rknn_runtime.cli.reports import Gallery

            gallery = stack.enter_context(Gallery(arguments.save, labels))
        results = results_of(pool, sources, None if arguments.every_frame else "auto")
        stack.callback(results.close)
        try:
            for item, result in results:
                if isinstance(result, Exception):
                    failed += 1
                    _complain(item, result, progress)
                    report.fail(item, result)
                else:
                    if tracks is not None:
                        result = tracks.add(item.source, item.frame, item.time_s, result)
                    report.add(item, result)
                    found = len(result) if detects else 0
                    if item.frame is None:
                        images, objects = images + 1, objects + found
                    elif not item.is_live:
                        frames, before = videos.get(item.source, (0, 0))
                        videos[item.source] = frames + 1, before + found
                    if gallery is not None:
                        gallery.add(item, result)
                report.flush()
                done += 1
                progress.show(done)
                if done == arguments.frames:
                    break
        except KeyboardInterrupt:
            progress.end()
            tell(f"stopped after {counted(done, 'image')}", "info")
            return 130
        progress.end()
    if not arguments.quiet:
        said = [
            (f"{source}: {counted(frames, 'frame')}", count)
            for source, (frames, count) in videos.items()
        ]
        if images and arguments.save:
            said.append((counted(images, "image"), objects))
        place = f", drawn in {arguments.save}" if arguments.save else ""
        for text, count in said:
            text += f", {counted(count, 'object')}" if detects else ""
            tell(printable(text + place), "info")
    return int(failed > 0)


def _report(arguments: Namespace, labels: Any, sources: list[str], stack: ExitStack) -> Report:
    from rknn_runtime.cli.reports import FORMATS, Coco, Yolo
    from rknn_runtime.streams.source import is_live

    out = sys.stdout
    if arguments.format == "yolo":
        Path(arguments.output).mkdir(parents=True, exist_ok=True)
    elif arguments.output:
        stack.enter_context(naming(arguments.output))
        name = arguments.output
        if not any(map(is_live, sources)):  # of a camera, others read along
            name = stack.enter_context(replaced_file(name))
        path = Path(name)
        out = stack.enter_context(path.open("w", encoding="utf-8", errors="backslashreplace"))
    report = FORMATS[arguments.format](out, labels)
    if isinstance(report, Coco):
        report.categories = "coco" if arguments.coco_ids else None
    if isinstance(report, Yolo):
        report.folder = Path(arguments.output)
    return report


def _complain(item: Item, error: Exception, progress: _Progress) -> None:
    if not isinstance(error, (OSError, ValueError, RknnError)):
        raise error
    progress.end()
    text = line_of(error)
    where = "" if item.source in text else f"{item.source}: "
    tell(printable(where + text))


class _Progress:
    """A line on the terminal that counts the images, if the results go elsewhere."""

    def __init__(self, is_wanted: bool, is_output_elsewhere: bool) -> None:
        self._is_wanted = is_wanted and (is_output_elsewhere or not sys.stdout.isatty())
        self._began = self._shown = time.monotonic()
        self._is_open = False

    def show(self, done: int) -> None:
        now = time.monotonic()
        if self._is_wanted and now - self._shown > 0.5:
            self._shown, self._is_open = now, True
            rate = done / (now - self._began)
            print(f"\r{done} images, {rate:.1f}/s ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_open:
            print(file=sys.stderr)
            self._is_open = False

"""The accuracy analysis of the vendor's toolkit: which layers suffer from quantization."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from rknn_runtime._files import printable_lines, read_file
from rknn_runtime.conversion.calibration import images_in, listing, written
from rknn_runtime.conversion.environment import DEFAULT_VERSION, toolkit_python
from rknn_runtime.conversion.plan import plan_of
from rknn_runtime.conversion.toolkit import run_job
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.soc import soc_named

MAX_BYTES = 1 << 24
_ROW = re.compile(r"\[(?P<op>[^\]]+)\] (?P<name>\S+)(?P<cells>.*)")
_CELL = re.compile(r"(?P<cosine>[-+.\w]+)\s*\|\s*(?P<distance>[-+.\w]+)")
#: Groups of columns as the file names them, each with its two columns in this order.
_GROUPS = {"simulator_error": "simulator", "runtime_error": "runtime"}
#: Sizes of the plot, in pixels.
_WIDTH, _BAR, _LEFT, _TOP = 900, 14, 330, 40


@dataclass(frozen=True)
class LayerError:
    """The distance of a layer's output from the float network."""

    #: The cosine; 1.0 is the same direction.
    cosine: float
    #: The Euclidean distance.
    euclidean: float


@dataclass(frozen=True)
class AnalysisRow:
    """A layer. An error is None if the toolkit gives none, as for merged layers."""

    #: The operator: ``"Conv"``, ``"exDataConvert"``.
    op: str
    #: The name of its output.
    name: str
    #: The whole quantized network on the toolkit's simulator, with the errors of earlier layers.
    simulator_entire: LayerError | None
    #: The single layer on float inputs.
    simulator_single: LayerError | None
    #: The whole network on a connected board.
    runtime_entire: LayerError | None = None
    #: The single layer on the board, compared with the simulator.
    runtime_single: LayerError | None = None


@dataclass(frozen=True)
class Analysis:
    """All layers, in the order of the file; ``str()`` is a table."""

    rows: tuple[AnalysisRow, ...]

    def worst(self, count: int = 5) -> tuple[AnalysisRow, ...]:
        """Return the layers with the smallest cosines as single layers, smallest first."""
        known = [row for row in self.rows if row.simulator_single is not None]
        return tuple(sorted(known, key=lambda row: _cosine(row.simulator_single))[:count])

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return {"rows": [asdict(row) for row in self.rows]}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def to_svg(self) -> str:
        """Return a plot as an SVG file: ``1 - cosine`` of each layer, entire and single.

        Bars are logarithmic, from 1e-5 to 1.
        """
        return "\n".join(_svg(self.rows)) + "\n"

    def __str__(self) -> str:
        titles = ["entire", "single"]
        cells = ["simulator_entire", "simulator_single"]
        if any(row.runtime_entire or row.runtime_single for row in self.rows):
            titles += ["board entire", "board single"]
            cells += ["runtime_entire", "runtime_single"]
        lines = ["".join(f"{title:>22}" for title in titles) + "  layer"]
        for row in self.rows:
            shown = "".join(f"{_shown(getattr(row, cell)):>22}" for cell in cells)
            lines.append(f"{shown}  {row.name} ({row.op})")
        return printable_lines(lines)


def analyse(
    model: str | os.PathLike[str],
    target: str,
    calibrate: str | os.PathLike[str],
    *,
    image: str | os.PathLike[str] | None = None,
    keep_graph: bool = False,
    color: str = "RGB",
    mean: Sequence[float] = (0, 0, 0),
    std: Sequence[float] = (255, 255, 255),
    algorithm: str = "normal",
    limit: int = 100,
    device: bool | str = False,
    toolkit: str = DEFAULT_VERSION,
    environment: str | os.PathLike[str] | None = None,
    python: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Analysis:
    """Quantize a network of one image with rknn-toolkit2, and let it judge every layer.

    Args:
        model: An ``.onnx`` file.
        target: The SoC, such as ``"rk3588"``.
        calibrate: A folder of images to quantize with, letterboxed into the input.
        image: The image, or ``.npy`` file, to judge with. None: the first of the folder.
        keep_graph: Do not cut the graph as `convert` does.
        color: The colour order of the input, ``"RGB"`` or ``"BGR"``.
        mean: The mean of each channel, in 0..255.
        std: The divisor of each channel.
        algorithm: The toolkit's ``quantized_algorithm``.
        limit: The most images to calibrate with, spread evenly over the folder.
        device: Also run each layer on a board connected over USB: True, or the name of the board
            as ``adb devices`` lists it.
        toolkit: The version of the toolkit.
        environment: The place of the toolkit's environments; see `convert`.
        python: The Python to make an environment with.
        progress: Called with a line about each step.

    Returns:
        The analysis.
    """
    soc = soc_named(target, "target").name
    source = Path(model)
    if source.suffix.lower() != ".onnx":
        raise ValueError(f"model: expected an .onnx file, got {source.name!r}")
    images = images_in(calibrate, "calibrate", limit)
    plan = plan_of(source, {}, keep_graph, "auto", None, color)
    if plan.size is None or plan.onnx is None:
        raise ValueError("model: expected a network that takes one image, got another")
    program = toolkit_python(toolkit, folder=environment, python=python, progress=progress)
    with tempfile.TemporaryDirectory(prefix="rknn-analysis-") as name:
        folder = Path(name)
        network = folder / "network.onnx"
        network.write_bytes(plan.onnx)
        paths = written(images, plan.size, plan.color, folder, plan.fit)
        judged = paths[:1]
        if image is not None:
            (folder / "judged").mkdir()
            judged = written([Path(image)], plan.size, plan.color, folder / "judged", plan.fit)
        arguments: dict[str, object] = {"inputs": judged, "output_dir": str(folder / "snapshot")}
        if device is not False:
            arguments["target"] = soc
            arguments["device_id"] = None if device is True else device
        job = {
            "config": {
                "target_platform": soc,
                "mean_values": [list(mean)[: plan.channels]],
                "std_values": [list(std)[: plan.channels]],
                "quantized_algorithm": algorithm,
            },
            "load": {"call": "load_onnx", "arguments": {"model": str(network)}},
            "build": {"do_quantization": True, "dataset": listing(paths, folder)},
            "accuracy_analysis": arguments,
        }
        run_job(program, job, progress)
        return read_analysis(folder / "snapshot" / "error_analysis.txt")


def read_analysis(path: str | os.PathLike[str]) -> Analysis:
    """Read the ``error_analysis.txt`` of ``RKNN.accuracy_analysis``."""
    try:
        return parse_analysis(read_file(path, MAX_BYTES).decode("utf-8"))
    except ValueError as error:
        raise InvalidModelError(f"{os.fsdecode(path)}: {error}") from None


def parse_analysis(text: str) -> Analysis:
    """Parse the text of an ``error_analysis.txt``."""
    if not isinstance(text, str):
        raise TypeError(f"text: expected a str, got {type(text).__name__}")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    places: list[tuple[float, str]] = []
    for above, line in zip(lines, lines[1:]):
        if re.fullmatch(r"(\s*cos\s+euc)+\s*", line):
            places = _places(lines[0], above, line)
            break
    rows = tuple(_rows(lines, places)) if places else ()
    if not rows:
        raise ValueError("expected the table of an accuracy analysis, got none")
    return Analysis(rows)


def _places(groups: str, titles: str, line: str) -> list[tuple[float, str]]:
    """Return the middle of each pair of columns, and its field of `AnalysisRow`."""
    words = [
        (match.start(), _GROUPS[match[0]])
        for match in re.finditer(r"\w+_error", groups)
        if match[0] in _GROUPS
    ]
    found: list[tuple[float, str]] = []
    for pair, title in zip(re.finditer(r"cos\s+euc", line), re.finditer(r"\w+", titles)):
        kind = "entire" if title[0] == "entire" else "single"
        number = len(found) // 2
        if number >= len(words):
            raise ValueError(f"expected two columns for each of {len(words)} errors, got more")
        found.append(((pair.start() + pair.end()) / 2, f"{words[number][1]}_{kind}"))
    return found


def _rows(lines: list[str], places: list[tuple[float, str]]) -> Iterator[AnalysisRow]:
    for line in lines:
        row = _ROW.match(line)
        if row is None:
            continue
        cells: dict[str, LayerError | None] = dict.fromkeys((field for _, field in places), None)
        for cell in _CELL.finditer(line, row.start("cells")):
            middle = (cell.start() + cell.end()) / 2
            _, field = min(places, key=lambda place: abs(place[0] - middle))
            try:
                cells[field] = LayerError(float(cell["cosine"]), float(cell["distance"]))
            except ValueError:
                raise ValueError(f"expected two numbers, got {cell[0]!r} in {line!r}") from None
        errors = (f"{by}_{kind}" for by in _GROUPS.values() for kind in ("entire", "single"))
        yield AnalysisRow(row["op"], row["name"], *map(cells.get, errors))


def _cosine(error: LayerError | None) -> float:
    return math.inf if error is None else error.cosine


def _shown(error: LayerError | None) -> str:
    return "-" if error is None else f"{error.cosine:.5f} {error.euclidean:.4g}"


def _svg(rows: tuple[AnalysisRow, ...]) -> Iterator[str]:
    height = _TOP + _BAR * len(rows) + 10
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="11">'
    )
    yield f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    yield (
        f'<text x="{_LEFT}" y="16">1 - cosine: all layers before (light), the layer itself '
        "(dark)</text>"
    )
    for power in range(-5, 1):
        x = _LEFT + (power + 5) / 5 * (_WIDTH - _LEFT - 20)
        yield f'<text x="{x:.0f}" y="32" fill="gray" text-anchor="middle">1e{power}</text>'
        yield f'<line x1="{x:.0f}" x2="{x:.0f}" y1="36" y2="{height}" stroke="#ddd"/>'
    for number, row in enumerate(rows):
        y = _TOP + _BAR * number
        name = escape(row.name if len(row.name) < 45 else f"...{row.name[-42:]}")
        yield f'<text x="{_LEFT - 8}" y="{y + 10}" text-anchor="end">{name}</text>'
        for error, color, inset in (
            (row.simulator_entire, "#9cc3e6", 1),
            (row.simulator_single, "#1f5f99", 4),
        ):
            if error is not None:
                yield (
                    f'<rect x="{_LEFT}" y="{y + inset}" width="{_bar(error.cosine):.1f}" '
                    f'height="{_BAR - 2 * inset}" fill="{color}"/>'
                )
    yield "</svg>"


def _bar(cosine: float) -> float:
    """Return the length of a bar in pixels; NaN gives the longest."""
    lost = 1 - cosine if math.isfinite(cosine) else 1.0
    return (math.log10(min(1.0, max(1e-5, lost))) + 5) / 5 * (_WIDTH - _LEFT - 20)

"""Fit `rknn-runtime predict` to published times, and judge it by networks outside of the fit.

::

    python tools/judge_prediction.py              # each family of networks left out of the fit
    python tools/judge_prediction.py --constants  # print the constants of prediction.py
    python tools/judge_prediction.py --without NAME ...  # leave these networks out together
    python tools/judge_prediction.py --add board.json --source "who, which board, which clock"
    python tools/judge_prediction.py --networks FOLDER  # NAME_SOC.rknn: renew the layers

The figures are in ``docs/speeds.csv``; ``--add`` appends a result of ``bench --output`` to it. The
layers of the vendor's networks are in ``tests/data/prediction``.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile import prediction
from rknn_runtime.modelfile.layers import Layer, LayerTensor, read_layers

PROJECT = Path(__file__).resolve().parents[1]
TIMES = PROJECT / "docs" / "speeds.csv"
NETWORKS = PROJECT / "tests" / "data" / "prediction" / "networks.json.xz"
SOCS = ("rk3562", "rk3566", "rk3576", "rk3588")
#: The source that is fitted to, and those that others measured and that can be compared with it.
VENDOR = "zoo"
OTHERS = ("qengineering", "go-rknnlite", "photonvision", "toolkit-129", "zoo-433")
#: Columns of a layer. Cycles of products of computed matrices are apart.
CYCLES, BYTES, WEIGHTS, SLOW, RESULTS, PRODUCTS = range(6)
#: Network and SoC.
Key = tuple[str, str]
Array = np.ndarray[Any, Any]


class Figure(NamedTuple):
    """A published time."""

    network: str
    soc: str
    ms: float
    source: str


def figures() -> list[Figure]:
    """Read the published times."""
    with TIMES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Figure(row["network"], soc, float(row[soc]), row["source"])
        for row in rows
        for soc in SOCS
        if row[soc]
    ]


def networks() -> dict[str, dict[str, list[Layer]]]:
    """Return the layers of each network, by the SoC that it was converted for."""
    data = json.loads(lzma.decompress(NETWORKS.read_bytes()))
    return {
        name: {soc: [_layer(*row) for row in rows] for soc, rows in files.items()}
        for name, files in data.items()
    }


def save_networks(folder: Path) -> None:
    """Keep the layers of converted files of networks with published times."""
    kept: dict[str, dict[str, Any]] = {}
    published = {figure.network for figure in figures()}
    for path in sorted(folder.glob("*.rknn")):
        name, _, soc = path.stem.rpartition("_")
        if name not in published:
            continue
        rows = [
            (x.operator, x.device, _tensors(x.inputs), _tensors(x.outputs), x.weight_bytes,
             x.macs, x.kernel)
            for x in read_layers(path) if x.device
        ]  # fmt: skip
        kept.setdefault(name, {})[soc] = rows
    text = json.dumps(kept, separators=(",", ":")).encode()
    NETWORKS.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


def _tensors(tensors: Sequence[LayerTensor]) -> list[Any]:
    return [
        (x.shape, x.dtype.name if x.dtype is not None else None, x.stored_bytes) for x in tensors
    ]


def _layer(
    operator: str, device: str, read: Any, written: Any, weights: int, macs: int, kernel: Any
) -> Layer:
    def tensors(rows: Any) -> tuple[LayerTensor, ...]:
        return tuple(
            LayerTensor("", tuple(shape), TensorType[dtype] if dtype else None, stored)
            for shape, dtype, stored in rows
        )

    return Layer(
        operator, "", device, None, tensors(read), tensors(written), weights, macs, tuple(kernel)
    )


def layers_for(files: dict[str, list[Layer]], soc: str) -> list[Layer]:
    """Return the layers of the file for a SoC, or of that for RK3588."""
    return files.get(soc) or files["rk3588"]


def family(network: str) -> str:
    """Return the name without version, size and task: these networks are alike."""
    return re.match(r"(yolov?\d+|[a-z]+)", network).group()  # type: ignore[union-attr]


def _features(layers: Sequence[Layer], soc: str) -> Array:
    speed = prediction.SPEEDS[soc]
    rows = []
    for layer in layers:
        cycles = prediction.cycles(layer, speed)
        is_product = bool(layer.macs) and not layer.kernel
        moved = layer.input_bytes + layer.output_bytes
        slow = prediction.is_slow(layer)
        rows.append(
            (0 if is_product else cycles, moved, layer.weight_bytes, slow,
             prediction.table_results(layer), cycles / prediction.SLOW_PRODUCT * is_product)
        )  # fmt: skip
    return np.array(rows, float)


#: Logarithms: efficiency, bandwidth, start and table of each SoC; then what all share.
START = np.log([0.9, 6.0, 8.0, 0.15] * len(SOCS) + [0.25, 3.0, 80.0])


def _ms(x: Array, layers: Array, soc: str) -> float:
    at = 4 * SOCS.index(soc)
    efficiency, bandwidth, start, table = np.exp(x[at : at + 4])
    weights, slow, product = np.exp(x[-3:])
    clock = prediction.SPEEDS[soc].clock_mhz
    compute = (layers[:, CYCLES] + layers[:, PRODUCTS] * product) / (clock * efficiency)
    moved = layers[:, BYTES] + layers[:, WEIGHTS] * weights
    moved = moved * np.where(layers[:, SLOW], slow, 1)
    us = np.hypot(compute, moved / (bandwidth * 1000)) + layers[:, RESULTS] * table / clock + start
    return float(us.sum() / 1000)


def fit(times: dict[Key, float], layers: dict[Key, Array]) -> Array:
    """Return the constants of least error; families count alike, outliers little."""
    count = Counter(family(name) for name, _ in times)

    def errors(x: Array) -> Array:
        found = [
            np.log(_ms(x, layers[key], key[1]) / ms) / count[family(key[0])] ** 0.5
            for key, ms in times.items()
        ]
        return np.array(found)

    return _least_squares(errors, START)


def _least_squares(errors: Callable[[Array], Array], x: Array) -> Array:
    begin, damping, held = x, 1e-2, 0.03

    def cost(x: Array) -> tuple[float, Array]:
        each = errors(x) / 0.1
        return float(np.sqrt(1 + each**2).sum() + ((x - begin) * held / 0.1) @ (x - begin)), each

    best, each = cost(x)
    for _ in range(40):
        steps = np.eye(len(x)) * 1e-4
        slopes = np.array([(errors(x + step) / 0.1 - each) / 1e-4 for step in steps]).T
        weight = 1 / np.sqrt(1 + each**2)
        left = slopes.T @ (slopes * weight[:, None]) + np.eye(len(x)) * 2 * held / 0.1
        right = slopes.T @ (weight * each) + (x - begin) * 2 * held / 0.1
        moved = x - np.linalg.solve(left + damping * np.diag(np.diag(left)), right)
        found, after = cost(moved)
        if found < best:
            is_done = best - found < 1e-3
            x, best, each, damping = moved, found, after, damping / 3
            if is_done:
                break
        else:
            damping *= 4
    return x


class Judgement(NamedTuple):
    """Predictions of networks whose family was left out of the fit."""

    #: Predicted divided by published time.
    ratios: dict[Key, float]
    constants: Array
    #: Other people's times divided by the prediction, by SoC and source.
    elsewhere: dict[str, dict[str, list[float]]]

    def held(self) -> dict[str, tuple[int, int]]:
        """Return how many times of each source lie in the range that the others make, of all."""
        return {
            left_out: (
                sum(1 / (1 + prediction.SPEEDS[soc].spread) <= one <= most for soc, one in own),
                len(own),
            )
            for left_out in OTHERS
            for own in [self._of([left_out])]
            for most in [max(one for _, one in self._of(set(OTHERS) - {left_out}))]
        }

    def _of(self, sources: Collection[str]) -> list[tuple[str, float]]:
        return [
            (soc, one)
            for soc, found in self.elsewhere.items()
            for source in sources
            for one in found.get(source, ())
        ]


def judge() -> Judgement:
    """Leave out each family in turn."""
    known = networks()
    published = [f for f in figures() if f.network in known]
    layers = {
        (f.network, f.soc): _features(layers_for(known[f.network], f.soc), f.soc) for f in published
    }
    times = {(f.network, f.soc): f.ms for f in published if f.source == VENDOR}
    ratios: dict[Key, float] = {}
    fits = {}
    for left_out in sorted({family(name) for name, _ in times}):
        others = {key: ms for key, ms in times.items() if family(key[0]) != left_out}
        fits[left_out] = fit(others, layers)
        ratios.update(
            {
                key: _ms(fits[left_out], layers[key], key[1]) / ms
                for key, ms in times.items()
                if family(key[0]) == left_out
            }
        )
    elsewhere: dict[str, dict[str, list[float]]] = {soc: {} for soc in SOCS}
    for figure in published:
        if figure.source in OTHERS and family(figure.network) in fits:
            ms = _ms(fits[family(figure.network)], layers[figure[:2]], figure.soc)
            elsewhere[figure.soc].setdefault(figure.source, []).append(figure.ms / ms)
    return Judgement(ratios, fit(times, layers), elsewhere)


def errors(found: Judgement, soc: str) -> list[tuple[float, float]]:
    """Return the error of each network of a SoC and its weight: families count alike."""
    of = {name: ratio for (name, at), ratio in found.ratios.items() if at == soc}
    count = Counter(map(family, of))
    return sorted(
        (max(ratio, 1 / ratio) - 1, 1 / count[family(name)] / len(count))
        for name, ratio in of.items()
    )


def quantile(weighted: Sequence[tuple[float, float]], part: float) -> float:
    """Return the error that this part of the weights does not exceed."""
    sums = np.cumsum([weight for _, weight in weighted])
    return weighted[int(np.searchsorted(sums, part))][0]


def report_without(names: Sequence[str]) -> None:
    """Leave networks out together, and print the ratio of each prediction to the published time."""
    known = networks()
    unknown = set(names) - known.keys()
    if unknown:
        raise SystemExit(f"--without: expected some of {', '.join(known)}, got {unknown}")
    times = {(f.network, f.soc): f.ms for f in figures() if f.source == VENDOR}
    times = {key: ms for key, ms in times.items() if key[0] in known}
    layers = {key: _features(layers_for(known[key[0]], key[1]), key[1]) for key in times}
    constants = fit({key: ms for key, ms in times.items() if key[0] not in names}, layers)
    found, inside = [], 0
    for name in names:
        cells = []
        for soc in SOCS:
            if (name, soc) in times:
                ratio = _ms(constants, layers[name, soc], soc) / times[name, soc]
                is_inside = max(ratio, 1 / ratio) - 1 <= prediction.SPEEDS[soc].spread
                found.append(max(ratio, 1 / ratio) - 1)
                inside += is_inside
                cells.append(f"{ratio:.2f}{' ' if is_inside else '!'}")
        print(f"{name:24}", *cells)
    print(f"{inside} of {len(found)} in the shown range, median error {np.median(found):.1%}")


def add(result: Path, source: str) -> None:
    """Append the result of a bench on a board to the published times."""
    data = json.loads(result.read_text(encoding="utf-8"))
    for each in data if isinstance(data, list) else [data]:
        about = each["about"]
        if about["simulated"] or about["soc"] not in SOCS:
            raise SystemExit(f"{result}: expected a board of {', '.join(SOCS)}")
        ms = min(timing["summary_ms"]["run"]["p50"] for timing in each["timings"])
        shape = "x".join(str(size) for size in about["inputs"][0])
        cells = [f"{ms:.3g}" if soc == about["soc"] else "" for soc in SOCS]
        row = [Path(about["model"]).stem, shape, "as converted", *cells, source]
        with TIMES.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--add", type=Path, metavar="RESULT.json")
    parser.add_argument("--source", default="")
    parser.add_argument("--without", nargs="+", metavar="NAME")
    parser.add_argument("--networks", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.networks:
        save_networks(arguments.networks)
        return
    if arguments.add:
        if not arguments.source:
            parser.error("--source: expected who measured, on which board, at which clock")
        add(arguments.add, arguments.source)
        return
    if arguments.without:
        report_without(arguments.without)
        return
    found = judge()
    for soc in SOCS:
        each = errors(found, soc)
        spread = prediction.SPEEDS[soc].spread
        print(
            f"{soc}: {len(each)} networks, each outside of the fit, families count alike: median "
            f"error {quantile(each, 0.5):.1%}, 80 % within {quantile(each, 0.8):.1%}; "
            f"{sum(error <= spread for error, _ in each)} in the shown range; "
            f"worst {each[-1][0]:.0%}"
        )
        others = [one for times in found.elsewhere[soc].values() for one in times]
        if others:
            print(f"  {len(others)} times of others: {np.median(others):.2f}, to {max(others):.2f}")
    for source, (inside, count) in found.held().items():
        print(f"without {source}: {inside} of its {count} times in the range of the others")
    if arguments.constants:
        constants = np.exp(found.constants)
        for at, soc in enumerate(SOCS):
            print(soc, *(f"{value:.4g}" for value in constants[4 * at : 4 * at + 4]))
        print("shared", *(f"{value:.4g}" for value in constants[-3:]))
    else:
        for name in sorted({name for name, _ in found.ratios}):
            cells = (
                f"{found.ratios[name, soc] - 1:+5.0%}"
                for soc in SOCS
                if (name, soc) in found.ratios
            )
            print(f"{name:24}", *cells)


if __name__ == "__main__":
    main()

"""Generate small networks, convert them with the vendor's toolkit, and judge the emulator by them.

    python tools/generate_networks --seed 1 --count 10 --out results.jsonl
    python tools/generate_networks --seed 1 --only conv:3 --pairs rk3588:int8 --keep folder

``make generate`` runs it. The first run installs rknn-toolkit2 into the user's cache, which needs a
network. Files that the results already have are left out, so that a run can be continued.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from generate_networks import judge, loading, record, shrink  # noqa: E402
from generate_networks.toolkit import Toolkit  # noqa: E402
from generate_networks.whole import FAMILIES, draw  # noqa: E402

PAIRS = ("rk3588:int8", "rk3588:float16", "rk3566:int8", "rk3562:int8", "rk3576:int8",
         "rv1106:int8", "rv1103b:int8", "rk3566:float16", "rk3562:float16", "rk3576:float16",
         "rk3588:int16", "rk3576:int16", "rv1126b:int8")  # fmt: skip
MARKS = {"bug": "b", "doubted": "d", "unread": "u", "unconverted": "c"}


def main() -> int:
    """Run the cases that the command line names; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description="Judge the emulator by generated networks.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first index of each family")
    parser.add_argument("--count", type=int, default=2, help="networks of each family")
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--only", metavar="FAMILY:INDEX", nargs="+", help="these networks")
    parser.add_argument("--pairs", nargs="+", default=PAIRS, metavar="SOC:TYPE")
    parser.add_argument("--out", type=Path, help="results, one line of JSON for each file")
    parser.add_argument("--keep", type=Path, help="a folder for the files of wrong results")
    parser.add_argument("--keep-all", action="store_true", help="keep the files of all results")
    parser.add_argument("--shrink", action="store_true", help="cut wrong networks down")
    parser.add_argument("--table", action="store_true", help="only print the table of --out")
    parser.add_argument("--record", type=Path, help="write a sample for the tests instead")
    options = parser.parse_args()
    if options.record is not None:
        record.record(options.record, options.seed, options.pairs)
        return 0
    done = read(options.out)
    if not options.table:
        wanted = [name.rpartition(":")[::2] for name in options.only or ()] or [
            (family, index)
            for index in range(options.first, options.first + options.count)
            for family in options.families
        ]
        with Toolkit() as toolkit:
            for family, index in wanted:
                try_case(options, toolkit, family, int(index), done)
    print(table(done))
    return int(any(row["result"] == "wrong" for row in done.values()))


def read(path: Path | None) -> dict[str, dict[str, Any]]:
    """Return the rows of earlier runs."""
    rows = {}
    if path is not None and path.exists():
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            rows[f"{row['seed']} {row['case']} {row['pair']}"] = row
    return rows


def try_case(options: Any, toolkit: Toolkit, family: str, index: int, done: dict[str, Any]) -> None:
    """Judge a network for each pair of SoC and type; print and keep wrong files."""
    names = [f"{options.seed} {family}:{index} {pair}" for pair in options.pairs]
    if all(name in done for name in names):
        return
    case = draw(options.seed, family, index)
    stored: dict[str, Any] = {}
    for pair, name in zip(options.pairs, names):
        if name in done:
            continue
        outcome, rknn, outputs = try_pair(toolkit, case.onnx, case, pair)
        row = {"seed": options.seed, "case": case.name, "pair": pair, **outcome.row()}
        if outcome.result == "right" and outputs:
            row["differs"] = differs(stored, pair, outputs)
        done[name] = row
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)
        if outcome.result not in ("right", "refused") or options.only:
            size = f"{outcome.steps:8.1f} steps {outcome.excess:6.2f}"
            about = f"{outcome.reason} {outcome.verdicts}"
            print(f"{case.name:16} {pair:15} {outcome.result:11} {size} {about}", flush=True)
        is_kept = options.keep_all or outcome.result in ("wrong", "doubted", "unread")
        if options.keep is not None and is_kept and rknn is not None:
            keep(options.keep, f"{options.seed}-{family}-{index}", pair, case.onnx, rknn)
        if options.shrink and outcome.result == "wrong":
            small = shrink.shrink(case, partial(judged, toolkit, pair))
            print(f"    smallest: {shrink.described(small)}", flush=True)
            if options.keep is not None:
                (options.keep / f"{options.seed}-{family}-{index}-small.onnx").write_bytes(small)


def judged(toolkit: Toolkit, pair: str, network: bytes, case: Any) -> Any:
    """Return the outcome alone."""
    return try_pair(toolkit, network, case, pair)[0]


def try_pair(toolkit: Toolkit, network: bytes, case: Any, pair: str) -> Any:
    """Convert a network for one pair and judge it."""
    soc, _, dtype = pair.partition(":")
    runs = judge.draw_inputs(case)
    given, norms = judge.calibration(case, runs), judge.norms(case)
    rknn, _, reason = toolkit.convert(network, soc, dtype, given, norms)
    if rknn is None:
        return judge.Outcome("unconverted", reason), None, []

    def simulate() -> Any:
        return toolkit.convert(network, soc, dtype, given, norms, simulate=given[0])[1]

    try:
        outcome, outputs = judge.judge(network, rknn, runs[0], dtype, simulate)
        if outcome.result == "right":
            failed = loading.load(rknn, is_mini=soc.startswith("rv110"))
            if failed:
                outcome.result, outcome.reason = "unread", failed
    except Exception as error:  # one network must not end a run of hours
        outcome, outputs = judge.Outcome("unread", f"{type(error).__name__}: {error}"[:160]), []
    return outcome, rknn, outputs


def differs(stored: dict[str, Any], pair: str, outputs: list[Any]) -> str:
    """Keep the outputs of a pair; name the first one of its type whose int8 outputs differ."""
    dtype = pair.partition(":")[2]
    for other, theirs in stored.items():
        if other.endswith(dtype) and dtype == "int8":
            for a, b in zip(outputs, theirs):
                if a.dtype != b.dtype or a.size != b.size:
                    return ""
                if abs(a.astype(int).ravel() - b.astype(int).ravel()).max(initial=0) > 1:
                    return other
    stored[pair] = outputs
    return ""


def keep(folder: Path, name: str, pair: str, network: bytes, rknn: bytes) -> None:
    """Write the two files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.onnx").write_bytes(network)
    (folder / f"{name}_{pair.replace(':', '_')}.rknn").write_bytes(rknn)


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return right/refused/wrong for each family and pair, and the sums."""
    cells: dict[str, dict[str, Counter[str]]] = {}
    pairs: dict[str, None] = {}
    for row in rows.values():
        family = row["case"].rpartition(":")[0]
        pairs[row["pair"]] = None
        for name in (family, "all"):
            cells.setdefault(name, {}).setdefault(row["pair"], Counter())[row["result"]] += 1
    with contextlib.suppress(KeyError):
        cells["all"] = cells.pop("all")
    lines = ["right/refused/wrong, b bugs of the toolkit, d doubted, u unread, c unconverted"]
    lines.append(" ".join([f"{'':14}", *(f"{pair:>15}" for pair in pairs)]))
    for family, row in cells.items():
        texts = []
        for pair in pairs:
            count = row.get(pair, Counter())
            text = "/".join(str(count[name]) for name in ("right", "refused", "wrong"))
            text += "".join(f" {count[n]}{MARKS[n]}" for n in MARKS if count[n])
            texts.append(f"{text:>15}")
        lines.append(" ".join([f"{family:14}", *texts]))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

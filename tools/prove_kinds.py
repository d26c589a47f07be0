"""List the kinds of tasks that networks with known results proved, for proven_kinds.h.

    python tools/prove_kinds.py --results results.jsonl ... --models folder ...

Results are those of ``tools/generate_networks``. Models are files whose recorded answers the tests
compare in every bit. A kind counts for a family of SoCs if at least one right network has such a
task, and if wrong ones with it are rare: their reason lies elsewhere then.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from rknn_runtime.sim.emulator import Emulator, EmulatorError  # noqa: E402

HEADER = ROOT / "csrc" / "emulator" / "proven_kinds.h"
#: As in emu_family.
FAMILIES = (("rk3588",), ("rv1103", "rv1106"), ("rk3566", "rk3568"), ("rk3562",),
            ("rk3576", "rv1126b"), ("rv1103b", "rv1106b"))  # fmt: skip


def main() -> int:
    """Write the header."""
    parser = argparse.ArgumentParser(description="List the kinds of tasks that are proven.")
    parser.add_argument("--results", type=Path, nargs="*", default=[])
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="folders")
    options = parser.parse_args()
    right, wrong = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for path in options.results:
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            family = family_of(row["pair"].partition(":")[0])
            counter = {"right": right, "wrong": wrong}.get(row["result"], Counter())
            counter.update((kind, family) for kind in row.get("kinds", ()))
    for kind in recorded(options.models):
        right[kind] += 100
    rows: dict[str, int] = {}
    for (kind, family), count in right.items():
        if count >= 3 * wrong[kind, family]:
            rows[kind] = rows.get(kind, 0) | 1 << family
    text = HEADER.read_text("utf-8")
    begin, end = text.index("proven_kinds[] = {\n"), text.rindex("};\n")
    lines = [f'    {{"{kind}", 0x{rows[kind]:02x}}},\n' for kind in sorted(rows)]
    HEADER.write_text(text[:begin] + "proven_kinds[] = {\n" + "".join(lines) + text[end:], "utf-8")
    print(f"{len(rows)} kinds; left out, since too many of their networks are wrong:")
    for (kind, family), count in sorted(wrong.items()):
        if right[kind, family] < 3 * count:
            print(f"  {FAMILIES[family][0]}: {kind}: {right[kind, family]} right, {count} wrong")
    return 0


def family_of(soc: str) -> int:
    return next(number for number, socs in enumerate(FAMILIES) if soc in socs)


def recorded(folders: list[Path]) -> Iterator[tuple[str, int]]:
    """Return the kinds in files with recorded answers."""
    for path in (path for folder in folders for path in sorted(folder.rglob("*.rknn"))):
        try:
            machine = Emulator(path)
        except EmulatorError:
            continue
        if machine.is_runnable:
            for kind in {kind for _, kind in machine.kinds()}:
                yield kind, family_of(machine.soc)


if __name__ == "__main__":
    sys.exit(main())

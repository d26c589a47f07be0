"""List the kinds of tasks that networks with known results proved, for proven_kinds.h.

    python tools/prove_kinds.py --results results.jsonl ... --models folder ...

``tools/generate_networks`` makes the results; a later file's row replaces an earlier one of the
same network. Models are files whose recorded answers the tests compare in every bit. A kind is
proven on a family of SoCs if a right network has such a task. A wrong network, if all of its nodes
are executed, disproves its kind with the fewest right networks, unless these are many.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from rknn_runtime.sim.emulator import Emulator, EmulatorError  # noqa: E402

HEADER = ROOT / "csrc" / "emulator" / "proven_kinds.h"
_MANY = 50
#: As in emu_family.
FAMILIES = (("rk3588",), ("rv1103", "rv1106"), ("rk3566", "rk3568"), ("rk3562",),
            ("rk3576", "rv1126b"), ("rv1103b", "rv1106b"))  # fmt: skip


def main() -> int:
    """Write the header."""
    parser = argparse.ArgumentParser(description="List the kinds of tasks that are proven.")
    parser.add_argument("--results", type=Path, nargs="*", default=[])
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="folders")
    parser.add_argument("--keep", action="store_true", help="the kinds that the header has")
    options = parser.parse_args()
    found = {}
    for path in options.results:
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            found[row["seed"], row["case"], row["pair"]] = row
    right = Counter[tuple[str, int]](recorded(options.models))
    for row in found.values():
        if row["result"] == "right":
            right.update(kinds_of(row))
    blamed: dict[tuple[str, int], str] = {}
    for row in found.values():
        is_float = row["pair"].endswith("float16")
        is_executed = is_float or not row["verdicts"].keys() & {"FLOAT", "ASSUMED"}
        if row["result"] in ("wrong", "doubted") and is_executed and kinds_of(row):
            rarest = min(kinds_of(row), key=right.__getitem__)
            if right[rarest] < _MANY:
                blamed[rarest] = f"{row['case']} {row['pair']}"
    text = HEADER.read_text("utf-8")
    rows: dict[str, int] = {}
    if options.keep:
        rows = {kind: int(bits, 16) for kind, bits in re.findall(r'{"(.*)", (0x\w+)}', text)}
    for kind, family in right.keys() - blamed.keys():
        rows[kind] = rows.get(kind, 0) | 1 << family
    begin, end = text.index("proven_kinds[] = {\n"), text.rindex("};\n")
    lines = [f'    {{"{kind}", 0x{rows[kind]:02x}}},\n' for kind in sorted(rows)]
    HEADER.write_text(text[:begin] + "proven_kinds[] = {\n" + "".join(lines) + text[end:], "utf-8")
    print(f"{len(rows)} kinds; to blame for wrong results:")
    for (kind, family), row in sorted(blamed.items()):
        print(f"  {FAMILIES[family][0]}: {kind}: {right[kind, family]} right, {row}")
    return 0


def kinds_of(row: dict[str, Any]) -> list[tuple[str, int]]:
    family = family_of(row["pair"].partition(":")[0])
    return [(kind, family) for kind in row.get("kinds", ())]


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

"""The pages of the reference that the package itself knows, printed as JSON: path -> Markdown.

The hooks run this program with the package's Python, because mkdocs has its own.
"""

from __future__ import annotations

import csv
import inspect
import json
import re
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from textwrap import dedent

from rknn_runtime.cli.main import COMMANDS, make_parser
from rknn_runtime.cli.verify import ASKED
from rknn_runtime.errors import RknnError, status_error
from rknn_runtime.npu.matmul_kinds import SOCS, MatmulType
from rknn_runtime.tools.doctor.rules import RULES
from rknn_runtime.tools.verify import questions_for

__all__ = ["PAGES", "causes", "exceptions", "options", "products", "questions"]

#: The answers of boards, which readers add.
ANSWERS = Path(__file__).resolve().parents[2] / "docs" / "answers.csv"
#: argparse's own groups; Python 3.9 has the last.
UNTITLED = ("positional arguments", "options", "optional arguments")
#: Modules with exceptions of their own.
MODULES = ("errors", "conversion.environment", "conversion.toolkit", "sim.emulator")


def table(titles: str, rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown; titles are separated by commas."""
    lines = [titles.split(","), *rows]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def parser_of(command: str) -> ArgumentParser:
    """The parser of a command, with its arguments."""
    (commands,) = (each.choices for each in make_parser([command])._actions if each.choices)
    return dict(commands)[command]  # type: ignore[call-overload, no-any-return]


def row(parser: ArgumentParser, action: Action) -> tuple[str, str]:
    """An argument as it is typed, and its help with the choices."""
    choices = ", ".join(f"`{each}`" for each in action.choices or ())
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    typed = f"{', '.join(action.option_strings)} {value}".strip()
    help_ = parser._get_formatter()._expand_help(action).replace("*", "\\*")
    return f"`{typed}`", f"{help_}{choices and f' ({choices})'}"


def options() -> str:
    """Every argument of every command, as ``--help`` says."""
    parts = ["# Options", "What `rknn-runtime COMMAND --help` prints."]
    for command in COMMANDS:
        parser = parser_of(command)
        about, _, examples = (parser.description or "").partition("\n\nExamples:\n")
        parts += [f"## {command}", about, f"```\n{dedent(examples)}```"]
        tables: dict[str, list[tuple[str, str]]] = {}
        for group in parser._action_groups:
            title = "argument" if group.title in UNTITLED else str(group.title)
            tables.setdefault(title, []).extend(
                row(parser, each)
                for each in group._group_actions
                if each.help != SUPPRESS and each.dest != "help"
            )
        parts += [table(f"{title},meaning", rows) for title, rows in tables.items()]
    return "\n\n".join(parts) + "\n"


def exceptions() -> str:
    """Each class with the built-in that it also is, its status, its cause and its cure."""
    for module in MODULES:
        import_module(f"rknn_runtime.{module}")
    codes = {type(status_error(code, "")): str(code) for code in range(-16, 0)}
    classes: list[type[RknnError]] = [RknnError]
    for each in classes:
        classes += [child for child in each.__subclasses__() if child not in classes]
    rows = []
    for each in sorted(classes, key=lambda child: child.__name__):
        text = each.advice if each in codes else inspect.getdoc(each)
        cause = " ".join(str(text).partition("\n\nAttributes:")[0].split())
        also = [f"`{base.__name__}`" for base in each.__bases__]
        name = f"`{each.__name__}`<br>{', '.join([*also, *codes.get(each, '').split()])}"
        rows.append((name, cause.replace("``", "`").replace("*", "\\*")))
    return f"""# Exceptions

Below each class: its bases, and the status of the runtime that raises it.

{table("exception,cause and cure", rows)}

::: rknn_runtime.errors
"""


def questions() -> str:
    """The emulator's assumptions, and the answers of boards."""
    answers: dict[str, list[str]] = {}
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            text = f"{row['soc']}: {row['answer']} ({row['source']})"
            answers.setdefault(row["question"], []).append(text)
    rows = {
        each.asks: (
            each.asks,
            each.assumed,
            "; ".join(sorted(set(each.answers) - {each.assumed})),
            "; ".join(answers.get(each.asks, ())),
        )
        for soc in ASKED
        for each in questions_for(soc)
    }
    titles = "question,the emulator assumes,or,boards answered"
    return f"""# Questions to boards

[`verify`](../emulator.md#ask-a-board) asks an NPU which of these rules it follows.
[Send your board's answers](../boards.md#send-your-results).

{table(titles, rows.values())}
"""


#: How texts of the doctor read without the facts of a machine.
WITHOUT_FACTS = {
    "facts.unfit.path": "the library",
    "facts.model.path": "the model",
    "facts.library.path": "the library here",
    "facts.lacking.file": "a file",
}
#: Causes of rules whose text is a fact alone.
CAUSES = {
    "chip-not-served": "this package does not serve the chip; the simulated NPU works here",
    "library-chip": "the library is for another chip, or older than the chip: RK3562 needs 1.5.0, "
    "RK3576 2.0.0",
    "library-damaged": "the library is a web page, a pointer of Git LFS, or damaged",
    "model-foreign": "the file is no model, or of another generation",
    "model-damaged": "the model is cut or damaged",
    "model-target": "the model is for another chip or runtime",
    "model-too-new": "the runtime is too old for the model",
    "versions-differ": "the model's toolkit is newer than the runtime",
    "toolkit-fault": "rknn-toolkit2 wrote wrong commands for a layer",
    "trial-failed": "the test failed",
    "old-packages": "a package is too old",
}


def told(text: str) -> str:
    """A text of a rule, in which facts are left out or three dots."""
    text = re.sub(r" \(\{found[^}]*\}\)|:? \{found\}$", "", " ".join(text.split()))
    text = re.sub(r"(?<!\{)\{([^{}]+)\}", lambda fact: WITHOUT_FACTS.get(fact[1], "…"), text)
    return text.replace("{{", "{").replace("}}", "}")


def causes() -> str:
    """Every rule of the doctor with its cause and its repair."""
    rows = {}
    for rule in RULES:
        cause = told(rule.text).replace("*", "\\*")
        if cause.startswith("….") or len(cause.split()) < 5:
            cause = CAUSES[rule.name]
        lines = [f"`{told(line)}`" for line in rule.cure.splitlines() if "{facts." not in line]
        rows[rule.name, cause] = (f"`{rule.name}`", "<br>".join([cause, *lines]))
    return f"""# Causes

Every cause that [`rknn-runtime doctor`](../troubleshooting.md) knows, in the order of its report.
It prints them with the facts of the machine, on which cures without a command depend.

{table("rule,cause and repair", rows.values())}
"""


def products() -> str:
    """The types, sizes and layouts that `Matmul` takes on each SoC."""
    socs = {name.upper(): soc for name, soc in SOCS.items() if soc.types}
    rows = []
    for dtype in MatmulType:
        cells = []
        for soc in socs.values():
            scales = ["per column"] * (dtype in soc.per_column) + ["group"] * (
                dtype in soc.per_group
            )
            cells.append(", ".join(scales or ["yes"]) if dtype in soc.types else "")
        if any(cells):
            rows.append((f"`{dtype.name}`", *cells))
    for name, kind in {
        "float16": MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32,
        "int8": MatmulType.INT8_MM_INT8_TO_INT32,
        "int4": MatmulType.INT4_MM_INT4_TO_INT16,
    }.items():
        tiles = (soc.tiles(kind) for soc in socs.values())
        rows.append((f"rows x columns of a tile, A in {name}", *(f"{k}x{n}" for k, n in tiles)))
    rows.append(("rows of a segment", *(str(soc.segment_k or "all") for soc in socs.values())))
    rows.append(("most rows of B", *(str(soc.limit_k or "") for soc in socs.values())))
    return f"""# Matrix products by SoC

The types that librknnrt 2.3.2 takes in [`Matmul`](../matmul.md), where B may have a scale per
column, or per column and group of rows.
K and N are multiples of the rows and columns of a tile, in which native B is stored.

{table(f"type,{','.join(socs)}", rows)}
"""


#: Path below docs/ -> the function that makes the page.
PAGES = {
    "api/options.md": options,
    "api/causes.md": causes,
    "api/matmul.md": products,
    "api/errors.md": exceptions,
    "api/questions.md": questions,
}

if __name__ == "__main__":
    print(json.dumps({path: made() for path, made in PAGES.items()}))

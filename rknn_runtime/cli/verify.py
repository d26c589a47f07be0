"""Check the emulator's assumptions on this board's NPU.

Runs about a dozen tiny models on the NPU and prints, for each rule that the
emulator has to assume, which one the NPU follows. With --library open it also
tests again which kinds of task the kernel runs. Paste the text into an issue.

Examples:
  rknn-runtime verify                # on a board, as a user who may use the NPU
  rknn-runtime verify --sim --json   # what the emulator assumes
  rknn-runtime verify --library open yolo.rknn   # the kinds of its tasks, too
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from functools import partial
from typing import Any

from rknn_runtime.cli.files import naming
from rknn_runtime.cli.options import add_library, add_switch
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.soc import SOCS, soc_of_this_machine

#: NPUs with questions; other SoCs with the same NPU get the same ones.
ASKED = ("rk3588", "rv1106", "rk3566", "rk3562", "rk3576")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="*", metavar="MODEL",
        help="with --library open: also ask about the tasks of this .rknn file",
    )  # fmt: skip
    add_library(parser, sim="ask the simulated NPU what it assumes")
    parser.add_argument(
        "--soc", choices=ASKED, help="ask the questions for this SoC; default: this machine's"
    )
    add_switch(parser, "--json", "print a JSON object")


def run(arguments: Namespace) -> int:
    """Return 0 if all answers are as assumed, else 1."""
    from rknn_runtime.npu.library import open_library
    from rknn_runtime.npu.model import Model
    from rknn_runtime.tools import verify

    library = open_library(arguments.library)
    if library.is_open:
        os.environ["RKNN_OPEN_ASK"] = "again"  # what the kernel executes, too
    elif arguments.models:
        raise RknnError("MODEL: only the open runtime (--library open) asks about kinds of task")
    soc = arguments.soc or _asked(library.is_simulated)
    questions = verify.questions_for(soc)
    findings = verify.ask(questions, partial(verify.run_model, library=library))
    title = verify.about(soc, library, questions[0])
    for model in arguments.models:
        with naming(model), Model(model, library=library):
            pass  # loading it asks
    driver = title.partition(", driver ")[2].split(" ")[0]
    kinds = verify.kept_kinds(driver) if library.is_open else None
    if arguments.json:
        entries = [finding.as_json() for finding in findings]
        report: dict[str, Any] = {"soc": soc, "about": title, "findings": entries}
        if kinds is not None:
            report["kinds"] = [asdict(kind) for kind in kinds]
        print(json.dumps(report))
    else:
        print("\n".join(verify.page(title, findings)))
        if kinds is not None:
            print("\n".join(verify.kinds_page(kinds, driver)))
        if library.has_npu:
            print("please paste all of this into an issue of rknn-runtime: it settles what the")
            print("emulator can only assume; add which board it is")
        else:
            print("simulated: this is what the emulator assumes; not yet compared with a board")
    return 0 if all(finding.is_assumed for finding in findings) else 1


def _asked(simulated: bool) -> str:
    """Return the SoC with this machine's NPU; for the simulated NPU one with all questions."""
    if simulated:
        return ASKED[0]
    soc = soc_of_this_machine()
    if soc is None:
        raise RknnError(
            "this machine names no known SoC: choose the questions with --soc, or ask the "
            "simulated NPU with --sim"
        )
    for name in ASKED:
        if SOCS[name].npu == soc.npu:
            return name
    raise RknnError(f"there are questions for {', '.join(ASKED)}, and none for {soc.name} yet")

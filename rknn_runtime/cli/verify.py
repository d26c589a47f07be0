"""Ask this board's NPU how it computes, if the emulator only assumes it.

Runs about a dozen tiny models on the NPU and says, for each rule that the
emulator had to assume, which one the NPU follows. The text is for an issue.

Examples:
  rknn-runtime verify                # on a board, as a user who may use the NPU
  rknn-runtime verify --sim --json   # what the emulator assumes
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from rknn_runtime.cli.options import add_library, add_switch
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.soc import SOCS, soc_of_this_machine

if TYPE_CHECKING:
    import numpy as np

#: NPUs with questions; other SoCs with the same NPU get the same ones.
ASKED = ("rk3588", "rv1106", "rk3566", "rk3562", "rk3576")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_library(parser, sim="ask the simulated NPU what it assumes")
    parser.add_argument(
        "--soc", choices=ASKED, help="ask the questions for this SoC (this machine's)"
    )
    add_switch(parser, "--json", "print a JSON object")


def run(arguments: Namespace) -> int:
    """Ask, and print.

    Returns:
        0 if all answers are as assumed, else 1.
    """
    from rknn_runtime.npu.library import open_library
    from rknn_runtime.tools.verify import about, ask, kept_answers, page, questions_for, run_model

    library = open_library(arguments.library)
    if library.is_open:
        os.environ["RKNN_OPEN_ASK"] = "again"  # what the kernel executes, too
    soc = arguments.soc or _asked(library.is_simulated)
    questions = questions_for(soc)

    def on_library(model: bytes, image: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return run_model(model, image, library)

    findings = ask(questions, on_library)
    title = about(soc, library, questions[0])
    kinds = kept_answers() if library.is_open else None
    if arguments.json:
        entries = [finding.as_json() for finding in findings]
        report = {"soc": soc, "about": title, "findings": entries}
        print(json.dumps(report if kinds is None else {**report, "kinds": kinds}))
    else:
        print("\n".join(page(title, findings)))
        if kinds is not None:
            bad = [line for line in kinds if not line.startswith("good")]
            print(f"{len(kinds) - len(bad)} kinds of task run on this kernel, {len(bad)} do not")
            print("".join(f"  {line}\n" for line in bad), end="")
        _say_what_it_is(library.is_simulated)
    return 0 if all(finding.is_assumed for finding in findings) else 1


def _say_what_it_is(simulated: bool) -> None:
    if simulated:
        print("simulated: this is what the emulator assumes; not yet compared with a board")
    else:
        print("please paste all of this into an issue of rknn-runtime: it settles what the")
        print("emulator can only assume; add which board it is")


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

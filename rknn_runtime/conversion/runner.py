"""The program that the toolkit's own Python runs: one job, described in a JSON file.

`rknn_runtime.conversion.toolkit` starts it. It imports nothing of this package, which that Python
does not have. The result is a second file, since the toolkit prints as it likes.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: The start of lines that name the current step.
STEP = "@rknn-runtime "


class Refused(Exception):
    """A step of the toolkit did not return 0."""


def main(job_path: str, result_path: str) -> int:
    """Do a job from a file and write the result."""
    result = do(json.loads(Path(job_path).read_text("utf-8")), _say)
    Path(result_path).write_text(json.dumps(result), "utf-8")
    return int(result["error"] is not None)


def do(job: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    """Do a job, and call `say` with each step.

    Returns:
        ``step``, the last step, and ``error``, None after success.
    """
    result: dict[str, Any] = {"step": "import", "error": None}
    toolkit: Any = None
    try:
        say("import")
        from rknn.api import RKNN

        toolkit = RKNN(**job.get("init", {}))
        for name, work in _STEPS.items():
            if name in job:
                result["step"] = name
                say(name)
                work(toolkit, job[name])
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the toolkit also exits
        words = traceback.format_exception_only(type(error), error)
        result["error"] = "".join(words).strip()
        if not isinstance(error, Refused):
            traceback.print_exc()
    finally:
        if toolkit is not None:
            toolkit.release()
    return result


def _say(step: str) -> None:
    print(f"{STEP}{step}", flush=True)


def _checked(call: str, code: object) -> None:
    if code not in (0, None):
        raise Refused(f"{call} returned {code}")


def _config(toolkit: Any, arguments: dict[str, Any]) -> None:
    _checked("config", toolkit.config(**arguments))


def _load(toolkit: Any, load: dict[str, Any]) -> None:
    arguments = dict(load["arguments"])
    values = arguments.get("input_initial_val")
    if values is not None:
        import numpy as np

        arguments["input_initial_val"] = [
            None if each is None else np.asarray(each) for each in values
        ]
    _checked(load["call"], getattr(toolkit, load["call"])(**arguments))


def _build(toolkit: Any, arguments: dict[str, Any]) -> None:
    _checked("build", toolkit.build(**arguments))


def _export(toolkit: Any, path: str) -> None:
    _checked("export_rknn", toolkit.export_rknn(path))


def _simulate(toolkit: Any, simulate: dict[str, Any]) -> None:
    """Run the toolkit's simulator on input files, and write an ``.npz`` of outputs for each."""
    import numpy as np

    _checked("init_runtime", toolkit.init_runtime())
    for i, paths in enumerate(simulate["inputs"]):
        inputs = [np.load(path) for path in paths]
        outputs = toolkit.inference(inputs, data_format=["nchw"] * len(inputs))
        if outputs is None:
            raise Refused("inference returned nothing")
        np.savez(Path(simulate["folder"]) / f"{i}.npz", *outputs)


def _analyse(toolkit: Any, arguments: dict[str, Any]) -> None:
    _checked("accuracy_analysis", toolkit.accuracy_analysis(**arguments))


#: In this order.
_STEPS: dict[str, Callable[[Any, Any], None]] = {
    "config": _config,
    "load": _load,
    "build": _build,
    "export": _export,
    "simulate": _simulate,
    "accuracy_analysis": _analyse,
}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

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
    result = do(json.loads(Path(job_path).read_text("utf-8")), _say)
    Path(result_path).write_text(json.dumps(result), "utf-8")
    return int(result["error"] is not None)


def do(job: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    """Do a job; return ``step``, the last step, and ``error``, None after success."""
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


def _call(toolkit: Any, name: str, *arguments: Any, **options: Any) -> None:
    code = getattr(toolkit, name)(*arguments, **options)
    if code not in (0, None):
        raise Refused(f"{name} returned {code}")


def _load(toolkit: Any, load: dict[str, Any]) -> None:
    arguments = dict(load["arguments"])
    values = arguments.get("input_initial_val")
    if values is not None:
        import numpy as np

        arguments["input_initial_val"] = [
            None if each is None else np.asarray(each) for each in values
        ]
    _call(toolkit, load["call"], **arguments)


def _hybrid(toolkit: Any, arguments: dict[str, Any]) -> None:
    """Calibrate, replace ranges and types in the toolkit's table of tensors, and build.

    ``ranges`` has the smallest and the largest value of tensors by name. ``wide`` are tensors to
    keep in float16; the tensors fused into them go along, down to the tensors in ``stored``.
    ``table`` is a file that receives the toolkit's own ranges.
    """
    from ruamel.yaml import YAML  # type: ignore[import-not-found]  # a part of the toolkit

    name, yaml = arguments["name"], YAML(typ="safe")
    _call(toolkit, "hybrid_quantization_step1", dataset=arguments["dataset"])
    path = Path(f"{name}.quantization.cfg")
    table = yaml.load(path)
    known = {
        tensor: row
        for tensor, row in table["quantize_parameters"].items()
        if row["qmethod"] == "layer" and row["min"] and row["max"]
    }
    found = {tensor: [float(row["min"][0]), float(row["max"][0])] for tensor, row in known.items()}
    Path(arguments["table"]).write_text(json.dumps(found))
    for tensor, (least, most) in arguments["ranges"].items():
        if tensor in known:
            known[tensor].update(min=[least], max=[most])
    wide = _fused(f"{name}.model", arguments["wide"], set(arguments["stored"]))
    table["custom_quantize_layers"] = {tensor: "float16" for tensor in wide if tensor in known}
    yaml.dump(table, path)
    _call(toolkit, "hybrid_quantization_step2", f"{name}.model", f"{name}.data", str(path))


def _fused(model: str, wide: list[str], stored: set[str]) -> list[str]:
    """Add the tensors that only exist inside of fused layers."""
    if not wide:
        return []
    import onnx  # type: ignore[import-not-found, unused-ignore]

    producers = {name: node for node in onnx.load(model).graph.node for name in node.output}
    todo = list(wide)
    found: dict[str, None] = {}
    while todo:
        name = todo.pop()
        found[name] = None
        inside = producers[name].input if name in producers else ()
        todo += [each for each in inside if each in producers and each not in {*stored, *found}]
    return list(found)


def _simulate(toolkit: Any, simulate: dict[str, Any]) -> None:
    """Run the toolkit's simulator on input files, and write an ``.npz`` of outputs for each."""
    import numpy as np

    _call(toolkit, "init_runtime")
    for i, paths in enumerate(simulate["inputs"]):
        inputs = [np.load(path) for path in paths]
        outputs = toolkit.inference(inputs, data_format=["nchw"] * len(inputs))
        if outputs is None:
            raise Refused("inference returned nothing")
        np.savez(Path(simulate["folder"]) / f"{i}.npz", *outputs)


#: In this order.
_STEPS: dict[str, Callable[[Any, Any], None]] = {
    "config": lambda toolkit, given: _call(toolkit, "config", **given),
    "load": _load,
    "build": lambda toolkit, given: _call(toolkit, "build", **given),
    "hybrid": _hybrid,
    "export": lambda toolkit, path: _call(toolkit, "export_rknn", path),
    "simulate": _simulate,
    "accuracy_analysis": lambda toolkit, given: _call(toolkit, "accuracy_analysis", **given),
}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Split the wheel of the whole package in two: what a program on a board needs, and the tools.

The sources are one package, and `pip install` of them gives the whole. A board that runs a model
needs the half of it that loads, runs and decodes: that is the wheel of its platform. The rest has
no compiled code, so that one wheel serves every platform; its name is that of the first with
`-tools`, and it puts its files beside the others'.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from project import run_wheel

#: The rooms of the package that go into the second wheel. None of the others imports one of
#: them, but for names of the package itself that are imported when they are first used.
TOOLS = (
    *("accuracy", "bench", "cli", "conversion", "dask", "doctor", "examples", "health"),
    *("serve", "sklearn", "verify"),
)
#: Extras of the package that are of no use without the second wheel.
EXTRAS = ("tools", "convert", "sklearn", "dask", "parquet")
METADATA = """\
Metadata-Version: 2.4
Name: rknn-runtime-tools
Version: {version}
Summary: The tools of rknn-runtime: its command line, conversion, accuracy, scikit-learn and Dask
Requires-Python: >=3.9
License-Expression: MIT
License-File: LICENSE
Requires-Dist: rknn-runtime=={version}
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: rknn-runtime ({version})
Root-Is-Purelib: true
Tag: py3-none-any
"""


def is_tool(name: str) -> bool:
    """Return whether a file of the whole package belongs into the wheel of the tools."""
    return name.startswith(tuple(f"rknn_runtime/{room}/" for room in TOOLS))


def split(wheel: Path, environment: dict[str, str]) -> tuple[Path, Path]:
    """Replace the wheel of the whole by two in its folder: the platform's, and the tools'."""
    with tempfile.TemporaryDirectory() as folder:
        run_wheel("unpack", "--dest", folder, wheel, env=environment)
        (whole,) = Path(folder).iterdir()
        version = whole.name.partition("-")[2]
        tools = whole.with_name(f"rknn_runtime_tools-{version}")
        for room in TOOLS:
            (tools / "rknn_runtime").mkdir(parents=True, exist_ok=True)
            shutil.move(whole / "rknn_runtime" / room, tools / "rknn_runtime" / room)
        of_whole, of_tools = (part / f"{part.name}.dist-info" for part in (whole, tools))
        shutil.copytree(of_whole / "licenses", of_tools / "licenses")
        (of_tools / "METADATA").write_text(METADATA.format(version=version), "utf-8")
        (of_tools / "WHEEL").write_text(WHEEL.format(version=version), "utf-8")
        require_tools(of_whole / "METADATA", version)
        wheel.unlink()
        for part in (whole, tools):
            run_wheel("pack", "--dest-dir", wheel.parent, part, env=environment)
    return wheel, wheel.with_name(f"{tools.name}-py3-none-any.whl")


def require_tools(metadata: Path, version: str) -> None:
    """Have the extras that need the tools require them."""
    text = metadata.read_text("utf-8")
    for extra in EXTRAS:
        provided = f"Provides-Extra: {extra}\n"
        if text.count(provided) != 1:
            raise SystemExit(f"the package has no extra {extra!r}")
        needed = f'Requires-Dist: rknn-runtime-tools=={version}; extra == "{extra}"\n'
        text = text.replace(provided, provided + needed)
    metadata.write_text(text, "utf-8")

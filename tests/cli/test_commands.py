"""The commands by their names: their imports, and the text of ``--help``."""

from __future__ import annotations

import resource
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from paths import PROJECT
from processes import python
from videos import write_video

from rknn_runtime.cli import main
from rknn_runtime.cli.main import COMMANDS
from rknn_runtime.sim import Control


def test_help_names_every_command_and_imports_none() -> None:
    """Not even NumPy, which takes most of the time, and only a running command needs."""
    code = (
        "import sys; from rknn_runtime.cli import main\n"
        "try: main(['--help'])\n"
        "finally: print(sorted({'numpy', 'rknn_runtime.cli.info'} & set(sys.modules)))"
    )
    done = python(code)
    assert done.stdout.endswith("[]\n")
    assert all(f"\n    {name}" in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_is_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Usage, the docstring of its module in lines that fit a terminal, and its options."""
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    said = sys.modules[f"rknn_runtime.cli.{name.replace('-', '_')}"].__doc__
    assert said is not None and said.strip() in shown
    assert f"usage: rknn-runtime {name}" in shown
    assert "options:" in shown or "optional arguments:" in shown  # as Python 3.9 calls them
    prose = said.partition("Examples:")[0]
    assert max(map(len, prose.splitlines())) <= 80


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Who types the name alone learns what there is; it is a wrong command line all the same."""
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert all(f"\n    {name}" in told.err for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record", "m.rknn", "x.jpg", "-o", "b", "--sim"], "this command does without it"),
        (["detect", "m.rknn", "x.jpg", "--confidence", "0.5"], "did you mean --conf?"),
    ],
)
def test_an_unknown_option_gets_the_usage_of_its_command(words, said, capsys) -> None:
    """And the name of the option that may be meant."""
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert f"usage: rknn-runtime {words[0]}" in told
    assert f"unrecognized arguments: {next(w for w in words if w.startswith('--'))}" in told
    assert said in told


@pytest.mark.parametrize("allowed", range(6))
def test_a_limit_of_threads_is_one_line(
    allowed: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Whichever thread is refused, as by RLIMIT_NPROC; and every context is released."""
    start, started = threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) > allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    model = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
    video = tmp_path / "video.avi"
    write_video(video, [np.zeros((64, 64, 3), np.uint8)] * 3, 10)
    status = main(["detect", str(model), str(video), "--sim", "--contexts", "2", "--quiet"])
    said = capsys.readouterr().err
    assert Control().live == (0, 0, 0)
    if status:
        assert said == "rknn-runtime: can't start new thread: raise the limit of `ulimit -u`\n"
    assert (status == 0) == (len(started) <= allowed)


def test_a_limit_of_memory_stops_threads_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their stacks find no room below ``ulimit -v``, so that limit is named first."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (400 << 20, 400 << 20))

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    model = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
    photo = PROJECT / "examples" / "scenes" / "scene.png"
    assert main(["detect", str(model), str(photo), "--sim"]) == 1
    assert capsys.readouterr().err.endswith("raise the limit of `ulimit -v` or `ulimit -u`\n")


def test_without_a_library_the_options_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line says how this program, and not a Python one, gets the simulated NPU."""
    model = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
    monkeypatch.setenv("RKNN_RUNTIME_LIBRARY", "/nowhere/librknnrt.so")
    assert main(["bench", str(model)]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "--sim" in last and "--library" in last

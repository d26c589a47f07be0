"""`RKNN`: the class of the vendor's ``rknn.api``, in the toolkit's own environment.

The toolkit needs old packages and Python 3.12 at most. This class has its interface on every
Python: each call runs in a process of the environment that `toolkit_python` keeps. Models that
only run, on this machine, need no toolkit.
"""

from __future__ import annotations

import builtins
import os
import shutil
import subprocess
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from rknn_runtime.conversion.environment import clean_environment, toolkit_python
from rknn_runtime.conversion.remote_worker import receive, send
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.soc import find_soc, soc_of_this_machine
from rknn_runtime.npu.library import VARIABLE
from rknn_runtime.rknnlite.lite import Cores, RKNNLite


class RKNN(Cores):
    """A model in the vendor's toolkit 2.3.2, with all methods of its ``rknn.api.RKNN``.

    After `load_rknn`, and after ``init_runtime(target=...)`` with the SoC of this machine, the
    object is an `RKNNLite`. The first call for the toolkit installs it into the user's cache, as
    ``rknn-runtime convert`` does, and can raise `ToolkitEnvironmentError`.
    Methods take and return numbers, texts, lists and arrays, like the toolkit's. Functions and
    classes of the program, such as custom operators, cannot be passed. An exception has the
    toolkit's type if Python has it, otherwise it is an `RknnError`.
    """

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        """Start nothing yet.

        Args:
            verbose: Print all that the toolkit says.
            verbose_file: A file for the same.
        """
        options = {"verbose": verbose, "verbose_file": verbose_file}
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [("__init__", (), options)]
        self._has_torch = self._is_released = False
        self._process: _Process | None = None
        self._lite: RKNNLite | None = None

    def __getattr__(self, name: str) -> Any:
        """Return a method of the toolkit's class, or of the loaded `RKNNLite`."""
        if name.startswith("_"):
            raise AttributeError(name)
        if self._lite is not None:
            return getattr(self._lite, name)
        return lambda *args, **options: self._call(name, *args, **options)

    def load_rknn(self, path: str, *args: Any, **options: Any) -> int:
        """Choose a file for `init_runtime`; for the arguments see `RKNNLite.load_rknn`."""
        if self._lite is None:
            self._lite = RKNNLite(**self._calls[0][2])
        return self._lite.load_rknn(path, *args, **options)

    def init_runtime(self, target: str | None = None, *args: Any, **options: Any) -> Any:
        """Load the model: into this machine's NPU if it is the target, else as the toolkit does.

        Args:
            target: A SoC. None runs what was built in the toolkit's simulator.
            *args: Of `RKNNLite.init_runtime`, or of the toolkit's method.
            **options: The same.

        Returns:
            0, or -1 on failure.
        """
        if self._lite is None and _is_here(target):
            folder = tempfile.mkdtemp(prefix="rknn-built-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = str(Path(folder, "model.rknn"))
            if self._call("export_rknn", path) != 0:
                return -1
            self.load_rknn(path)
        if self._lite is None:
            return self._call(
                "init_runtime", *(() if target is None else (target,)), *args, **options
            )
        return self._lite.init_runtime(target, *args, **options)

    def release(self) -> None:
        """Release the model and end the toolkit's process; idempotent."""
        self._is_released = True
        self._end()
        if self._lite is not None:
            self._lite.release()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if name == "load_pytorch" and not self._has_torch:
            self._has_torch = True  # the steps so far are repeated where PyTorch is
            self._end()
        if self._is_released:
            raise RknnError(f"{name}: the object was released: make another one")
        if self._process is None:
            self._process = _Process(toolkit_python(with_torch=self._has_torch))
            for call in self._calls:
                self._process.ask(*call)
        answer = self._process.ask(name, args, options)
        self._calls.append((name, args, options))
        return answer


def _is_here(target: Any) -> bool:
    """Tell whether a target is this machine, or the simulated one that the user chose."""
    if not isinstance(target, str):
        return False
    soc = soc_of_this_machine()
    return bool(os.environ.get(VARIABLE)) or (soc is not None and find_soc(target) == soc)


class _Process:
    """A process of the toolkit's Python that answers calls one by one."""

    def __init__(self, python: str) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        program = str(Path(__file__).with_name("remote_worker.py"))
        self._popen = subprocess.Popen(
            [python, "-u", program, str(theirs_in), str(theirs_out)],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            env=clean_environment(),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out = os.fdopen(ours_out, "wb")
        self._in = os.fdopen(ours_in, "rb")
        self.end = weakref.finalize(self, _end, self._popen, self._out, self._in)

    def ask(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Make a call and return its result, or raise its exception."""
        try:
            send(self._out, (name, args, options))
        except (TypeError, AttributeError) as error:  # of pickle
            raise RknnError(
                f"{name}: expected numbers, texts, lists and arrays, which can go to the toolkit's "
                f"process: {error}"
            ) from None
        except BrokenPipeError:  # it ended, which `receive` tells
            pass
        try:
            result, kind, message = receive(self._in)
        except EOFError:
            raise RknnError(
                f"{name}: the toolkit's process ended with status {self._popen.wait()}"
            ) from None
        if kind is None:
            return result
        raised = getattr(builtins, kind, None)
        if isinstance(raised, type) and issubclass(raised, Exception):
            raise raised(message)
        raise RknnError(f"{name}: {kind}: {message}")


def _end(popen: subprocess.Popen[bytes], *streams: Any) -> None:
    for stream in streams:
        with suppress(OSError):  # when the process has ended
            stream.close()
    try:
        popen.wait(10)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()

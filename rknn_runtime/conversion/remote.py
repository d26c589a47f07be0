"""`RKNN`: the class of the vendor's ``rknn.api``, in the toolkit's own environment.

The toolkit needs old packages and Python 3.12 at most. This class has its interface on every
Python: each call runs in a process of the environment that `toolkit_python` keeps.
"""

from __future__ import annotations

import builtins
import os
import subprocess
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from rknn_runtime.conversion.environment import clean_environment, toolkit_python
from rknn_runtime.conversion.remote_worker import receive, send
from rknn_runtime.errors import RknnError


class RKNN:
    """A model in the vendor's toolkit 2.3.2, with all methods of its ``rknn.api.RKNN``.

    The first object installs the toolkit into the user's cache, as ``rknn-runtime convert`` does.
    Methods take and return numbers, texts, lists and arrays, like the toolkit's. Functions and
    classes of the program, such as custom operators, cannot be passed. An exception has the
    toolkit's type if Python has it, otherwise it is an `RknnError`.
    """

    NPU_CORE_AUTO: ClassVar[int] = 0
    NPU_CORE_0: ClassVar[int] = 1
    NPU_CORE_1: ClassVar[int] = 2
    NPU_CORE_2: ClassVar[int] = 4
    NPU_CORE_0_1: ClassVar[int] = 3
    NPU_CORE_0_1_2: ClassVar[int] = 7
    NPU_CORE_ALL: ClassVar[int] = 0xFFFF

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        """Start the toolkit's process.

        Args:
            verbose: Print all that the toolkit says.
            verbose_file: A file for the same.

        Raises:
            ToolkitEnvironmentError: The toolkit cannot be installed here.
        """
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._has_torch = False
        self._process: _Process | None = None
        self._call("__init__", verbose=verbose, verbose_file=verbose_file)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a method of the toolkit's class."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **options: self._call(name, *args, **options)

    def release(self) -> None:
        """End the toolkit's process; idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if name == "load_pytorch" and not self._has_torch:
            self._has_torch = True  # the steps so far are repeated where PyTorch is
            self.release()
        if self._process is None:
            if self._calls and not self._has_torch:
                raise RknnError(f"{name}: the object was released: make another one")
            self._process = _Process(toolkit_python(with_torch=self._has_torch))
            for call in self._calls:
                self._process.ask(*call)
        answer = self._process.ask(name, args, options)
        self._calls.append((name, args, options))
        return answer


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

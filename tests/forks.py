"""Forked children of a test."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


def in_child(work: Callable[[], object]) -> None:
    """Call a function in a forked child, where it must not raise."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0

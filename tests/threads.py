"""Threads of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any


def in_threads(work: Callable[..., object], arguments: Iterable[tuple[Any, ...]]) -> None:
    """Call a function in a thread for each tuple of arguments, and wait for all of them.

    Raises:
        BaseException: What the first of them raised.
    """
    errors: list[BaseException] = []

    def run(*given: Any) -> None:
        try:
            work(*given)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=given) for given in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]

"""Threads of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

Arguments = Iterable[tuple[Any, ...]]


@contextmanager
def running(work: Callable[..., object], arguments: Arguments) -> Iterator[None]:
    """Call a function in a thread for each tuple of arguments, and wait for all at the end.

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
    try:
        yield
    finally:
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def in_threads(work: Callable[..., object], arguments: Arguments) -> None:
    """The same with nothing to do meanwhile."""
    with running(work, arguments):
        pass

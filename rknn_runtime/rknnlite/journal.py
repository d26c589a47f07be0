"""Where the messages of an `RKNNLite` go."""

from __future__ import annotations

import logging
import os
import weakref
from typing import NamedTuple

__all__ = ["Journal", "new_logger"]

NAME = "rknn_runtime.rknnlite"
_FORMAT = logging.Formatter("%(levelname).1s %(name)s %(message)s")


class Journal(NamedTuple):
    """Where scripts look for the logger, as on ``rknn_log`` of the vendor's class."""

    logger: logging.Logger


def new_logger(verbose: bool, path: str | os.PathLike[str] | None) -> logging.Logger:
    """Make a logger of one object's own, so that no other's level or file changes.

    Args:
        verbose: Let debug messages through, to standard error unless the program has configured
            logging.
        path: Of a file that gets all messages, too; one that cannot be written is complained
            about.

    Returns:
        A child of the program's logger ``rknn_runtime``, which its configuration applies to.

    Raises:
        TypeError: ``path`` is no path.
    """
    logger = logging.Logger(NAME)
    logger.parent = logging.getLogger("rknn_runtime")
    if verbose:
        logger.setLevel(logging.DEBUG)
        if not logger.hasHandlers():
            logger.addHandler(_formatted(logging.StreamHandler()))
    if path is not None:
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            logger.warning("verbose_file: %s", error)
        else:
            logger.addHandler(_formatted(handler))
            weakref.finalize(logger, handler.close)
    return logger


def _formatted(handler: logging.Handler) -> logging.Handler:
    handler.setFormatter(_FORMAT)
    return handler

"""The program that the toolkit's own Python runs for `rknn_runtime.conversion.remote`.

It imports nothing of this package, which that Python does not have. Calls and answers are pickles
after their length; arrays go as ``.npy``, since NumPy 1 cannot read pickles of NumPy 2.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
from typing import Any, BinaryIO

import numpy as np


class _Pickler(pickle.Pickler):
    def persistent_id(self, thing: Any) -> bytes | None:
        if not isinstance(thing, (np.ndarray, np.generic)) or thing.dtype.hasobject:
            return None
        data = io.BytesIO()
        np.save(data, thing, allow_pickle=False)
        return data.getvalue()


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, data: Any) -> Any:
        return np.load(io.BytesIO(data), allow_pickle=False)


def send(stream: BinaryIO, thing: Any) -> None:
    data = io.BytesIO()
    _Pickler(data, 4).dump(thing)
    stream.write(struct.pack("<Q", data.tell()) + data.getvalue())
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read an object from a pipe; raise EOFError at its end."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    return _Unpickler(io.BytesIO(stream.read(struct.unpack("<Q", head)[0]))).load()


def main(calls: BinaryIO, answers: BinaryIO) -> None:
    """Answer calls until the pipe is closed."""
    toolkit: Any = None
    while True:
        try:
            name, args, options = receive(calls)
        except EOFError:
            break
        try:
            if name == "__init__":
                from rknn.api import RKNN

                toolkit, result = RKNN(*args, **options), None
            else:
                result = getattr(toolkit, name)(*args, **options)
            answer: tuple[Any, str | None, str] = (result, None, "")
        except BaseException as error:  # the toolkit also exits
            answer = (None, type(error).__name__, str(error))
        try:
            send(answers, answer)
        except (TypeError, AttributeError, pickle.PicklingError):
            send(answers, (None, None, ""))  # an object of the toolkit's own
    if toolkit is not None:
        toolkit.release()


if __name__ == "__main__":
    main(os.fdopen(int(sys.argv[1]), "rb"), os.fdopen(int(sys.argv[2]), "wb"))

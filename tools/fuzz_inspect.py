"""Fuzz the reader of model files, guided by coverage.

::

    pip install -e '.[fuzz]'
    python tools/fuzz_inspect.py CORPUS_DIRECTORY tests/data/models -max_total_time=600

New inputs go to the first directory. Arguments are libFuzzer's. Only a description or an
`InvalidModelError` may come of an input; libFuzzer itself watches time and memory.
"""

from __future__ import annotations

import contextlib
import sys

import atheris

with atheris.instrument_imports(include=["rknn_runtime"]):
    from rknn_runtime.errors import InvalidModelError
    from rknn_runtime.modelfile import reader


def read_one(data: bytes) -> None:
    """Read one input: its header, its needs, all of it."""
    for ask in (reader.ModelFile.needs, reader.ModelFile.info):
        with contextlib.suppress(InvalidModelError):
            ask(reader.ModelFile(data))


def main() -> None:
    atheris.Setup([*sys.argv, "-max_len=131072", "-timeout=1", "-rss_limit_mb=512"], read_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Records of a chunk in a file that is there whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FORMATS", "Format", "format_of"]

Records = Sequence[dict[str, Any]]


class Format(NamedTuple):
    """How the records of a chunk are kept.

    Attributes:
        suffix: Of the file's name.
        write: Called with a path and the records.
        read: Called with a path, returns the records.
    """

    suffix: str
    write: Callable[[Path, Records], None]
    read: Callable[[Path], list[dict[str, Any]]]

    def keep(self, path: Path, records: Records) -> None:
        """Write a file that appears at `path` whole, or not at all."""
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        os.close(handle)
        part = Path(name)
        try:
            self.write(part, records)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink()
            raise


def _write_lines(path: Path, records: Records) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError('format="parquet" needs PyArrow: pip install pyarrow') from None
    return pyarrow


def _schema(pa: Any) -> Any:
    """The same columns for every chunk, so that all files are one table."""
    points = pa.list_(pa.list_(pa.float64()))
    detection = {
        "class_id": pa.int64(),
        "label": pa.string(),
        "confidence": pa.float64(),
        "xyxy": pa.list_(pa.float64()),
        "keypoints": points,
        "xyxyxyxy": points,
        "mask": pa.struct({"size": pa.list_(pa.int64()), "counts": pa.list_(pa.int64())}.items()),
    }
    return pa.schema(
        {
            "source": pa.string(),
            "frame": pa.int64(),
            "time_s": pa.float64(),
            "error": pa.string(),
            "detections": pa.list_(pa.struct(detection.items())),
        }.items()
    )


def _write_table(path: Path, records: Records) -> None:
    pa = _pyarrow()
    table = pa.Table.from_pylist(list(records), schema=_schema(pa))
    pa.parquet.write_table(table, path, compression="zstd")


def _read_table(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _pyarrow().parquet.read_table(path).to_pylist()
    for row in rows:
        row["detections"] = row["detections"] and [_present(each) for each in row["detections"]]
    return [_present(row) for row in rows]


def _present(row: dict[str, Any]) -> dict[str, Any]:
    """A column that a record has no value for is None in a table."""
    return {name: value for name, value in row.items() if value is not None}


FORMATS = {
    "jsonl": Format(".jsonl", _write_lines, _read_lines),
    "parquet": Format(".parquet", _write_table, _read_table),
}


def format_of(name: str) -> Format:
    """Return a format by its name.

    Raises:
        ImportError: The package that it needs is missing.
        TypeError: Not a string.
        ValueError: There is no such format.
    """
    if not isinstance(name, str):
        raise TypeError(f"format: expected a string, got {type(name).__name__}")
    if name not in FORMATS:
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, got {name!r}")
    if name == "parquet":
        _pyarrow()
    return FORMATS[name]

"""``python -m rknn_runtime.sklearn model.pkl out.rknn --target-platform rk3588``."""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.soc import SOCS
from rknn_runtime.sklearn.conversion import convert

__all__ = ["main"]

_WARNING = (
    "reading {} as a pickle, which runs whatever code is in it: take only files that you or people "
    "you trust have made"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Convert a pickled estimator; return 0, or 1 with the reason on standard error."""
    arguments = _parser().parse_args(argv)
    try:
        print(f"warning: {_WARNING.format(arguments.model)}", file=sys.stderr)
        estimator = _unpickled(arguments.model)
        examples = arguments.example_input
        rows = None if examples is None else np.load(examples, allow_pickle=False)
        convert(
            estimator,
            arguments.out,
            arguments.target_platform,
            arguments.quantization,
            rows,
            batch_size=arguments.batch_size,
        )
    except (RknnError, OSError, TypeError, ValueError, ImportError) as error:
        print(f"rknn_runtime.sklearn: {error}", file=sys.stderr)
        return 1
    print(f"wrote {arguments.out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rknn_runtime.sklearn",
        description="Convert a pickled MLPClassifier, MLPRegressor, or a pipeline of a "
        "StandardScaler and one of them. A pickle runs code when it is read: take only your own.",
    )
    parser.add_argument("model", type=Path, help="the estimator, as pickle or joblib wrote it")
    parser.add_argument("out", type=Path, help="the .rknn file to write")
    parser.add_argument("--target-platform", required=True, choices=SOCS, metavar="SOC")
    parser.add_argument("--quantization", action="store_true", help="int8; else float16")
    parser.add_argument("--example-input", type=Path, help=".npy file with rows to quantize with")
    parser.add_argument("--batch-size", type=int, default=1, help="rows of one inference")
    return parser


def _unpickled(path: Path) -> Any:
    with path.open("rb") as file:
        try:
            return pickle.load(file)
        except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError) as error:
            raise ValueError(f"{path}: no pickle of an estimator ({error})") from error


if __name__ == "__main__":
    sys.exit(main())

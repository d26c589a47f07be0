"""Tell what is in pictures, with a classifier such as MobileNet or ResNet.

    python classify.py MODEL PICTURE [PICTURE ...] [--labels names.txt] [--library sim]

The labels are one name per line, in the order of the classes; without, those in the model's
custom string count, {"labels": [...]}, or the classes' numbers are printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rknn_runtime import Classifier, Model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("pictures", nargs="+")
    parser.add_argument("--labels", type=Path, help="text file, one name per line")
    parser.add_argument("--top", type=int, default=5, help="how many classes to print")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    args = parser.parse_args()

    labels = args.labels.read_text(encoding="utf-8").splitlines() if args.labels else None
    with Model(args.model, library=args.library) as model:
        classifier = Classifier(model, labels, top_k=args.top)
        names = classifier.labels or [f"class {i}" for i in range(classifier.decoder.num_classes)]
        for picture in args.pictures:
            print(f"{picture}:")
            for name, confidence in classifier(picture).named(names):
                print(f"  {confidence:6.1%}  {name}")


if __name__ == "__main__":
    main()

"""Classify images with a model such as MobileNet or ResNet.

    python classify.py MODEL IMAGE [IMAGE ...] [--labels names.txt] [--library sim]

The labels are a file with one name per line in the order of the classes, .json or .yaml; without
them, those in the model's custom string, {"labels": [...]}, or the numbers of the classes are used.
"""

from __future__ import annotations

import argparse

from _program import run

from rknn_runtime import Classifier, Model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("images", nargs="+")
    parser.add_argument("--labels", help="names of the classes: a .txt, .json or .yaml file")
    parser.add_argument("--top", type=int, default=5, help="how many classes to print")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    args = parser.parse_args()

    with Model(args.model, library=args.library) as model:
        classifier = Classifier(model, args.labels, top_k=args.top)
        names = classifier.labels or [f"class {i}" for i in range(classifier.decoder.num_classes)]
        for image in args.images:
            print(f"{image}:")
            for name, confidence in classifier(image).named(names):
                print(f"  {confidence:6.1%}  {name}")


if __name__ == "__main__":
    run(main)

"""Find objects by their names with YOLO-World: two models in a chain.

    python yolo_world.py CLIP_TEXT YOLO_WORLD IMAGE --words "bus,shoe" --tokenizer tokenizer.json

Both models come from the model zoo's yolo_world: CLIP's text network turns each word into a vector,
once; the detector takes an image and the vectors. TOKENIZER is CLIP's tokenizer.json from Hugging
Face (pip install tokenizers).
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from _program import image_file, run

from rknn_runtime import Detections, Model
from rknn_runtime.vision import letterbox
from rknn_runtime.vision.heads import find_head


def embed(model: Model, tokens: list[list[int]]) -> np.ndarray:
    """Return a vector for each text, ``(n, 512) float32``; tokens begin and end as CLIP's do."""
    attr = model.inputs[0]
    length = attr.shape[-1]
    rows = []
    for each in tokens:
        padded = (each + [each[-1]] * length)[:length]
        (vector,) = model(np.array([padded], attr.dtype.numpy))
        rows.append(vector.reshape(-1))
    return np.stack(rows)


def detect(model: Model, image, vectors: np.ndarray, words: list[str], conf: float) -> Detections:
    """Return the objects that a word names."""
    rows, columns = model.inputs[0].height, model.inputs[0].width
    pixels, transform = letterbox(image, (rows, columns), pad_value=0)
    # The network divides texts by their length, which zeros have none of; the first of equal
    # classes counts.
    count = model.inputs[1].shape[-2]
    texts = vectors[np.minimum(np.arange(count), len(vectors) - 1)]
    model.run(pixels, texts.reshape(model.inputs[1].shape))
    # Scores of classes, then distances as of YOLOv6, for each scale.
    reading = find_head(model.outputs, (rows, columns), "yolov6")
    decoder = reading.make(conf_threshold=conf)
    raw = [model.output_raw(i) for i in range(len(model.outputs))]
    found = decoder(raw, transform)
    del raw  # views of the model's memory
    # Texts that were not given have no meaning.
    return replace(found[found.class_id < len(words)], labels=words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("clip_text", help=".rknn file")
    parser.add_argument("yolo_world", help=".rknn file")
    parser.add_argument("image")
    parser.add_argument("--words", required=True, help="separated by commas")
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json of CLIP")
    parser.add_argument("--conf", type=float, default=0.25)
    parser.add_argument("--save", type=image_file, help="draw the objects into this file")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    args = parser.parse_args()
    from tokenizers import Tokenizer

    words = [word.strip() for word in args.words.split(",")]
    tokenizer = Tokenizer.from_file(args.tokenizer)
    with Model(args.clip_text, library=args.library) as text:
        vectors = embed(text, [tokenizer.encode(word).ids for word in words])
    with Model(args.yolo_world, library=args.library) as model:
        found = detect(model, args.image, vectors, words, args.conf)
    print(found)
    if args.save:
        found.draw(args.image).save(args.save)


if __name__ == "__main__":
    run(main)

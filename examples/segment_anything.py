"""Find the mask of a box or of points with MobileSAM: two models in a chain.

    python segment_anything.py ENCODER DECODER IMAGE --box 190,70,460,280 --save masked.png
    python segment_anything.py ENCODER DECODER IMAGE --point 400,300

The models are those of the model zoo's mobilesam: the encoder takes the image, once; the decoder
takes what the encoder found, and a prompt, as often as there are prompts. `GeneralModel` runs it,
as `Model` takes its mask, an input of one channel, for an image.
"""

from __future__ import annotations

import argparse

import numpy as np
from _program import image_file, run

from rknn_runtime import GeneralModel, Model, Segmentation
from rknn_runtime.kernels import resize_bilinear
from rknn_runtime.vision.images import as_pixels

#: Labels of points in the decoder.
INSIDE, UPPER_LEFT, LOWER_RIGHT, PADDING = 1, 2, 3, -1


def numbers(count: int):
    """Return what reads so many numbers, for ``add_argument(type=...)``."""

    def read(text: str) -> list[float]:
        values = [float(part) for part in text.split(",")]
        if len(values) != count:
            raise argparse.ArgumentTypeError(f"expected {count} numbers, got {text}")
        return values

    return read


def find_mask(
    encoder: Model, decoder: GeneralModel, image, box, points
) -> tuple[np.ndarray, float]:
    """Return the mask of the best score, ``(H, W) bool``, and the score."""
    pixels, _ = as_pixels(image, "RGB")
    height, width = pixels.shape[:2]
    side = encoder.inputs[0].height
    scale = side / max(height, width)
    rows, columns = round(height * scale), round(width * scale)
    square = np.zeros((side, side, 3), np.uint8)
    square[:rows, :columns] = resize_bilinear(pixels, (rows, columns))
    (found,) = encoder(square)
    if found.shape != decoder.inputs[0].shape:  # inputs of four dimensions have channels last
        found = np.ascontiguousarray(found.transpose(0, 2, 3, 1))

    prompts = [(x, y, INSIDE) for x, y in points]
    prompts += [(*box[:2], UPPER_LEFT), (*box[2:], LOWER_RIGHT)] if box else [(0, 0, PADDING)]
    prompt = np.array(prompts, np.float32)[None]
    places, labels = prompt[..., :2] * np.float32(scale), prompt[..., 2].copy()
    mask_side = decoder.outputs[-1].shape[-1]
    scores, masks = sorted(
        decoder.run(
            found, places, labels,
            np.zeros(decoder.inputs[3].shape, np.float32), np.zeros(1, np.float32),
        ),
        key=np.size,
    )  # fmt: skip
    best = int(scores.argmax())
    logits = masks.reshape(-1, mask_side, mask_side)[best]
    return bilinear(logits, (height, width), mask_side / side * scale) > 0, float(scores.flat[best])


def bilinear(values: np.ndarray, size: tuple[int, int], scale: float) -> np.ndarray:
    """Return values for the pixels of an image; `scale`: cells per pixel."""
    lines = []
    for pixels, cells in zip(size, values.shape):
        at = np.clip((np.arange(pixels) + 0.5) * scale - 0.5, 0, cells - 1)
        low = np.floor(at).astype(int)
        lines.append((low, np.minimum(low + 1, cells - 1), at - low))
    (up, down, y), (left, right, x) = lines
    rows = values[up] * (1 - y)[:, None] + values[down] * y[:, None]
    return rows[:, left] * (1 - x) + rows[:, right] * x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("encoder", help=".rknn file")
    parser.add_argument("decoder", help=".rknn file")
    parser.add_argument("image")
    parser.add_argument("--box", type=numbers(4), metavar="X1,Y1,X2,Y2")
    parser.add_argument("--point", type=numbers(2), metavar="X,Y", action="append", default=[])
    parser.add_argument("--save", type=image_file, help="draw the mask into this file")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    args = parser.parse_args()
    if args.box is None and not args.point:
        parser.error("expected --box or --point")

    with (
        Model(args.encoder, library=args.library) as encoder,
        GeneralModel(args.decoder, library=args.library) as decoder,
    ):
        mask, score = find_mask(encoder, decoder, args.image, args.box, args.point)
    found = Segmentation(mask.astype(np.uint8), ["background", "object"])
    print(f"score {score:.2f}, {mask.sum()} pixels")
    if args.save:
        found.draw(args.image).save(args.save)


if __name__ == "__main__":
    run(main)

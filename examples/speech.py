"""Write down speech with wav2vec2, a network that is not for images: `Model` runs any.

    python speech.py MODEL speech.wav [--library sim]

The model is the zoo's wav2vec2: float samples at 16 kHz in, a score of each character for each
fiftieth of a second out. Longer recordings are read in parts.
"""

from __future__ import annotations

import argparse
import wave

import numpy as np
from _program import run

from rknn_runtime import Model

RATE = 16000
#: Its classes: four without a text, the space, and letters.
CHARACTERS = ["", "", "", "", *" ETAONIHSRDLUMWCFGYPBVK'XJQZ"]


def read_wave(path: str) -> np.ndarray:
    """Return the samples of a file of 16 kHz, the channels' mean, ``(n,) float32``, -1 to 1."""
    with wave.open(path, "rb") as file:
        rate, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
        if (rate, width) != (RATE, 2):
            raise ValueError(f"{path}: expected 16 bits at {RATE} Hz, got {8 * width} at {rate}")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return samples.reshape(-1, channels).mean(axis=1).astype(np.float32) / 32768


def transcribe(model: Model, samples: np.ndarray) -> str:
    """Return the text of samples, by the best character of each step (CTC)."""
    length = model.inputs[0].shape[-1]
    text = []
    for start in range(0, max(len(samples), 1), length):
        part = np.zeros((1, length), np.float32)
        given = samples[start : start + length]
        part[0, : len(given)] = given
        (scores,) = model(part.reshape(model.inputs[0].shape))
        best = scores.reshape(-1, len(CHARACTERS)).argmax(axis=1)
        kept = best[np.r_[True, best[1:] != best[:-1]]]
        text.append("".join(CHARACTERS[i] for i in kept))
    return " ".join(" ".join(text).split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("audio", help="a .wav file of 16 kHz and 16 bits")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    args = parser.parse_args()
    with Model(args.model, library=args.library) as model:
        print(transcribe(model, read_wave(args.audio)))


if __name__ == "__main__":
    run(main)

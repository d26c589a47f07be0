"""Compare the emulated NPU with onnxruntime in float32, on one thread and on two.

python benchmarks/bench_emulator.py [MODEL.rknn NETWORK.onnx [SCALE]]

Pixels are divided by SCALE, 255 by default, before onnxruntime gets them.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

from rknn_runtime.sim.emulator import Emulator

MODELS = Path(__file__).resolve().parent.parent / "examples/models"
ROUNDS = 20


def session_of(network, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Its second thread would otherwise take a CPU during our runs, too.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(str(network), options)


def measure(model, network, scale, threads):
    os.environ["RKNN_SIM_THREADS"] = str(threads)
    emulator, session = Emulator(model), session_of(network, threads)
    n, c, h, w = emulator.inputs[0].shape
    pixels = np.random.default_rng(0).integers(0, 256, (n, h, w, c)).astype(np.uint8)
    emulator.set_input(0, pixels)
    image = (pixels / scale).astype(np.float32).transpose(0, 3, 1, 2)
    feed = {session.get_inputs()[0].name: np.ascontiguousarray(image)}
    taken = [[], []]
    for _ in range(ROUNDS + 2):
        for times, function in zip(taken, (emulator.run, lambda: session.run(None, feed))):
            begin = time.perf_counter()
            function()
            times.append((time.perf_counter() - begin) * 1e3)
    ours, theirs = (np.percentile(times[2:], [0, 50, 90]) for times in taken)
    for name, (best, middle, late) in (("emulator", ours), ("onnxruntime", theirs)):
        print(
            f"{threads} threads  {name:11}  best {best:8.1f} ms  p50 {middle:8.1f} ms  "
            f"p90 {late:8.1f} ms"
        )
    best, middle = ours[0] / theirs[0], ours[1] / theirs[1]
    print(f"{threads} threads  ratio             {best:8.2f}     {middle:8.2f}")
    return emulator.multiplications


def main():
    defaults = MODELS / "shapes_rk3588.rknn", MODELS / "shapes.onnx"
    model, network = sys.argv[1:3] if len(sys.argv) > 2 else defaults
    scale = float(sys.argv[3]) if len(sys.argv) > 3 else 255.0
    for threads in (1, 2):
        count = measure(model, network, scale, threads)
    print(f"{Path(model).name}: {count / 1e9:.2f} billion multiplications")


if __name__ == "__main__":
    main()

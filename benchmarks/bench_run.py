"""The cost of Python per frame: ``model.run(frame)`` against a C loop of the same calls and copies.

Both use the simulated NPU with recorded outputs, in one process and in turns, so that the time of
the simulated NPU is in both columns and falls out of the difference.

Then `model(frame)` with large outputs: in milliseconds and page faults per call, against arrays
that the caller keeps (``out=``), and against new arrays for every output and call.

Then the start, each case in a fresh process: the first load of a ``.rknn`` file and later ones,
against C and, if it is installed, ez-rknn-async; and whole processes against one that imports
NumPy. All of it is CPU time, the least of several.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from _timing import HERE, compiled, in_turns

from rknn_runtime import Model
from rknn_runtime.kernels import nc1hwc2_to_nchw
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

EXAMPLES = HERE.parent / "examples" / "models"
EZ = "ztu_somemodelruntime_ez_rknn_async"
ROUNDS, CALLS = 40, 250
SOAK = 50_000
#: Name, SoC, input NCHW, outputs.
CASES = [
    ("320x320, 1 output", "rk3588", (1, 3, 320, 320), [(1, 84, 20, 20)]),
    ("320x320, 9 outputs", "rk3588", (1, 3, 320, 320), [(1, 64, 8, 8)] * 9),
    ("300x300, padded rows", "rv1106", (1, 3, 300, 300), [(1, 84, 20, 20)]),
    ("32x32, 1 output", "rk3588", (1, 3, 32, 32), [(1, 10)]),
]
#: A split head at 640 x 640: per scale boxes, classes and their sum.
LARGE = [(1, channels, cells, cells) for cells in (80, 40, 20) for channels in (64, 80, 1)]


def bundle(soc, shape, outputs):
    """Make a model that answers any image with the same random numbers."""
    image = describe_input("image", shape, soc=soc, zero_point=-128, scale=1 / 256)
    attrs = [describe_output(f"y{i}", output, soc=soc, index=i) for i, output in enumerate(outputs)]
    random = np.random.default_rng(0)
    arrays = [random.integers(-128, 128, output).astype(np.int8) for output in outputs]
    return bundle_from_arrays([image], attrs, [Record(arrays)], soc=soc)


def baseline(folder, number, library, data):
    """Compile the C loop again, as it holds one model, and load the model there."""
    loop = ctypes.CDLL(compiled("run_baseline.c", folder, number))
    loop.bench_output.restype = ctypes.c_void_p
    loop.bench_frames.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    failed = loop.bench_open(library.encode(), data, len(data))
    assert failed == 0, f"run_baseline.c, line {failed}"
    return loop


def check(loop, model, frame):
    """Stop unless both give the same bytes."""
    times = np.empty(1, np.int64)
    assert loop.bench_frames(frame.ctypes.data, 1, times.ctypes.data) == 0
    model.run(frame)
    for i, attr in enumerate(model.outputs):
        size = ctypes.c_uint32()
        address = loop.bench_output(i, ctypes.byref(size))
        ours = model.output_raw(i)
        theirs = np.frombuffer(ctypes.string_at(address, ours.nbytes), ours.dtype)
        pair = [ours, theirs.reshape(ours.shape)]
        if ours.ndim == 5:  # what is in the padding channels is anything
            pair = [nc1hwc2_to_nchw(raw, attr.shape[1]) for raw in pair]
        assert np.array_equal(*pair)


def resident_kilobytes():
    """Return the memory that this process has in RAM."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def growth(model, frame):
    """Return kB of RSS per call over SOAK calls, without the garbage collector."""
    for _ in range(1_000):
        model.run(frame)
    gc.collect()
    gc.disable()
    before = resident_kilobytes()
    for _ in range(SOAK):
        model.run(frame)
    gc.enable()
    return (resident_kilobytes() - before) / SOAK


def measure_results(rounds=8, calls=20):
    """Print p50 in milliseconds and page faults per call of `model(frame)` and its baselines."""
    data = bundle("rk3588", (1, 3, 32, 32), LARGE)
    frame = np.zeros((32, 32, 3), np.uint8)
    with Model(data, library="sim") as model:
        kept = [np.empty(shape, np.float32) for shape in LARGE]
        ways = {
            "model(frame)": lambda: model(frame),
            "out=, kept arrays": lambda: model(frame, out=kept),
            "out=, new arrays": lambda: model(
                frame, out=[np.empty(shape, np.float32) for shape in LARGE]
            ),
        }
        times, faults = {name: [] for name in ways}, dict.fromkeys(ways, 0)
        for turn in range(rounds + 1):
            for name, function in ways.items():
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                for _ in range(calls):
                    begin = time.perf_counter_ns()
                    results = function()  # as a loop does: the last ones are alive meanwhile
                    if turn:  # the first one warms up
                        times[name].append(time.perf_counter_ns() - begin)
                if turn:
                    faults[name] += resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        del results
    size = sum(array.nbytes for array in kept) / 1e6
    title = f"{len(LARGE)} outputs, {size:.1f} MB of float32"
    print(f"\n{title:38}{'ms p50':>10}{'p90':>9}{'faults':>9}")
    for name in ways:
        p50, p90 = np.percentile(times[name], [50, 90]) / 1e6
        print(f"{name:38}{p50:10.2f}{p90:9.2f}{faults[name] / (rounds * calls):9.1f}")


def measure_start(model, rounds=12):
    """Print milliseconds of CPU time of loads and of whole processes, and their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rknn_runtime"]
        subprocess.run([*command, "sim-library", folder], check=True, stdout=subprocess.DEVNULL)
        library = str(Path(folder, "librknnrt.so"))
        # As installed: with compiled modules, and the library where the loader finds it.
        environment = {**os.environ, "LD_LIBRARY_PATH": folder, "PYTHONPYCACHEPREFIX": folder}
        environment["PYTHONWARNINGS"] = "ignore"  # ez warns of every version
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        loads = {
            "C": ["c", model, library, compiled("run_baseline.c", folder)],
            "Model": ["ours", model, library],
            "ez-rknn-async": ["ez", model, library],
        }
        if importlib.util.find_spec(EZ) is None:
            del loads["ez-rknn-async"]
        least = {}
        for turn in range(rounds + 1):
            for name, arguments in loads.items():
                program = [sys.executable, HERE / "_loads.py", *arguments]
                done = subprocess.run(program, env=environment, check=True, stdout=subprocess.PIPE)
                first, *later = json.loads(done.stdout.splitlines()[-1])
                if turn:
                    before = least.get(name, (first, min(later)))
                    least[name] = min(before[0], first), min(before[1], *later)
        processes = {
            "import numpy": ["-c", "import numpy"],
            "from rknn_runtime import Model": ["-c", "from rknn_runtime import Model"],
            "from rknn_runtime import Detector": ["-c", "from rknn_runtime import Detector"],
            "a load, and the end": [
                "-c", "import sys; from rknn_runtime import Model; Model(*sys.argv[1:])", model
            ],
            "rknn-runtime info": ["-m", "rknn_runtime", "info", model],
        }  # fmt: skip
        environment["RKNN_RUNTIME_LIBRARY"] = library
        whole = {}
        for turn in range(rounds + 1):
            for name, arguments in processes.items():
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(
                    [sys.executable, *arguments],
                    env=environment,
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                if turn:
                    whole[name] = min(whole.get(name, spent), spent)
    size = Path(model).stat().st_size / 1e6
    print(f"\n{f'loads of {size:.1f} MB, CPU time':34}{'ms first':>10}{'x C':>7}", end="")
    print(f"{'later':>10}{'x C':>7}")
    for name, (first, later) in least.items():
        c_first, c_later = least["C"]
        print(f"{name:34}{first:10.2f}{first / c_first:7.2f}{later:10.2f}{later / c_later:7.2f}")
    print(f"\n{'processes, CPU time':34}{'ms':>10}{'x numpy':>9}")
    for name, spent in whole.items():
        print(f"{name:34}{1000 * spent:10.1f}{spent / whole['import numpy']:9.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", default=str(EXAMPLES / "shapes_rk3588.rknn"), help="the file of the start"
    )
    parser.add_argument("--start", action="store_true", help="measure the start alone")
    options = parser.parse_args()
    if options.start:
        measure_start(options.model)
        return
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(f"model.run(frame), Python {sys.version.split()[0]}, simulated NPU; microseconds")
    print(f"{'':24}{'C p50':>9}{'p90':>9}{'run p50':>9}{'p90':>9}{'more p50':>10}{'p90':>7}"
          f"{'kB/call':>9}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, soc, shape, outputs) in enumerate(CASES):
            data = bundle(soc, shape, outputs)
            frame = np.random.default_rng(1).integers(0, 256, (*shape[2:], 3)).astype(np.uint8)
            with Model(data, library="sim") as model:
                loop = baseline(folder, number, model.library.path, data)
                check(loop, model, frame)
                native = partial(loop.bench_frames, frame.ctypes.data)
                in_c, in_python = in_turns(native, model.run, frame, ROUNDS, CALLS)
                kilobytes = growth(model, frame)
            (c50, c90), (p50, p90) = (
                np.percentile(times, [50, 90]) / 1000 for times in (in_c, in_python)
            )
            print(f"{name:24}{c50:9.2f}{c90:9.2f}{p50:9.2f}{p90:9.2f}"
                  f"{p50 - c50:10.2f}{p90 - c90:7.2f}{kilobytes:9.4f}")  # fmt: skip
    measure_results()
    measure_start(options.model)


if __name__ == "__main__":
    main()

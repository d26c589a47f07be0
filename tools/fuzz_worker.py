"""Run damaged models one after the other, for `fuzz_emulator.py`.

::

    python tools/fuzz_worker.py FIRST END [FOLDER ...]

Prints how many models there are to damage, and a line for each that is damaged: its number and name
before it runs, then 1 if it ran or 0 if it was refused, and its seconds of CPU. A run of more than
one second ends the process (SIGPROF), as a sanitizer does, which reports to stderr; leaks are
written at the end. Beside a stand-in for the NPU's device the models run on the open runtime.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from hostile_models import is_for, mutant, seeds, use, use_runtime

#: Of the stand-in for the NPU's device, where the open runtime is tried on it.
DRIVER = os.environ.get("RKNN_BOARD_NPU")
MOST_SECONDS = 60.0 if os.environ.get("RKNN_TEST_EMULATED") else 1.0


def write_leaks() -> None:
    """Have the sanitizer write what nobody can free any more, Python's own among it."""
    check = getattr(ctypes.CDLL(None), "__lsan_do_recoverable_leak_check", None)
    gc.collect()
    if check is not None:
        check()


def main() -> None:
    first, end, *folders = sys.argv[1:]
    sources = seeds(map(Path, folders))
    if DRIVER:
        soc = os.environ["RKNN_BOARD_SOC"]
        sources = [source for source in sources if is_for(soc, source.model)]
    print(len(sources), flush=True)
    for number in range(int(first), int(end)):
        name, model = mutant(number, sources)
        print(number, "_".join(name.split()), end=" ", flush=True)
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        started = time.process_time()
        is_run = use_runtime(model, "open") if DRIVER else use(model, number)
        if number % 4 == 0 and not DRIVER:
            use_runtime(model)
        seconds = time.process_time() - started
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(int(is_run), f"{seconds:.3f}", flush=True)
    write_leaks()


if __name__ == "__main__":
    main()

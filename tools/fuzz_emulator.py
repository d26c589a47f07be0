"""Run damaged models on the emulator, under AddressSanitizer and UBSan.

::

    python tools/fuzz_emulator.py [FOLDER ...] [--first 0] [--count 100000] [--coverage]

Small models of this repository, of further folders, and some that are made by hand (old
containers, each operator) are damaged in their commands, tables, or anywhere, opened, fed and
run. A crash, memory that is lost, and more than a second of CPU are findings: each is reported
with the command that repeats it. A number decides all of the damage, as long as the models are
the same. With --driver they run on the open runtime, beside the stand-in for the NPU's device,
which ends the process where a task reaches what is not the model's. With --coverage the same
without sanitizers, and how much of each C file was executed.

Prints how many ran and were refused, and the longest. Exits with 1 after findings.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from sanitize import ADDRESSES, Build, build, environment

WORKER = [sys.executable, str(Path(__file__).with_name("fuzz_worker.py"))]
#: Mutants per process, which is checked for leaks at its end.
BATCH = 10_000
PROGRESS = 1_000
#: Leaks are looked for by the worker, not behind Python's own at the end.
CHECKED = dataclasses.replace(
    ADDRESSES,
    flags=[*ADDRESSES.flags, "-O2"],
    environment={
        **ADDRESSES.environment,
        "LSAN_OPTIONS": "leak_check_at_exit=0",
        "ASAN_OPTIONS": ADDRESSES.environment["ASAN_OPTIONS"].replace(
            "detect_leaks=0", "detect_leaks=1:max_allocation_size_mb=512"
        ),
    },
)
#: The SoC of the models for a driver of the kernel.
SOC_OF = {"rknpu": "rk3588", "rocket": "rk3588", "rknpu-heap": "rv1106"}
COVERED = Build(["--coverage"], [], ())


@dataclass
class Tally:
    """What became of the damaged models."""

    seeds: int = 0
    done: int = 0
    ran: int = 0
    #: Seconds of CPU, number, name of the model.
    longest: tuple[float, int, str] = (0.0, 0, "")
    findings: list[str] = field(default_factory=list)

    def add(self, number: str, name: str, is_run: str = "0", seconds: str = "0") -> None:
        """Count a damaged model; the last two are missing if it ended the process."""
        self.done += 1
        self.ran += int(is_run)
        self.longest = max(self.longest, (float(seconds), int(number), name))
        if self.done % PROGRESS == 0:
            print(self, file=sys.stderr, flush=True)

    def __str__(self) -> str:
        seconds, number, name = self.longest
        return (
            f"{self.done} damaged models of {self.seeds}: {self.ran} ran, "
            f"{self.done - self.ran} were refused, {len(self.findings)} findings; "
            f"the longest {seconds:.3f} s of CPU (number {number}, {name})"
        )


def leaks(report: str) -> str:
    """Return the leaks of the C code from a sanitizer's report, which also lists Python's own."""
    blocks = report.split("\n\n")
    return "\n\n".join(block for block in blocks if "leak of" in block and "csrc/" in block)


def run_batch(numbers: range, command: list[str], env: dict[str, str] | None, tally: Tally) -> int:
    """Run damaged models until one ends the process; return how many it were."""
    done: list[list[str]] = []
    with tempfile.TemporaryFile("w+", errors="replace") as report:
        with subprocess.Popen(
            [*command[:2], str(numbers.start), str(numbers.stop), *command[2:]],
            stdout=subprocess.PIPE,
            stderr=report,
            text=True,
            env=env,
        ) as worker:
            assert worker.stdout is not None
            tally.seeds = int(worker.stdout.readline() or 0)
            for line in worker.stdout:
                done.append(line.split())
                tally.add(*done[-1])
        report.seek(0)
        written = report.read().strip()
    if not done:
        raise SystemExit(f"{written}\n{command[1]} ended with {worker.returncode}")
    last = int(done[-1][0])
    if worker.returncode == -signal.SIGPROF:
        written = f"more than a second of CPU\n{written}"
    elif worker.returncode == 0:
        written = leaks(written)
    if written or worker.returncode != 0:
        first = last if worker.returncode != 0 else numbers.start
        driver = (env or {}).get("RKNN_BOARD_NPU")
        how = ["--driver", driver] if driver else []
        again = [*sys.argv[:1], *command[2:], *how, "--first", first, "--count", last + 1 - first]
        found = (
            f"{written}\nnumber {last}, {done[-1][1]}; again: python {shlex.join(map(str, again))}"
        )
        print(found, file=sys.stderr)
        tally.findings.append(found)
    return len(done)


def hunt(numbers: range, command: list[str], env: dict[str, str] | None = None) -> Tally:
    """Run damaged models in one process after the other.

    Args:
        numbers: Of the damaged models.
        command: Python, the worker's script, and folders of further models.
        env: Of the processes; None: that of this one.
    """
    tally = Tally()
    while numbers:
        numbers = numbers[run_batch(numbers[:BATCH], command, env, tally) :]
    return tally


def coverage(folder: Path) -> list[str]:
    """Return rows of a table: the executed part of each C file whose counters are in a folder."""
    names = sorted(str(path) for path in folder.glob("*.gcda"))
    command = ["gcov", "--json-format", "--stdout", *names]
    text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    functions: dict[tuple[str, str], bool] = {}
    lines: dict[tuple[str, int], bool] = {}
    for file in (file for line in text.splitlines() for file in json.loads(line)["files"]):
        name = file["file"].rsplit("csrc/")[-1]
        for each in file["functions"]:  # of a header, once for every file that includes it
            function = name, each["name"]
            functions[function] = functions.get(function, False) or each["execution_count"] > 0
        for each in file["lines"]:
            at = name, each["line_number"]
            lines[at] = lines.get(at, False) or each["count"] > 0
    rows = []
    for name in sorted({name for name, _ in functions}):
        reached = {key: is_run for (of, key), is_run in functions.items() if of == name}
        run = [is_run for (of, _), is_run in lines.items() if of == name]
        missing = ", ".join(key for key, is_run in reached.items() if not is_run)
        count = f"{sum(reached.values())} of {len(reached)}"
        rows.append(f"| {name} | {count} | {sum(run) / len(run):.0%} | {missing} |")
    return rows


def beside(folder: Path, driver: str | None, env: dict[str, str]) -> dict[str, str]:
    """Add the stand-in for the device of a driver to a process's variables."""
    if driver is None:
        return env
    place = folder / "rknn_runtime" / "sim"
    return {
        **env,
        "LD_PRELOAD": f"{env.get('LD_PRELOAD', '')} {place / 'librknn_board.so'}",
        "RKNN_BOARD_NPU": driver,
        "RKNN_BOARD_SOC": SOC_OF[driver],
        "RKNN_BOARD_EMULATOR": str(place / "librknn_sim.so"),
        "RKNN_OPEN_ASK": "never",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="of further .rknn files")
    parser.add_argument("--first", type=int, default=0, help="number of the first (0)")
    parser.add_argument("--count", type=int, default=100_000, help="how many (100000)")
    parser.add_argument("--driver", choices=SOC_OF, help="on the open runtime, with this driver")
    parser.add_argument("--coverage", action="store_true", help="count what is executed instead")
    arguments = parser.parse_args()
    how = COVERED if arguments.coverage else CHECKED
    numbers = range(arguments.first, arguments.first + arguments.count)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        build(folder, how)
        command = [*WORKER, *(str(Path(given).resolve()) for given in arguments.folders)]
        tally = hunt(numbers, command, beside(folder, arguments.driver, environment(folder, how)))
        print(tally)
        if arguments.coverage:
            print(
                "\n| C file | functions reached | lines | not reached |\n| --- | --- | --- | --- |"
            )
            print("\n".join(coverage(folder / "rknn_runtime" / "sim")))
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())

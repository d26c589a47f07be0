"""A worker in the toolkit's environment: restarted when it hangs, dies or has leaked enough."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime.conversion.environment import toolkit_python
from rknn_runtime.conversion.toolkit import reason_in

#: Jobs after which a worker is replaced; it keeps some megabytes of each.
_JOBS = 150
_SECONDS = 60


class Toolkit:
    """Converts networks one after the other. Use it as a context manager."""

    def __init__(self, version: str = "2.3.2") -> None:
        self._python = toolkit_python(version)
        self._process: subprocess.Popen[bytes] | None = None
        self._jobs = 0
        self._folder = tempfile.TemporaryDirectory(prefix="generate-networks-")
        self.folder = Path(self._folder.name)

    def __enter__(self) -> Toolkit:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.cleanup()

    def convert(
        self,
        onnx: bytes,
        soc: str,
        dtype: str,
        calibration: list[list[np.ndarray]],
        norm: list[tuple[float, float, int]],
        simulate: list[np.ndarray] | None = None,
    ) -> tuple[bytes | None, list[np.ndarray] | None, str]:
        """Convert a network.

        Args:
            onnx: The network.
            soc: The SoC.
            dtype: ``"int8"``, ``"int16"`` or ``"float16"``.
            calibration: For each run, the inputs.
            norm: Mean, standard deviation and channels of each input.
            simulate: Inputs for the toolkit's simulator.

        Returns:
            The file, the simulator's outputs, and the reason of a failure.
        """
        network, out = self.folder / "network.onnx", self.folder / "network.rknn"
        network.write_bytes(onnx)
        out.unlink(missing_ok=True)
        config: dict[str, Any] = {"target_platform": soc}
        if any(mean for mean, *_ in norm):
            config["mean_values"] = [[mean] * channels for mean, _, channels in norm]
            config["std_values"] = [[std] * channels for _, std, channels in norm]
        if dtype == "int16":
            config["quantized_dtype"] = "w16a16i"
        job: dict[str, Any] = {
            "init": {"verbose": False},
            "config": config,
            "load": {"call": "load_onnx", "arguments": {"model": str(network)}},
            "build": {"do_quantization": dtype != "float16"},
            "export": str(out),
        }
        if dtype != "float16":
            job["build"]["dataset"] = self._listed(calibration)
        if simulate is not None:
            job["simulate"] = {"inputs": [self._saved(simulate, "s")], "folder": str(self.folder)}
        reason = self._do(job)
        simulated = None
        if simulate is not None and not reason:
            with np.load(self.folder / "0.npz") as arrays:
                simulated = [arrays[name] for name in arrays.files]
        return (None, None, reason) if reason else (out.read_bytes(), simulated, "")

    def _saved(self, arrays: list[np.ndarray], name: str) -> list[str]:
        paths = [str(self.folder / f"{name}_{i}.npy") for i in range(len(arrays))]
        for path, array in zip(paths, arrays):
            np.save(path, array)
        return paths

    def _listed(self, runs: list[list[np.ndarray]]) -> str:
        rows = [" ".join(self._saved(run, f"c{i}")) for i, run in enumerate(runs)]
        path = self.folder / "calibration.txt"
        path.write_text("\n".join(rows) + "\n", "utf-8")
        return str(path)

    def _do(self, job: Mapping[str, Any]) -> str:
        """Return the reason of a failure, or nothing."""
        process = self._started()
        path, log = self.folder / "job.json", self.folder / "log.txt"
        begin = log.stat().st_size
        path.write_text(json.dumps(job), "utf-8")
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{path}\n".encode())
            process.stdin.flush()
            answered = select.select([process.stdout], [], [], _SECONDS)[0]
            line = process.stdout.readline() if answered else b""
        except OSError:
            line = b""
        self._jobs += 1
        if not line or self._jobs >= _JOBS:
            self._stop()
        with log.open("rb") as text:
            text.seek(begin)
            said = text.read().decode("utf-8", "replace")
        if not line:
            return "the toolkit died or took too long"
        result = json.loads(line)
        return "" if result["error"] is None else str(reason_in(said) or result["error"])[:200]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
            environment = {k: v for k, v in os.environ.items() if k not in ours}
            worker = Path(__file__).with_name("worker.py")
            with (self.folder / "log.txt").open("ab") as log:
                self._process = subprocess.Popen(
                    [self._python, "-u", str(worker)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self.folder,
                    env={**environment, "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1"},
                )
            self._jobs = 0
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

"""Generated networks on the emulator: each gives its network's answer, or is refused by name.

``tools/generate_networks --record`` makes the files: networks of every family, converted with
rknn-toolkit2 2.3.2 for thirteen pairs of SoC and type, and the answers of onnxruntime in steps of
the output. One that is refused may become right, but never wrong.
"""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest
from paths import DATA

from rknn_runtime.sim.emulator import Emulator, Verdict

with tarfile.open(DATA / "generated.tar.xz") as archive:
    MEMBERS = {each.name: archive.extractfile(each).read() for each in archive}
INDEX = json.loads(MEMBERS["index.json"])


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["name"])
def test_gives_the_networks_answer_or_is_refused(entry: dict) -> None:
    """Within the recorded steps, on the recorded inputs."""
    machine = Emulator(MEMBERS[f"{entry['name']}.rknn"])
    if any(node.is_faulty for node in machine.nodes):
        assert entry["result"] == "refused"  # until its commands were understood
        return
    assert not any(node.reason.startswith("tried") for node in machine.nodes)
    refused = [node for node in machine.nodes if node.verdict is Verdict.REFUSED]
    if refused:
        assert entry["result"] == "refused"
        assert refused[0].reason
        return
    random = np.random.RandomState(entry["seed"])
    for index, tensor in enumerate(machine.inputs):
        values = random.randint(-100, 101, tensor.shape)
        is_float = tensor.dtype.kind == "f"
        machine.set_input(index, (values / 50 if is_float else values).astype(tensor.dtype))
    machine.run()
    for number, tensor in enumerate(machine.outputs):
        stored = MEMBERS[f"{entry['name']}.{number}.npy"]
        expected = np.load(io.BytesIO(stored)).astype(np.float64)
        ours = machine.read(tensor).astype(np.float64)
        step = 1.0
        if tensor.dtype.kind == "f":
            step = max(np.abs(expected).max(), 1e-6) * 2.0**-10
        assert np.abs(ours - expected).max() <= entry["steps"] * step


def test_the_sample_is_wide() -> None:
    """All pairs, most families, and few that are refused."""
    pairs = {entry["pair"] for entry in INDEX}
    families = {entry["case"].partition(":")[0] for entry in INDEX}
    assert len(INDEX) >= 270
    assert len(pairs) >= 13
    assert len(families) >= 75
    assert sum(entry["result"] == "right" for entry in INDEX) > len(INDEX) * 0.7

"""The stand-in for the NPU's device, under which the vendor's runtimes are tried."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

from paths import PROJECT
from stub import build

WHEELS = PROJECT / "tools" / "wheels"

SCRIPT = """
import fcntl, json, mmap, os, struct, sys
device = os.open("/dev/rknpu", os.O_RDWR)

def ioctl(command, form, *values):
    data = bytearray(struct.pack(form, *values))
    fcntl.ioctl(device, command, data)
    return struct.unpack(form, data)

memory = [ioctl(0xC0006442, "=2I3Q", 0, 0, 5000, 0, 0) for _ in range(2)]
sizes = []
for handle, *_ in memory:
    (_, _, offset) = ioctl(0xC0006443, "=2IQ", handle, 0, 1)
    with mmap.mmap(handle, 8192, offset=offset) as mapped:
        mapped[:] = b"x" * 8192
    sizes.append(os.fstat(handle).st_size)
try:
    os.open("/dev/dri/card0", os.O_RDWR)
    card = True
except FileNotFoundError:
    card = False
with open(sys.argv[1], "rb") as other:
    content = other.read().decode()
print(json.dumps({
    "versions": [ioctl(0xC0006440, "=2I", kind, 9)[1] for kind in (0, 1, 2)],
    "sizes": sizes, "addresses": [m[3:] for m in memory], "card": card, "content": content,
}))
"""


def project():
    """Import ``tools/wheels/project.py``."""
    spec = importlib.util.spec_from_file_location("wheels_project", WHEELS / "project.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_process_sees_a_device_with_memory(tmp_path):
    """It has versions and memory of whole pages that is mapped; other files are as ever."""
    *sources, device, npu = project().device_sources()
    flags = ("-I", WHEELS, npu, *sources, "-lm")
    text = device.read_text("utf-8")
    library = build(tmp_path, source=text, flags=flags)
    (tmp_path / "other").write_text("other", "utf-8")
    preloaded = {**os.environ, "LD_PRELOAD": str(library)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "other")]
    done = subprocess.run(command, env=preloaded, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["versions"] == [0x46495245, 908, 0]
    assert said["sizes"] == [8192, 8192]
    first, second = said["addresses"]
    # Their pages, and one between them that nobody may touch.
    assert [b - a for a, b in zip(first, second)] == [12288, 12288]
    assert not said["card"]
    assert said["content"] == "other"

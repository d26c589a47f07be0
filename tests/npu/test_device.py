"""Messages about the NPU's device nodes, before and after a runtime fails on them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rknn_runtime.errors import DeviceUnavailableError
from rknn_runtime.modelfile.compatibility import Runtime
from rknn_runtime.npu import device

NEW = Runtime("librknnrt", (2, 3, 2))


class Machine:
    """The devices of a machine, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.allowed: set[str] = set()

    def add(self, name: str, driver: str | None = None, *, allowed: bool = True) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        path.chmod(0o660)
        if allowed:
            self.allowed.add(str(path))
        if driver is not None:
            uevent = self.folder / "class" / path.name / "device" / "uevent"
            uevent.parent.mkdir(parents=True)
            uevent.write_text(f"DRIVER={driver}\n")
        return str(path)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One without devices."""
    it = Machine(tmp_path)
    monkeypatch.setattr(device, "RKNPU", str(tmp_path / "rknpu"))
    monkeypatch.setattr(device, "HEAP", str(tmp_path / "dma_heap" / "system"))
    monkeypatch.setattr(device, "DRI", str(tmp_path / "dri"))
    monkeypatch.setattr(device, "DRM_CLASS", str(tmp_path / "class"))
    # Tests may run as root, who may all.
    monkeypatch.setattr(os, "access", lambda path, mode: path in it.allowed)
    return it


def test_a_machine_without_an_npu(machine: Machine) -> None:
    """Devices of the display and the GPU are none; a container is thought of."""
    assert "neither" in device.trouble()
    machine.add("dri/card0", "rockchip-drm")
    machine.add("dri/renderD128", "panfrost")
    machine.add("dri/by-path", "RKNPU")
    said = device.trouble()
    assert said.startswith("this machine shows no NPU: neither ")
    assert "in a container pass the device in" in said


@pytest.mark.parametrize(("name", "driver"), [("rknpu", None), ("dri/renderD129", "RKNPU")])
def test_a_device_that_may_be_used_is_no_trouble(
    machine: Machine, name: str, driver: str | None
) -> None:
    """In either of the two forms."""
    machine.add(name, driver)
    assert device.trouble() == ""


def test_a_node_of_unknown_driver_may_be_the_npu(machine: Machine) -> None:
    """A container may have /dev/dri without /sys."""
    machine.add("dri/card1")
    assert device.trouble() == ""


def test_a_device_without_permission_is_named(machine: Machine) -> None:
    """With its group, and the command that helps."""
    path = machine.add("dri/renderD129", "RKNPU", allowed=False)
    status = Path(path).stat()
    group = device._owners(status)[1]
    said = device.trouble()
    assert said.startswith("this user may not use the NPU: " + path)
    assert f"group {group}, mode {stat.S_IMODE(status.st_mode):04o}" in said
    assert f"usermod -a -G {group}" in said


def test_owners_without_names_are_numbers(machine: Machine) -> None:
    """Owners are numbers in a container without the board's users."""
    status = list(Path(machine.add("rknpu")).stat())
    status[4:6] = [4_000_000, 4_000_001]
    assert device._owners(os.stat_result(status)) == ("4000000", "4000001")


@pytest.mark.parametrize("exists", [False, True])
def test_the_heap_is_looked_for_before_the_runtime_crashes(machine: Machine, exists: bool) -> None:
    """On /dev/rknpu, where it cannot be read; the message is what to pass to a container."""
    npu = machine.add("rknpu")
    heap = device.HEAP
    if exists:
        machine.add("dma_heap/system", allowed=False)
    with pytest.raises(DeviceUnavailableError) as caught:
        device.check_heap(NEW)
    assert caught.value.code == -3
    said = str(caught.value)
    assert "librknnrt 2.3.2" in said
    assert f"--device {npu} --device {heap}" in said
    assert ("is not there" in said) != exists
    assert ("mode 0660" in said) == exists


def test_the_heap_is_not_asked_for_where_nobody_needs_it(machine: Machine) -> None:
    """Older runtimes, the mini one, DRM devices; and where it can be read."""
    machine.add("dri/card1", "RKNPU")
    device.check_heap(NEW)
    machine.add("rknpu")
    device.check_heap(None)
    device.check_heap(Runtime("librknnrt", (1, 6, 0)))
    device.check_heap(Runtime("librknnmrt", (2, 3, 2)))
    machine.add("dma_heap/system")
    device.check_heap(NEW)

"""The facts of each SoC, and the SoC that a device tree names."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknn_runtime.modelfile.soc import SOCS, find_soc, soc_of_this_machine


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rk3588", "rk3588"),
        ("RK3588S", "rk3588"),
        ("rk3588s2", "rk3588"),
        ("rv1106", "rv1106"),
        ("rv1106g3", "rv1106"),
        ("rv1106b", "rv1106b"),
        ("rv1103b", "rv1103b"),
        ("rv1126b", "rv1126b"),
        ("rk3399pro", None),
        ("rv1126", None),
        ("", None),
    ],
)
def test_a_variant_is_found_by_the_longest_name(name: str, expected: str | None) -> None:
    """``rv1106b`` is no ``rv1106``; an unknown name is nothing."""
    soc = find_soc(name)
    assert (soc and soc.name) == expected


@pytest.mark.parametrize(
    ("compatible", "expected"),
    [
        (b"firefly,itx-3588j\0rockchip,rk3588\0", "rk3588"),
        (b"radxa,rock-5a\0rockchip,rk3588s\0", "rk3588"),
        (b"rockchip,rv1103g-ipc\0rockchip,rv1103\0", "rv1103"),
        (b"rockchip,rv1126b-evb1-v10\0rockchip,rv1126b\0", "rv1126b"),
        (b"raspberrypi,4-model-b\0brcm,bcm2711\0", None),
        (b"acme,rk3588\0", None),
        (b"\xff\xfe", None),
        (b"", None),
    ],
)
def test_the_device_tree_names_the_soc(
    tmp_path: Path, compatible: bytes, expected: str | None
) -> None:
    """The first string of the vendor rockchip that names a known SoC decides."""
    path = tmp_path / "compatible"
    path.write_bytes(compatible)
    soc = soc_of_this_machine(path)
    assert (soc and soc.name) == expected


def test_a_machine_without_device_tree_is_no_known_soc(tmp_path: Path) -> None:
    """A PC has no such file."""
    assert soc_of_this_machine(tmp_path / "compatible") is None


def test_the_runtime_follows_from_the_container() -> None:
    """Mini containers are librknnmrt's, all others librknnrt's."""
    assert {soc.name: soc.runtime for soc in SOCS.values() if soc.mini} == dict.fromkeys(
        ["rv1103", "rv1106", "rv1103b", "rv1106b", "rk2118"], "librknnmrt"
    )
    assert SOCS["rk3588"].runtime == "librknnrt"

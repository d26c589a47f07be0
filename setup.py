"""What pyproject.toml cannot say: the CFFI extension, the abi3 tag, the simulated runtime."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

SIMULATED_RUNTIME = "rknn_runtime/sim/librknn_sim.so"
SIMULATED_SOURCES = sorted(str(path) for path in Path("csrc/sim").glob("*.c"))


class BuildExt(build_ext):
    """Also build the simulated runtime: a shared library without a line of Python."""

    def build_extensions(self) -> None:
        super().build_extensions()
        target = os.path.join(self.build_lib, SIMULATED_RUNTIME)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        objects = self.compiler.compile(
            SIMULATED_SOURCES,
            output_dir=self.build_temp,
            include_dirs=["csrc"],
            extra_postargs=["-std=c11", "-O2", "-fPIC", "-fvisibility=hidden"],
        )
        self.compiler.link_shared_object(
            objects,
            target,
            libraries=["m", "pthread"],
            extra_postargs=["-Wl,-soname,librknn_sim.so"],
        )

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        self.copy_file(os.path.join(self.build_lib, SIMULATED_RUNTIME), SIMULATED_RUNTIME)

    def get_outputs(self) -> list[str]:
        return [*super().get_outputs(), os.path.join(self.build_lib, SIMULATED_RUNTIME)]


# A free-threaded CPython does not load the stable ABI.
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    cffi_modules=["rknn_cffi_build.py:ffibuilder"],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp39"}} if STABLE_ABI else {},
)

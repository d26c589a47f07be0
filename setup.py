"""What pyproject.toml cannot say: the CFFI extension, the abi3 tag, the shared libraries.

Two variables link a vendor's runtime at build time; by default it is found at run time:
    RKNN_STATIC_LIBRARY=/path/librknnmrt.a    put this static archive into the package
    RKNN_LINK=dynamic                         have the package need librknnrt.so
With RKNN_PROJECT_URL=https://..., the repository's address, links of the README lead there.
"""

from __future__ import annotations

import ast
import io
import os
import platform
import re
import shutil
import sysconfig
import tokenize
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

LINKED = "rknn_runtime/librknn_linked.so"


def linked_runtime() -> list[str]:
    """Return the linker's arguments for the vendor's runtime, none where it is not linked."""
    archive, link = os.environ.get("RKNN_STATIC_LIBRARY"), os.environ.get("RKNN_LINK")
    if archive and link:
        raise SystemExit("set RKNN_STATIC_LIBRARY or RKNN_LINK, not both")
    if link not in (None, "", "dynamic"):
        raise SystemExit(f"RKNN_LINK must be 'dynamic' or unset, not {link!r}")
    if link:
        return ["-Wl,--no-as-needed", "-lrknnrt"]
    if not archive:
        return []
    if not os.path.isfile(archive):
        raise SystemExit(f"RKNN_STATIC_LIBRARY={archive}: no such file")
    whole = ["-Wl,--whole-archive", os.path.abspath(archive), "-Wl,--no-whole-archive"]
    exports = "-Wl,--version-script=csrc/runtime/link/exports.map"
    return [exports, "-Wl,-Bsymbolic", "-Wl,-z,defs", *whole, "-lm", "-lpthread", "-ldl"]


#: Debian's armhf compiler leaves NEON off; every SoC with an NPU has it.
NEON = ["-mfpu=neon"] if platform.machine().startswith("armv") and "CC" not in os.environ else []
#: Tables for unwinding stacks would be 5 % of the libraries, of no use to C.
NO_TABLES = ["-fno-unwind-tables", "-fno-asynchronous-unwind-tables"]
#: Python's own flags ask for debugging information, a quarter of the time; CFLAGS=-g does, too.
NO_DEBUG = [] if "CFLAGS" in os.environ else ["-g0"]
FLAGS = ["-std=c11", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", *NO_TABLES, *NEON]
#: Folders of the extension whose loops take the time. All else in it is compiled for size.
KERNELS = ["csrc/kernels", "csrc/decode"]
#: Files of the emulator that have such loops. The rest of the libraries is compiled for size, too.
LOOPS = ("convolution", "dpu", "floats_products", "lut", "pooling", "tensors")
#: Shared library -> the folders of its sources and what its linker is told.
LIBRARIES = {
    "rknn_runtime/sim/librknn_sim.so": (
        ["csrc/sim", "csrc/api", "csrc/emulator", "csrc/modelfile"],
        ["-lm", "-lpthread", "-Wl,-Bsymbolic"],
    ),
    # Linked to the library above, whose emulator and reader it uses.
    "rknn_runtime/sim/librknn_open.so": (
        ["csrc/open", "csrc/api"],
        ["-lm", "-lpthread", "-Wl,-Bsymbolic", "-Wl,-rpath,$ORIGIN", "-L", "-l:librknn_sim.so"],
    ),
    "rknn_runtime/sim/librknn_board.so": (["csrc/sim/board"], ["-ldl", "-lpthread"]),
}
if linked_runtime():
    LIBRARIES[LINKED] = (["csrc/runtime/link"], linked_runtime())


def c_files(folders: Iterable[str]) -> list[Path]:
    """Return the C sources of these folders."""
    return sorted(path for folder in folders for path in Path(folder).glob("*.c"))


def is_fast(source: Path) -> bool:
    """Tell whether the loops of a C source take the time of a frame."""
    is_kernel = source.parent.as_posix() in KERNELS
    return is_kernel or (source.parent.name == "emulator" and source.name.startswith(LOOPS))


def private_docstrings(node: ast.AST, *, is_private: bool = False) -> Iterator[ast.stmt]:
    """Yield the docstrings of functions and classes that are named ``_x``, or lie in a ``_x``."""
    for child in ast.iter_child_nodes(node):
        is_inside = is_private
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            is_inside = is_private or re.match("_(?!_)", child.name) is not None
            # Without one `dataclass` writes its own.
            is_made = isinstance(child, ast.ClassDef) and child.decorator_list
            if is_inside and not is_made and ast.get_docstring(child) and len(child.body) > 1:
                yield child.body[0]
        yield from private_docstrings(child, is_private=is_inside)


def as_installed(source: str, *, is_private: bool) -> str:
    """Return Python without its comments and private docstrings, all of them if it is private.

    It is the same program, with the same numbers of lines.
    """
    lines = source.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for text in private_docstrings(ast.parse(source), is_private=is_private):
        first, last = text.lineno - 1, text.end_lineno or 0
        lines[first:last] = [""] * (last - first)
    return "\n".join(lines)


class BuildPy(build_py):
    """Install Python files without comments and private docstrings, 5 % of a wheel."""

    def build_module(self, *arguments: Any) -> tuple[str, int]:
        copied: tuple[str, int] = super().build_module(*arguments)
        target = Path(copied[0])
        if target.name != "torch_standin.py":  # its bytes tell whether an installed toolkit is old
            is_private = target.parent.name == "cli" or re.match("_(?!_)", target.name) is not None
            source = as_installed(target.read_text("utf-8"), is_private=is_private)
            target.write_text(source, "utf-8")
        return copied


class BuildExt(build_ext):
    """Also build the shared libraries of the package that have no line of Python in them."""

    def build_extensions(self) -> None:
        program = self.compiler.compiler_so[0]
        if shutil.which(program) is None:
            raise SystemExit(
                f"rknn-runtime is compiled here, and the C compiler {program!r} is not installed: "
                "install it (apt install gcc python3-dev) or set CC; wheels need none"
            )
        # One of an earlier build would be loaded, unasked.
        Path(self.build_lib, LINKED).unlink(missing_ok=True)
        # Developers need symbols in a checkout; they would double a wheel. Every loader
        # of ten years reads the newer table of names alone.
        in_place = self.inplace or self.editable_mode
        strip = [] if in_place else ["-Wl,-s", "-Wl,--hash-style=gnu"]
        (extension,) = self.extensions
        extension.extra_objects, extension.extra_link_args = [], strip
        self.force = True  # an extension that is up to date would not be compiled, nor the others
        self.compiler.compile = partial(self.compile, self.compiler.compile, extension)
        super().build_extensions()
        for name, (folders, link_arguments) in LIBRARIES.items():
            target = os.path.join(self.build_lib, name)
            folder = os.path.dirname(target)
            os.makedirs(folder, exist_ok=True)
            link_arguments = [f"-L{folder}" if a == "-L" else a for a in link_arguments]
            arguments = [f"-Wl,-soname,{os.path.basename(name)}", *link_arguments, *strip]
            objects = [self.objects[source] for source in c_files(folders)]
            self.compiler.link_shared_object(objects, target, extra_postargs=arguments)

    def compile(
        self, compile_files: Any, extension: Any, sources: list[str], **options: Any
    ) -> list[str]:
        """Compile the extension's sources and all others, one process on each CPU.

        The others are its kernels, which are linked to it, and the sources of the libraries.
        """
        options["extra_postargs"] = [*options["extra_postargs"], *NO_DEBUG]
        folders = {*KERNELS, *(each for folders, _ in LIBRARIES.values() for each in folders)}
        others = sorted(c_files(folders), key=is_fast, reverse=True)
        folder = os.path.join(self.build_temp, "libraries")  # the extension has a reader, too
        jobs = [(source, options) for source in sources]
        for source in others:
            flags = ["-O3" if is_fast(source) else "-Os", "-DRKR_EXPORT_READER", *FLAGS, *NO_DEBUG]
            own = {"output_dir": folder, "include_dirs": ["csrc"], "extra_postargs": flags}
            jobs.append((str(source), own))
        with ThreadPool() as pool:
            objects = pool.map(lambda job: str(compile_files([job[0]], **job[1])[0]), jobs, 1)
        self.objects = dict(zip(others, objects[len(sources) :]))
        extension.extra_objects += [self.objects[source] for source in c_files(KERNELS)]
        return objects[: len(sources)]

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        Path(LINKED).unlink(missing_ok=True)
        for name in LIBRARIES:
            self.copy_file(os.path.join(self.build_lib, name), name)

    def get_outputs(self) -> list[str]:
        return [*super().get_outputs(), *(os.path.join(self.build_lib, n) for n in LIBRARIES)]


def addresses() -> dict[str, Any]:
    """Return the description and the addresses, which depend on where the project is published."""
    text, url = Path("README.md").read_text("utf-8"), os.environ.get("RKNN_PROJECT_URL")
    urls = {}
    if url:  # a package index shows the README without the files beside it
        text = re.sub(r"\]\((?![a-z]+:|#)", f"]({url}/blob/HEAD/", text)
        text = re.sub(r'src="(?![a-z]+:)', f'src="{url}/raw/HEAD/', text)
        urls = {
            "Source": url,
            "Issues": f"{url}/issues",
            "Changelog": f"{url}/blob/HEAD/CHANGELOG.md",
        }
    return {
        "long_description": text,
        "long_description_content_type": "text/markdown",
        "project_urls": urls,
    }


# A free-threaded CPython refuses to load the stable ABI.
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    cffi_modules=["rknn_cffi_build.py:ffibuilder"],
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    options={"bdist_wheel": {"py_limited_api": "cp39"}} if STABLE_ABI else {},
    **addresses(),
)

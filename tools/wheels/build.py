"""Cross-build the sdist and the wheels of every platform, on x86-64 Debian or Ubuntu.

    python tools/wheels/build.py OUTPUT [--target NAME ...] [--static-library FILE]

`zig cc` compiles for every target against the oldest glibc that it can link
(manylinux_2_17) or against musl. CPython's stable ABI needs nothing of the target's
Python: the headers of the Python that runs this serve all, with the sizes of a 32-bit
machine put into `pyconfig.h` for armv7l. Every wheel is built from the sdist and judged by
auditwheel, abi3audit and check.py. The same sources and the same Python give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import shutil
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from check import check_wheel
from project import CACHE, ROOT, copy_tracked_files, run, run_wheel, unpack
from zopfli import ZOPFLI_FORMAT_DEFLATE, ZopfliCompressor

#: What differs between a 64-bit and a 32-bit CPython in pyconfig.h and matters to Python.h.
PYCONFIG_32_BIT = {
    "ALIGNOF_LONG": 4,
    "ALIGNOF_SIZE_T": 4,
    "SIZEOF_LONG": 4,
    "SIZEOF_LONG_DOUBLE": 8,
    "SIZEOF_PTHREAD_T": 4,
    "SIZEOF_SIZE_T": 4,
    "SIZEOF_TIME_T": 4,
    "SIZEOF_UINTPTR_T": 4,
    "SIZEOF_VOID_P": 4,
}


@dataclass(frozen=True)
class Target:
    """One platform that gets a wheel."""

    machine: str  # as in the wheel's tag
    triple: str  # as zig wants it
    libc_soname: str | None = None  # of musl: zig records none that a musl system has

    @property
    def platform(self) -> str:
        """The platform tag that auditwheel must confirm."""
        if self.libc_soname is not None:
            return f"musllinux_1_2_{self.machine}"
        return f"manylinux_2_17_{self.machine}"


TARGETS = {
    "manylinux-aarch64": Target("aarch64", "aarch64-linux-gnu.2.17"),
    "manylinux-armv7l": Target("armv7l", "arm-linux-gnueabihf.2.17"),
    "manylinux-x86_64": Target("x86_64", "x86_64-linux-gnu.2.17"),
    "musllinux-aarch64": Target("aarch64", "aarch64-linux-musl", "libc.musl-aarch64.so.1"),
    "musllinux-armv7l": Target("armv7l", "arm-linux-musleabihf", "libc.musl-armv7.so.1"),
}


def source_date_epoch() -> int:
    """Seconds of the last commit: the time stamp of every built file."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def normalise_sdist(path: Path, epoch: int) -> None:
    """Rewrite a .tar.gz without the owner, times and order of the machine that made it."""
    with tarfile.open(path) as archive:
        entries = [
            (member, archive.extractfile(member).read() if member.isfile() else b"")
            for member in sorted(archive.getmembers(), key=lambda member: member.name)
        ]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in entries:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = epoch
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            archive.addfile(member, io.BytesIO(data))
    path.write_bytes(gzip.compress(buffer.getvalue(), mtime=epoch))


def build_sdist(output: Path) -> Path:
    """Build the sdist from the files that git tracks; return its path."""
    with tempfile.TemporaryDirectory() as folder:
        copy_tracked_files(Path(folder))
        run(sys.executable, "-m", "build", "--sdist", "--no-isolation", folder)
        (built,) = (Path(folder) / "dist").iterdir()
        normalise_sdist(built, source_date_epoch())
        return Path(shutil.copy(built, output))


def copy_python_headers(target: Path, *, bits_32: bool) -> None:
    """Copy Python.h and its kin with a pyconfig.h that fits the target's word size."""
    include = Path(sysconfig.get_path("include"))
    shutil.copytree(include, target)
    # Debian's pyconfig.h only includes the one of the architecture that compiles.
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    real = include.parent / multiarch / include.name / "pyconfig.h"
    text = (real if real.exists() else Path(sysconfig.get_config_h_filename())).read_text("utf-8")
    if bits_32:
        text += "#undef HAVE_GCC_UINT128_T\n"
        text += "".join(f"#undef {k}\n#define {k} {v}\n" for k, v in PYCONFIG_32_BIT.items())
    (target / "pyconfig.h").write_text(text, "utf-8")


def find_libgcc_armhf() -> Path:
    """Return the compiler's own helpers for armv7, from the system or fetched with apt-get.

    Those that zig brings contain memcpy, exp and more, which would then be used in place of the C
    library's.
    """
    for folder in (Path("/usr/lib/gcc-cross"), CACHE / "libgcc/usr/lib/gcc-cross"):
        found = sorted(folder.glob("arm-linux-gnueabihf/*/libgcc.a"))
        if found:
            return found[-1]
    # A fresh container has empty lists, and only root may fill them.
    lists = CACHE / "apt" / "lists"
    for folder in (lists / "partial", CACHE / "libgcc"):
        folder.mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={CACHE / 'apt'}"]
    run("apt-get", *options, "-o", "Acquire::Retries=3", "update")
    names = run("apt-cache", *options, "pkgnames", "libgcc-").split()
    packages = [n for n in names if n.endswith("-dev-armhf-cross") and n.split("-")[1].isdigit()]
    if not packages:
        raise SystemExit(
            "armv7l needs libgcc.a of arm-linux-gnueabihf, and apt knows no "
            "libgcc-*-dev-armhf-cross: install a gcc for arm-linux-gnueabihf"
        )
    package = max(packages, key=lambda name: int(name.split("-")[1]))
    run("apt-get", *options, "-o", "Acquire::Retries=3", "download", package, cwd=CACHE / "libgcc")
    (deb,) = (CACHE / "libgcc").glob(f"{package}_*.deb")
    run("dpkg-deb", "-x", deb, CACHE / "libgcc")
    deb.unlink()
    shutil.rmtree(CACHE / "apt")
    return find_libgcc_armhf()


def compiler_environment(target: Target, headers: Path) -> dict[str, str]:
    """Return the variables that make setuptools cross-compile for `target`."""
    compiler = f"{sys.executable} -m ziglang cc -target {target.triple} -I{headers}"
    # Unwind tables serve C++ and debuggers; on armv7 they also need helpers of the compiler.
    # Unlike gcc, zig keeps frame pointers and unrolls loops by default.
    flags = (
        "-O2 -g0 -DNDEBUG -fno-unwind-tables -fno-asynchronous-unwind-tables "
        "-fomit-frame-pointer -fno-unroll-loops"
    )
    libraries = ""
    if target.machine == "armv7l":
        compiler += " -mcpu=generic+v7a+neon+thumb_mode"  # Thumb, as Debian's armhf: 28 % less code
        libraries = f" {find_libgcc_armhf()} -rtlib=none"
    kept = {k: v for k, v in os.environ.items() if k not in ("CPPFLAGS", "PYTHONPATH")}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CC": compiler,
        "CFLAGS": flags,
        # -O2: without it zig links a debug build of its helpers.
        "LDSHARED": f"{compiler} -O2 -shared{libraries}",
        "SOURCE_DATE_EPOCH": str(source_date_epoch()),
        "ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(CACHE / "zig"),
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }


def name_musl(wheel: Path, soname: str, environment: dict[str, str]) -> Path:
    """Replace zig's name for musl in the libraries of a wheel by the one musl systems have."""
    with tempfile.TemporaryDirectory() as folder:
        run_wheel("unpack", "--dest", folder, wheel, env=environment)
        (content,) = Path(folder).iterdir()
        for library in content.rglob("*.so"):
            run("patchelf", "--replace-needed", "libc.so", soname, library, env=environment)
        wheel.unlink()
        run_wheel("pack", "--dest-dir", wheel.parent, content, env=environment)
    return wheel


def name_manylinux(wheel: Path, target: Target, environment: dict[str, str]) -> Path:
    """Write manylinux2014 and manylinux_2_17 into a wheel's tag: old versions of pip want it."""
    tag = f"manylinux2014_{target.machine}.{target.platform}"
    options = ("--remove", "--platform-tag", tag)
    run_wheel("tags", *options, wheel, env=environment)
    (renamed,) = wheel.parent.iterdir()
    return renamed


def compress(wheel: Path) -> None:
    """Deflate the files of a wheel again, with Zopfli: it takes 3 % off, and half a minute."""
    with zipfile.ZipFile(wheel) as archive:
        entries = [(entry, archive.read(entry)) for entry in archive.infolist()]
    # zipfile offers no other way to set a compressor.
    before = zipfile._get_compressor
    zipfile._get_compressor = lambda *_: ZopfliCompressor(
        ZOPFLI_FORMAT_DEFLATE, block_splitting_max=0
    )
    try:
        with zipfile.ZipFile(wheel, "w") as archive:
            for entry, data in entries:
                archive.writestr(entry, data)
    finally:
        zipfile._get_compressor = before


def build_wheel(name: str, sdist: Path, output: Path, static_library: Path | None) -> Path:
    """Build, tag and check the wheel of one target; return its path."""
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        unpack(sdist, work)
        (source,) = work.iterdir()
        headers = work / "include"
        copy_python_headers(headers, bits_32=target.machine == "armv7l")
        (work / "cross.cfg").write_text(f"[bdist_wheel]\nplat_name = {target.platform}\n", "utf-8")
        environment = compiler_environment(target, headers)
        environment["DIST_EXTRA_CONFIG"] = str(work / "cross.cfg")
        if static_library is not None:
            environment["RKNN_STATIC_LIBRARY"] = str(static_library)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", source, env=environment)
        (built,) = (source / "dist").iterdir()
        if target.libc_soname is not None:
            built = name_musl(built, target.libc_soname, environment)
        said = run(sys.executable, "-m", "auditwheel", "show", built, env=environment)
        if f'"{target.platform}"' not in said:
            raise SystemExit(f"{said}\nauditwheel does not confirm {target.platform}: {built.name}")
        if target.libc_soname is None:
            built = name_manylinux(built, target, environment)
        compress(built)
        run(sys.executable, "-m", "abi3audit", "--strict", built, env=environment)
        check_wheel(built, source, linked=static_library is not None)
        for old in output.glob(f"*{target.platform}*.whl"):
            old.unlink()
        return Path(shutil.copy(built, output))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all")
    parser.add_argument(
        "--static-library", type=Path, help="link this archive of a runtime in (never publish it)"
    )
    arguments = parser.parse_args()
    static_library = arguments.static_library and arguments.static_library.resolve(strict=True)
    os.umask(0o022)
    arguments.output.mkdir(parents=True, exist_ok=True)
    sdist = build_sdist(arguments.output)
    print(f"{sdist.stat().st_size:>8} bytes  {sdist.name}", flush=True)
    built = [sdist]
    for name in arguments.target or TARGETS:
        built.append(build_wheel(name, sdist, arguments.output, static_library))
        print(f"{built[-1].stat().st_size:>8} bytes  {built[-1].name}", flush=True)
    run(sys.executable, "-m", "twine", "check", "--strict", *built)


if __name__ == "__main__":
    main()

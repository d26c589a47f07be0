"""Count the instructions that the kernels and the import cost on ARM, under emulation.

    python benchmarks/instructions.py WHEELS [ROOT ...] [--only TEXT]

WHEELS is the folder of the built wheels, ROOT one of the root file systems that
`make test-arm` keeps (default: bookworm-armhf bookworm-arm64). For every kernel: that plain
C and NEON give the same bits, then instructions per element of each. For the import: what
`import rknn_runtime` adds to `import numpy`, in instructions and in resident memory.
--only counts kernels alone, those whose names have a text.

Needs qemu-user (the dynamically linked one: the static one loads no plugins) and gcc. An
instruction is no measure of time, but it is the same on every machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "tools" / "wheels"))

#: Debian architecture -> emulator, CPU, machine in the wheel's tag, number of sched_yield.
ARCHITECTURES = {
    "armhf": ("qemu-arm", "cortex-a7", "armv7l", 158),
    "arm64": ("qemu-aarch64", "cortex-a53", "aarch64", 124),
}
#: Where the guest's memory begins in the emulator's, for counting its pages.
GUEST_BASE = 0x2000_0000_0000
MAX_IMPORT_INSTRUCTIONS = 0.15
MAX_IMPORT_KB = 3072

IMPORT = """
import os
import numpy
os.sched_yield()
import rknn_runtime
os.sched_yield()
from rknn_runtime import Model
os.sched_yield()
from rknn_runtime import Detector
os.sched_yield()
"""
RESIDENT = """
import sys
import numpy
print("numpy", flush=True)
sys.stdin.readline()
import rknn_runtime
print("rknn_runtime", flush=True)
sys.stdin.readline()
from rknn_runtime import Detector
print("Detector", flush=True)
sys.stdin.readline()
"""


def cases():
    """Yield name, unit count and a call without arguments that returns the result, in the guest."""
    import numpy as np
    from native_tensors import deliver

    from rknn_runtime.kernels import layout, quantization
    from rknn_runtime.kernels.resize import resize_bilinear
    from rknn_runtime.vision.heads.single import SingleOutputDecoder
    from rknn_runtime.vision.letterbox import letterbox

    random = np.random.default_rng(0)
    packed = random.integers(-128, 128, (1, 6, 1, 8400, 16), dtype=np.int8)
    plain = random.integers(-128, 128, (1, 84, 1, 8400), dtype=np.int8)
    half = random.standard_normal((1, 11, 1, 8400, 8)).astype(np.float16)
    real = random.standard_normal(plain.shape).astype(np.float32)
    image = random.integers(0, 256, (720, 1280, 3), dtype=np.uint8)
    size, shape, wide = plain.size, plain.shape, np.empty(plain.shape, np.float32)
    rows, wide_rows = np.empty((1, 1, 8400, 84), np.int8), np.empty((1, 1, 8400, 84), np.float32)
    narrow, frame = np.empty(shape, np.int8), np.empty((640, 640, 3), np.uint8)
    blocks, int16 = np.empty_like(packed), plain.astype(np.int16)
    affine, fused = (-5, 0.25), quantization.dequantize_nc1hwc2

    yield "unpack int8 to NCHW", size, lambda: layout.nc1hwc2_to_nchw(packed, 84, out=narrow)
    yield "unpack int8 to NHWC", size, lambda: layout.nc1hwc2_to_nhwc(packed, 84, out=rows)
    yield "pack int8 from NCHW", size, lambda: layout.nchw_to_nc1hwc2(plain, 16, out=blocks)
    yield "pack int8 from NHWC", size, lambda: layout.nhwc_to_nc1hwc2(rows, 16, out=blocks)
    yield "dequantize int8", size, lambda: quantization.dequantize_affine(plain, *affine, wide)
    uint8 = plain.view(np.uint8)
    yield "dequantize uint8", size, lambda: quantization.dequantize_affine(uint8, 5, 0.25, wide)
    yield "dequantize int16", size, lambda: quantization.dequantize_affine(int16, *affine, wide)
    yield "quantize int8", size, lambda: quantization.quantize_affine(real, *affine, "int8", narrow)
    yield "unpack + dequantize to NCHW", size, lambda: fused(packed, 84, *affine, out=wide)
    yield (
        "unpack + dequantize to NHWC",
        size,
        lambda: fused(packed, 84, *affine, layout="NHWC", out=wide_rows),
    )
    yield "float16 to float32", half.size, lambda: quantization.float16_to_float32(half)
    yield "float32 to float16", size, lambda: quantization.float32_to_float16(real)
    gray, deep = image[:, :, :1].copy(), image.repeat(2, axis=2)[..., :4].copy()
    for name, source, sides, channels in (
        ("resize 2:1, 3 channels", image, (360, 640), None),
        ("resize 3:1, 3 channels", np.ascontiguousarray(image[:, :1278]), (240, 426), None),
        ("BGR to RGB in the same size", image, (720, 1280), (2, 1, 0)),
        ("resize 2:1, 4 channels", deep, (360, 640), None),
        ("resize 1280x720 to 640x640, gray", gray, (640, 640), None),
        ("resize 1280x720 to 640x360, gray", gray, (360, 640), None),
        ("resize 1280x720 to 1000x640, gray", gray, (640, 1000), None),
    ):
        options = {"channels": channels, "out": np.empty((*sides, source.shape[2]), np.uint8)}
        yield (
            f"{name}, per pixel",
            sides[0] * sides[1],
            lambda given=(source, sides), options=options: resize_bilinear(*given, **options),
        )
    luma = np.empty((640, 640, 1), np.uint8)
    for color, out_color, shape in (
        ("RGB", "RGB", image.shape),
        ("RGB", "GRAY", image.shape),
        ("NV12", "RGB", (1080, 1280)),
        ("NV12", "RGB", (1620, 1920)),
        ("NV12", "RGB", (1200, 800)),
        ("NV12", "RGB", (720, 640)),
        ("I420", "RGB", (720, 640)),
        ("YUYV", "RGB", (720, 1280, 2)),
        ("YUYV", "RGB", (480, 640, 2)),
        ("NV12", "GRAY", (1080, 1280)),
        ("NV12", "GRAY", (1200, 800)),
        ("NV12", "GRAY", (720, 640)),
        ("YUYV", "GRAY", (480, 640, 2)),
    ):
        picture = random.integers(0, 256, shape, dtype=np.uint8)
        options = {"color": color, "out_color": out_color}
        options["out"] = frame if out_color == "RGB" else luma
        yield (
            f"letterbox {color} of width {shape[1]} to 640x640 {out_color}, per pixel",
            640 * 640,
            lambda image=picture, options=options: letterbox(image, (640, 640), **options)[0],
        )
    for classes, side, n in ((80, 640, 8400), (6, 320, 2100)):  # the second is the demo's
        head = random.uniform(0, 0.2, (1, 4 + classes, 1, n)).astype(np.float32)
        head[0, :4] = random.uniform(0, 1, (4, 1, n))
        head[0, 4, 0, random.integers(0, n, 30)] = 0.9
        attr, raw, _ = deliver(head, "int8", "c2=16", lowest=0.0, highest=1.0)
        decode = SingleOutputDecoder(attr, (side, side), normalized=True)
        yield (
            f"YOLOv8 [1, {4 + classes}, {n}] to boxes, per frame",
            1,
            lambda decode=decode, raw=raw: np.column_stack(
                [(d := decode([raw])).xyxy, d.confidence, d.class_id]
            ),
        )


def transpositions():
    """Yield unpacking and packing for the other element sizes and group widths, as `cases`."""
    import numpy as np

    from rknn_runtime.kernels import layout

    random = np.random.default_rng(0)
    for dtype, c2 in (("int8", 8), ("float16", 8), ("int16", 4), ("float32", 4)):
        plain = random.integers(-128, 128, (1, 96, 1, 8400)).astype(dtype)
        packed = layout.nchw_to_nc1hwc2(plain, c2)
        name, size, out, blocks = f"{dtype}, {c2}", plain.size, plain.copy(), packed.copy()
        yield (
            f"unpack {name} in a group, to NCHW",
            size,
            lambda a=packed, out=out: layout.nc1hwc2_to_nchw(a, 96, out=out),
        )
        yield (
            f"pack {name} in a group, from NCHW",
            size,
            lambda a=plain, c2=c2, out=blocks: layout.nchw_to_nc1hwc2(a, c2, out=out),
        )


def scans():
    """Yield the decoders' first pass in every layout and type that has a variant, as `cases`.

    The 5 groups of 80 classes have special code; the 2 of 20 have none.
    """
    import numpy as np

    from rknn_runtime._arrays import pointer
    from rknn_runtime._ffi import ffi, lib

    random = np.random.default_rng(0)
    cells = 8400
    for channels, layout in ((80, "groups"), (80, "rows"), (80, "planes"), (20, "groups")):
        for dtype in ("int8", "uint8", "int16", "float16", "float32"):
            size = np.dtype(dtype).itemsize
            c2 = {"groups": 16 // size, "rows": channels, "planes": 1}[layout]
            raw = random.integers(0, 60, (-(-channels // c2), cells, c2)).astype(dtype)
            raw[0, random.integers(0, cells, 30), 0] = 100
            fields = {"data": pointer(raw.reshape(-1)), "n_bytes": raw.nbytes, "c2": c2}
            fields.update(type=getattr(lib, f"RKNN_TENSOR_{dtype.upper()}"), scale=1.0)
            fields.update(channels=channels, height=1, width=cells, plane=cells)
            view, hits = ffi.new("rkr_tensor_view *", fields), np.zeros(cells + 16, np.uint8)

            def scan(view=view, hits=hits, raw=raw, channels=channels):
                if lib.rkr_view_scan(view, 0, channels, 80.0, pointer(hits)) != lib.RKR_OK:
                    raise SystemExit("the scan refuses its arguments")
                return hits

            yield f"threshold of {channels} {dtype} in {layout}", channels * cells, scan


def crowds():
    """Yield decoding where the last of 80 classes passes in every cell, as `cases`.

    That is mostly the search for the highest class of a cell.
    """
    import numpy as np
    from native_tensors import deliver

    from rknn_runtime.vision.heads.split import SplitDecoder

    random = np.random.default_rng(0)
    for dtype in ("int8", "int16", "float16"):
        attrs, raw = [], []
        for side in (80, 40, 20):
            for channels in (4, 80):
                x = random.uniform(0, 0.2, (1, channels, side, side)).astype(np.float32)
                x[0, -1] = 0.9
                form = f"c2={16 // np.dtype(dtype).itemsize}"
                attr, data, _ = deliver(x, dtype, form, index=len(attrs), lowest=0, highest=1)
                attrs.append(attr)
                raw.append(data)
        decode = SplitDecoder(attrs, (640, 640), nms=False, conf_threshold=0.5)
        yield (
            f"{dtype} cell with a class that passes, to a box",
            8400,
            lambda decode=decode, raw=raw: np.column_stack(
                [(d := decode(raw)).xyxy, d.confidence, d.class_id]
            ),
        )


def detectors():
    """Yield a whole frame of a detector of nine outputs and its native calls, as `cases`.

    The difference is what Python costs.
    """
    import numpy as np

    from rknn_runtime import Detector, Model
    from rknn_runtime._ffi import ffi, lib
    from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

    scale = {"zero_point": -128, "scale": 1 / 255}
    shapes = [(1, channels, cells, cells) for cells in (8, 4, 2) for channels in (64, 80, 1)]
    outputs = [describe_output(f"y{i}", x, index=i, **scale) for i, x in enumerate(shapes)]
    data = bundle_from_arrays(
        [describe_input("image", (1, 3, 64, 64), **scale)],
        outputs,
        [Record([np.zeros(shape, np.float32) for shape in shapes])],
    )
    model = Model(data, library="sim")
    detector, image = Detector(model), np.zeros((72, 128, 3), np.uint8)
    detector(image)

    def frame():
        return detector(image).xyxy

    def native():
        letterbox, transform = detector._writer.prepare(image, "RGB")
        pixels, decoder = ffi.from_buffer(image), detector.decoder._native
        lib.rkr_run_frame(model._frame._native, letterbox, pixels, decoder, transform._placement)
        return image

    yield "detector of 9 outputs, an empty frame", 1, frame
    yield "resize, border, run and decode of it", 1, native


def guest(only: str) -> None:
    """Run every case at every level: checked and warm first, then between two marks."""
    from rknn_runtime._ffi import lib

    for name, count, call in (*cases(), *transpositions(), *scans(), *crowds(), *detectors()):
        if only not in name:
            continue
        lib.rkr_cpu_select(lib.RKR_CPU_PLAIN)
        expected = call().tobytes()
        for level in (lib.RKR_CPU_PLAIN, lib.RKR_CPU_VECTOR):
            lib.rkr_cpu_select(level)
            if call().tobytes() != expected:
                raise SystemExit(f"{name}: NEON and plain C differ")
            os.sched_yield()
            call()
            os.sched_yield()
        print(f"{count}\t{name}", flush=True)


class Emulator:
    """The Python of a root under the emulator, with the wheel for it."""

    def __init__(self, root: Path, wheels: Path, work: Path) -> None:
        name, self.cpu, machine, self.mark = ARCHITECTURES[root.name.split("-")[1]]
        program = shutil.which(name)  # by its path: the guest gets a PATH of its own
        if program is None:
            raise SystemExit(f"{name} is not there: apt-get install qemu-user")
        self.program = program
        programs = (root / "usr/bin").glob("python3.*")
        (self.python,) = (path for path in programs if path.suffix[1:].isdecimal())
        (wheel,) = wheels.glob(f"*manylinux*_{machine}.whl")
        self.root, self.work, self.site = root, work, work / machine
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site)

    def command(self, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        emulator = [self.program, "-cpu", self.cpu, "-L", str(self.root), *options]
        return [*emulator, str(self.python), *arguments]

    def environment(self) -> dict[str, str]:
        path = f"{self.site}:{PROJECT / 'tests'}"
        return {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "PYTHONHASHSEED": "0"}

    def count(self, *arguments: str) -> tuple[list[int], str]:
        """Return the instructions up to each mark, and the program's output."""
        plugin = self.work / f"count-{self.mark}.so"
        version = subprocess.run([self.program, "--version"], stdout=subprocess.PIPE, check=True)
        major = int(re.search(rb"version (\d+)", version.stdout).group(1))
        api = 1 if major < 9 else 4
        source = PROJECT / "benchmarks" / "count_instructions.c"
        defines = [f"-DMARK={self.mark}", f"-DQEMU_PLUGIN_API={api}"]
        options = ["-shared", "-fPIC", "-O2", *defines, "-o", str(plugin), str(source)]
        subprocess.run(["gcc", *options], check=True)
        command = self.command(*arguments, options=("-plugin", str(plugin)))
        done = subprocess.run(
            command,
            cwd=self.work,  # not the checkout, whose package is built for this machine
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        marks = re.findall(r"^guest instructions: (\d+)$", done.stderr, re.MULTILINE)
        return [int(mark) for mark in marks], done.stdout

    def resident_kb(self) -> list[int]:
        """Return the guest's resident memory after each step of RESIDENT."""
        command = self.command("-c", RESIDENT, options=("-B", hex(GUEST_BASE)))
        pipe = subprocess.PIPE
        sizes = []
        with subprocess.Popen(
            command, cwd=self.work, env=self.environment(), stdin=pipe, stdout=pipe, text=True
        ) as process:
            for _ in range(3):
                process.stdout.readline()
                sizes.append(guest_resident_kb(process.pid))
                process.stdin.write("\n")
                process.stdin.flush()
        return sizes


def guest_resident_kb(pid: int) -> int:
    """Add up the resident pages of an emulator's process that belong to the guest."""
    total, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text("utf-8").splitlines():
        address = re.match(r"([0-9a-f]+)-[0-9a-f]+ ", line)
        if address:
            inside = GUEST_BASE <= int(address.group(1), 16) < GUEST_BASE + 2**40
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def report_kernels(emulator: Emulator, only: str) -> None:
    marks, printed = emulator.count(str(Path(__file__).resolve()), "--guest", only)
    print("| kernel | plain C | NEON | ratio |\n| --- | ---: | ---: | ---: |")
    for number, line in enumerate(printed.splitlines()):
        count, name = line.split("\t")
        start, end, start_neon, end_neon = marks[4 * number : 4 * number + 4]
        plain, neon = (end - start) / int(count), (end_neon - start_neon) / int(count)
        print(f"| {name} | {plain:,.2f} | {neon:,.2f} | {plain / neon:.1f} |")


def report_import(emulator: Emulator) -> bool:
    emulator.count("-c", IMPORT)  # leaves compiled modules behind, as an installation does
    (after_numpy, after_import, *after_names), _ = emulator.count("-c", IMPORT)
    (start,), _ = emulator.count("-c", "import os; os.sched_yield()")
    numpy, ours = after_numpy - start, after_import - after_numpy
    resident_numpy, resident, resident_all = emulator.resident_kb()
    print(
        f"\nimport numpy: {numpy / 1e6:.1f} million instructions; import rknn_runtime after it: "
        f"{ours / 1e6:.1f} million, {100 * ours / numpy:.1f} % (at most "
        f"{100 * MAX_IMPORT_INSTRUCTIONS:.0f} %), and {resident - resident_numpy} kB of resident "
        f"memory (at most {MAX_IMPORT_KB})"
    )
    model, detector = (100 * (count - after_numpy) / numpy for count in after_names)
    print(
        f"with Model, imported on use: {model:.1f} %; with Detector: {detector:.1f} % and "
        f"{resident_all - resident_numpy} kB\n"
    )
    return ours <= MAX_IMPORT_INSTRUCTIONS * numpy and resident - resident_numpy <= MAX_IMPORT_KB


def main() -> None:
    from project import CACHE

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path)
    parser.add_argument("roots", nargs="*", metavar="ROOT")
    parser.add_argument("--only", default="", metavar="TEXT")
    arguments = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as work:
        for name in arguments.roots or ["bookworm-armhf", "bookworm-arm64"]:
            root = CACHE / "roots" / name
            if not root.exists():
                raise SystemExit(f"{root} is not there: make test-arm ROOTS={name}")
            emulator = Emulator(root, arguments.wheels, Path(work))
            print(f"\n## {name} ({emulator.cpu}, emulated)\n")
            report_kernels(emulator, arguments.only)
            good = (arguments.only != "" or report_import(emulator)) and good
    raise SystemExit(not good)


if __name__ == "__main__":
    if "--guest" in sys.argv:
        guest(sys.argv[-1])
    else:
        main()

"""Possible behaviour of the NPU that nobody has measured: the machine in NumPy with another rule.

Each question of ``rknn-runtime verify`` has the answers of a few such machines. The emulator
assumes the first one.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from reference import npu
from reference.npu import Machine, clip8
from reference.windows import sliding_windows


def up(p, n):
    p, n = np.asarray(p, np.int64), np.asarray(n, np.int64)
    return np.where(n > 0, (p + (np.int64(1) << np.maximum(n - 1, 0))) >> n, p)


def away(p, n):
    return np.sign(p) * up(np.abs(p), n)


def cut(p, n):
    return np.asarray(p, np.int64) >> np.asarray(n, np.int64)


EVEN = npu.rne
ROUNDINGS = {
    "ties to even": EVEN,
    "ties up": up,
    "ties away from zero": away,
    "cut off": cut,
}


class Asked(Machine):
    """A machine that rounds by another rule at one stage: ``out bs lut pool``."""

    def __init__(self, data, stage="", rounding=EVEN, **replaced):
        super().__init__(data)
        self.stage, self.rounding, self.replaced = stage, rounding, replaced
        self.stages = ["out"]

    @contextmanager
    def at(self, stage):
        self.stages.append(stage)
        yield
        self.stages.pop()

    def rne(self, p, n):
        return (self.rounding if self.stages[-1] == self.stage else EVEN)(p, n)

    def bs(self, *arguments):
        with self.at("bs"):
            return super().bs(*arguments)

    def answer(self, q, fill=None):
        """Stored values of all outputs; `fill` stands behind rows that memory pads."""
        names = {"rne": self.rne, "interpolate": npu.interpolate, "pool": npu.pool}
        before = dict(names, rne=EVEN, convolve=npu.convolve)
        names["convolve"] = self.replaced.get("convolve", npu.convolve)
        for name, stage in (("interpolate", "lut"), ("pool", "pool")):
            names[name] = self.staged(stage, self.replaced.get(name, before[name]))
        vars(npu).update(names)
        try:
            (index,) = self.inputs
            self.write(index, q)
            tensor = self.tensors[index]
            _, c, h, w = tensor.shape
            if fill is not None:
                rows = self.memory[tensor.address :][: h * 32 * c].reshape(h, 32, c)
                rows[:, w:] = fill
            self.run()
        finally:
            vars(npu).update(before)
        return [self.read(output) for output in self.outputs]

    def staged(self, stage, function):
        def call(*arguments, **named):
            with self.at(stage):
                return function(*arguments, **named)

        return call


def lower_entry(tables, v, index=5, start=-16384, slopes=(0, 0), shifts=(0, 0)):
    both = np.concatenate([tables[0][:512], tables[1]]).astype(np.int64)
    return both[np.clip((v - start) >> index, 0, 1024)]


def nearest_entry(tables, v, index=5, start=-16384, slopes=(0, 0), shifts=(0, 0)):
    return lower_entry(tables, v + (1 << (index - 1)), index, start)


POOL = npu.pool


def pool_with(value):
    """The border of a map is `value`, and takes part."""

    def pool(x, method, kernel, stride, pads, size, pad_value=0, reciprocals=(0, 0)):
        x = np.pad(x, ((0, 0), *((p, p) for p in pads)), constant_values=value)
        return POOL(x, method, kernel, stride, (0, 0), size, value, reciprocals)

    return pool


def pool_inside(x, method, kernel, stride, pads, size, pad_value=0, reciprocals=(0, 0)):
    """The mean of the values inside."""
    counts = _sums(np.ones((1, *x.shape[1:]), np.int64), kernel, stride, pads, size)
    return clip8(np.rint(_sums(x.astype(np.int64), kernel, stride, pads, size) / counts))


def _sums(x, kernel, stride, pads, size):
    padded = np.pad(x, ((0, 0), *((p, p) for p in pads)))
    windows = sliding_windows(padded, kernel, 1)
    return windows[:, :: stride[0], :: stride[1]][:, : size[0], : size[1]].sum((3, 4))


# ---- pixels --------------------------------------------------------------------------


def converted(tensor, pixels, mean, std, rounding=EVEN, whole_steps=True):
    """uint8 ``(H, W, 3)`` -> the stored values that a convolution reads, ``(1, 3, H, W)``.

    A factor of 15 bits, a shift, and an offset: a whole step. RK3588 adds it behind the shift,
    RV1106 before, which is the same. `whole_steps` off: the formula in float.
    """
    factor = 1 / (np.array(std) * tensor.scale)
    steps = tensor.zero_point - np.array(mean) * factor
    if not whole_steps:
        q = np.rint(pixels * factor + steps)
    else:
        shift = 14 - np.floor(np.log2(factor) + 1e-9).astype(int)
        scale = np.rint(factor * 2.0**shift).astype(int)
        q = rounding(pixels.astype(int) * scale, shift) + np.rint(steps).astype(int)
    return clip8(q).transpose(2, 0, 1)[None]


def plain(pixels):
    """Of a model with std 255 whose calibration images reached 0 and 255."""
    return (pixels.astype(int) - 128).astype(np.int8).transpose(2, 0, 1)[None]


# ---- float16 -------------------------------------------------------------------------


def half_sums(data, pixels):
    """A 3x3 convolution of 3 channels to 8 in float16, its products summed in several orders."""
    machine = Machine(data)
    named = {t.name: t for t in machine.tensors}
    at, bias = named["w0"].address, named["w1"].address
    w = machine.memory[at : at + 9 * 8 * 8 * 2].view(np.float16).reshape(3, 3, 8, 8)[..., :3]
    b = machine.memory[bias : bias + 8 * 4].view(np.float32)
    padded = np.pad(pixels.astype(np.float32), ((1, 1), (1, 1), (0, 0)))
    windows = sliding_windows(padded, (3, 3), 0)
    # (H, W, K, C, kh, kw): exact products, as factors have 11 and 8 bits.
    products = windows[:, :, None] * w.astype(np.float32).transpose(2, 3, 0, 1)
    taps_first = np.moveaxis(products, 3, 5).reshape(*products.shape[:3], 27)
    channels_first = products.reshape(*products.shape[:3], 27)

    def one_by_one(terms, dtype=np.float32):
        total = np.zeros(terms.shape[:-1], dtype)
        for k in range(terms.shape[-1]):
            total = (total + terms[..., k].astype(dtype)).astype(dtype)
        return total

    per_tap = taps_first.reshape(*taps_first.shape[:-1], 9, 3).astype(np.float64).sum(-1)
    sums = {
        "float32, tap by tap, one by one": one_by_one(taps_first),
        "float32, channel by channel": one_by_one(channels_first),
        "float32, channels of a tap at once": one_by_one(per_tap),
        "float32, rounded once": products.astype(np.float64).sum((3, 4, 5)).astype(np.float32),
        "float16": one_by_one(taps_first, np.float16),
    }
    return {
        name: [(total + b).astype(np.float16).transpose(2, 0, 1)[None]]
        for name, total in sums.items()
    }


# ---- questions -----------------------------------------------------------------------

BORDER_MEAN = (5.45, 10.45, 15.45)
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def by_rounding(stage):
    def answers(data, pixels):
        return {
            name: Asked(data, stage, rule).answer(plain(pixels)) for name, rule in ROUNDINGS.items()
        }

    return answers


def table(data, pixels):
    found = {
        f"interpolated, {name}": Asked(data, "lut", rule).answer(plain(pixels))
        for name, rule in ROUNDINGS.items()
    }
    for name, function in (("nearest entry", nearest_entry), ("lower entry", lower_entry)):
        found[name] = Asked(data, interpolate=function).answer(plain(pixels))
    return found


def average_border(data, pixels):
    q = plain(pixels)
    return {
        "outside stands the zero point": Asked(data).answer(q),
        "outside stands 0": Asked(data, pool=pool_with(0)).answer(q),
        "the mean of what lies inside": Asked(data, pool=pool_inside).answer(q),
    }


def maximum_border(data, pixels):
    q = plain(pixels)
    return {
        "what stands outside never wins": Asked(data).answer(q),
        "outside stands 0, and wins": Asked(data, pool=pool_with(0)).answer(q),
    }


def pixels_of(mean, std):
    def answers(data, pixels):
        machine = Asked(data)
        tensor = machine.tensors[machine.inputs[0]]
        common = tensor, pixels, mean, std
        return {
            "offset a whole step": Asked(data).answer(converted(*common)),
            "offset a whole step, cut off": Asked(data).answer(converted(*common, cut)),
            "as in float": Asked(data).answer(converted(*common, whole_steps=False)),
        }

    return answers


def pixel_ties(data, pixels):
    machine = Asked(data)
    tensor = machine.tensors[machine.inputs[0]]
    return {
        name: Asked(data).answer(converted(tensor, pixels, (0,) * 3, (255,) * 3, rule))
        for name, rule in ROUNDINGS.items()
    }


def border(data, pixels):
    machine = Asked(data)
    tensor = machine.tensors[machine.inputs[0]]
    common = BORDER_MEAN, (50,) * 3
    q = converted(tensor, pixels, *common)
    mean = np.rint(BORDER_MEAN).astype(np.uint8)[None, None]
    fill = converted(tensor, mean, *common)[0, :, 0, 0]
    return {
        "the mean of the pixels": Asked(data).answer(q, fill),
        "the zero point": Asked(data).answer(q),
        "0": Asked(data).answer(q, 0),
    }


def padding(data, pixels):
    machine = Asked(data)
    tensor = machine.tensors[machine.inputs[0]]
    black = converted(tensor, np.zeros((1, 1, 3), np.uint8), MEAN, STD)[0, :, :, 0].astype(np.int64)
    convolve, q = npu.convolve, converted(tensor, pixels, MEAN, STD)

    def beside(x, w, stride, dilation, pads, pad_value, size):
        column = np.broadcast_to(black[:, None], (3, x.shape[1], 1))
        return convolve(np.concatenate([x, column], 2), w, stride, dilation, pads, pad_value, size)

    def around(x, w, stride, dilation, pads, pad_value, size):
        rows, columns = x.shape[1] + 2 * pads[0], x.shape[2] + 2 * pads[1]
        wide = np.broadcast_to(black[:, None], (3, rows, columns)).copy()
        wide[:, pads[0] : rows - pads[0], pads[1] : columns - pads[1]] = x
        return convolve(wide, w, stride, dilation, (0, 0), pad_value, size)

    return {
        "the zero point": machine.answer(q),
        "a pixel of 0 at the right": Asked(data, convolve=beside).answer(q),
        "a pixel of 0": Asked(data, convolve=around).answer(q),
    }


def sigmoid_fp16(data, pixels):
    """Compute the function itself; the emulator's result is not computed here."""
    machine = Machine(data)
    named = {t.name: t for t in machine.tensors}
    w = machine.memory[named["w0"].address :][:6].view(np.float16).astype(np.float32)
    b = machine.memory[named["w1"].address :][:4].view(np.float32)
    x = (pixels.astype(np.float32) * w).sum(-1) + b
    exact = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float16)
    return {"the function itself": [exact[None, None]]}


#: What each question asks, the least and the largest pixel of each channel, and its answers.
class Later(Machine):
    """A machine that adds the zero point behind the last shift."""

    @staticmethod
    def stored(v, scale, shift, offset):
        return clip8(npu.rne(v * scale, shift) + offset)


def by_place(data, pixels):
    machines = {"before the last shift": Machine, "after the last shift": Later}
    found = {}
    for name, kind in machines.items():
        machine = kind(data)
        machine.write(machine.inputs[0], plain(pixels))
        machine.run()
        found[name] = [machine.read(output) for output in machine.outputs]
    return found


QUESTIONS = {
    "rounding": ("ties, int32 to int8", 255, by_rounding("out")),
    "offset": ("where the zero point is added", 255, by_place),
    "multiplier": ("ties, multipliers of channels", (0, 255, 255), by_rounding("bs")),
    "table": ("between entries of a table", 255, table),
    "average": ("ties, average pooling", 255, by_rounding("pool")),
    "average_border": ("border of average pooling", 255, average_border),
    "maximum_border": ("border of max pooling", 100, maximum_border),
    "pixels": ("mean and std of pixels", 255, pixels_of(MEAN, STD)),
    "pixel_ties": ("ties, conversion of pixels", 255, pixel_ties),
    "border": ("behind rows of an image", 60, border),
    "padding": ("around an image that is convolved", 255, padding),
    "sums_fp16": ("order of sums in float16", 255, half_sums),
    "table_fp16": ("table functions in float16", 255, sigmoid_fp16),
}

"""The NPU of RK3588 and RV1106 in NumPy, int8: it executes the commands of a ``.rknn`` file.

Slow and short: it imports nothing of the package, the container is read here again, and every block
is one formula over whole arrays. Nothing is refused: only models that are understood.
"""

from __future__ import annotations

import struct

import numpy as np

from reference.compressed import unpacked_by_codes, unpacked_by_eights
from reference.windows import sliding_windows

CNA, CORE, DPU, RDMA, PPU, PPU_RDMA = 1, 3, 4, 5, 6, 7
BLOCK_OF_TARGET = {
    0x0201: CNA, 0x0801: CORE, 0x1001: DPU, 0x2001: RDMA, 0x4001: PPU, 0x8001: PPU_RDMA,
}  # fmt: skip
ENABLED = {0x01: CNA, 0x04: CORE, 0x08: DPU, 0x10: RDMA, 0x20: PPU, 0x40: PPU_RDMA}


# ---- arithmetic ----------------------------------------------------------------------


def rne(p, n):
    """``p / 2**n``, halves to even: `n` may be an array."""
    p, n = np.asarray(p, np.int64), np.asarray(n, np.int64)
    half = np.where(n > 0, (np.int64(1) << np.maximum(n - 1, 0)) - 1, 0)
    return np.where(n > 0, (p + half + ((p >> n) & 1)) >> n, p)


def clip8(v):
    return np.clip(v, -128, 127).astype(np.int8)


def convolve(x, w, stride, dilation, pads, pad_value, size):
    """Sum of products as int64.

    Args:
        x: ``(C, H, W)``.
        w: ``(K, C, kh, kw)``, offsets added; ``(C, 1, kh, kw)`` of a depthwise convolution.
        stride: ``(y, x)``.
        dilation: ``(y, x)``.
        pads: ``(top, left)``.
        pad_value: What stands outside.
        size: ``(H, W)`` of the result.
    """
    (rows, columns), (kh, kw) = size, w.shape[2:]
    height = max((rows - 1) * stride[0] + (kh - 1) * dilation[0] + 1, x.shape[1] + pads[0])
    width = max((columns - 1) * stride[1] + (kw - 1) * dilation[1] + 1, x.shape[2] + pads[1])
    padded = np.full((x.shape[0], height, width), pad_value, np.int64)
    padded[:, pads[0] : pads[0] + x.shape[1], pads[1] : pads[1] + x.shape[2]] = x
    out = np.zeros((w.shape[0], rows, columns), np.int64)
    for i in range(kh):
        for j in range(kw):
            y, z = i * dilation[0], j * dilation[1]
            part = padded[
                :,
                y : y + (rows - 1) * stride[0] + 1 : stride[0],
                z : z + (columns - 1) * stride[1] + 1 : stride[1],
            ]
            if w.shape[1] == 1 and x.shape[0] == w.shape[0]:
                out += part * w[:, 0, i, j][:, None, None]
            else:
                out += np.tensordot(w[:, :, i, j].astype(np.int64), part, 1)
    return out


def insert(x, steps, value):
    """Put ``steps - 1`` times `value` between rows and columns: a deconvolution's input."""
    shape = ((x.shape[1] - 1) * steps[0] + 1, (x.shape[2] - 1) * steps[1] + 1)
    out = np.full((x.shape[0], *shape), value, x.dtype)
    out[:, :: steps[0], :: steps[1]] = x
    return out


def interpolate(tables, v, index=5, start=-16384, slopes=(0, 0), shifts=(0, 0)):
    """The LUT: 1024 intervals of ``2**index``, lines behind both ends."""
    low, high = tables
    both = np.concatenate([low[:512], high]).astype(np.int64)
    end = start + (1024 << index)
    at = np.clip(v, start, end - 1) - start
    f = at & ((1 << index) - 1)
    inside = rne(both[at >> index] * ((1 << index) - f) + both[(at >> index) + 1] * f, index)
    under = low[0] + ((v - start) * slopes[0] >> shifts[0])
    over = high[512] + ((v - end) * slopes[1] >> shifts[1])
    return np.where(v < start, under, np.where(v >= end, over, inside))


def pool(x, method, kernel, stride, pads, size, pad_value=0, reciprocals=(0, 0)):
    """``(C, H, W)`` int8 -> ``(C, *size)``; method 0 average, 1 maximum, 2 minimum."""
    fill = {0: pad_value, 1: -128, 2: 127}[method]
    shape = [(size[k] - 1) * stride[k] + kernel[k] for k in range(2)]
    padded = np.full((x.shape[0], *np.maximum(shape, np.add(x.shape[1:], pads))), fill, np.int64)
    padded[:, pads[0] : pads[0] + x.shape[1], pads[1] : pads[1] + x.shape[2]] = x
    windows = sliding_windows(padded, kernel, 1)
    windows = windows[:, :: stride[0], :: stride[1]][:, : size[0], : size[1]]
    if method == 0:
        return clip8(rne(windows.sum((3, 4)) * reciprocals[0] * reciprocals[1], 32))
    return clip8(windows.max((3, 4)) if method == 1 else windows.min((3, 4)))


# ---- the file ------------------------------------------------------------------------


class Flat:
    """A flatbuffer, trusting it."""

    def __init__(self, data):
        self.data = data

    def read(self, code, at):
        return struct.unpack_from("<" + code, self.data, at)[0]

    def slot(self, table, number):
        vtable = table - self.read("i", table)
        entry = 4 + 2 * number
        if entry >= self.read("H", vtable):
            return 0
        offset = self.read("H", vtable + entry)
        return table + offset if offset else 0

    def scalar(self, table, number, code="I"):
        at = self.slot(table, number)
        return self.read(code, at) if at else 0

    def follow(self, at):
        return at + self.read("I", at)

    def vector(self, table, number, dtype="<u4"):
        at = self.slot(table, number)
        if not at:
            return np.zeros(0, dtype)
        at = self.follow(at)
        return np.frombuffer(self.data, dtype, self.read("I", at), at + 4)

    def tables(self, table, number):
        at = self.slot(table, number)
        at = self.follow(at) if at else 0
        return [self.follow(at + 4 + 4 * k) for k in range(self.read("I", at))] if at else []

    def text(self, table, number):
        return self.vector(table, number, "u1").tobytes().decode()


class Tensor:
    def __init__(self, flat, table, mini):
        self.type, self.layout, self.kind = (flat.scalar(table, k, "B") for k in range(3))
        self.native = flat.vector(table, 3).tolist()
        self.shape = flat.vector(table, 4).tolist()
        self.name = flat.text(table, 5)
        self.size = flat.scalar(table, 8 if mini else 12)
        self.offset = flat.scalar(table, 9 if mini else 13)
        self.blob = flat.scalar(table, 18) if not mini and flat.slot(table, 18) else None
        self.is_pixel = bool(flat.slot(table, 12 if mini else 20))
        scales = flat.vector(table, 6 if mini else 10, "<f4")
        self.scale = float(scales[0]) if len(scales) else 1.0
        self.zero_point = int((flat.vector(table, 7 if mini else 11, "<i4").tolist() or [0])[0])


class Machine:
    """A model, its memory, and its tasks with the registers that each runs with."""

    def __init__(self, data):
        self.mini = data[9] == 0x10
        (length,) = struct.unpack_from("<Q", data, 16)
        end = 64 + length
        sizes = struct.unpack_from("<7I", data, 64)
        flat = Flat(data[end - sizes[0] : end] if self.mini else data[64:end])
        root = flat.follow(0)
        self.is_rk3588 = flat.text(root, 6 if self.mini else 8) == "rk3588"
        graph = flat.tables(root, 2)[0]
        self.tensors = [Tensor(flat, t, self.mini) for t in flat.tables(graph, 0)]
        self.inputs, self.outputs = (flat.vector(graph, k).tolist() for k in (2, 3))
        self.nodes = [
            (flat.text(t, 1), flat.vector(t, 4).tolist(), flat.vector(t, 5).tolist())
            for t in flat.tables(graph, 1)
        ]
        if self.mini:
            words, table = self.place_mini(data, sizes)
        else:
            words, table = self.place_standard(flat, root, graph)
        self.tasks = self.decode(words, table)
        self.held = None, None  # compressed weights in the buffer: their address, unpacked

    def place_mini(self, data, sizes):
        _, tasks, count, commands, internal, weights, extra = sizes
        image = data[128 + tasks : 128 + tasks + commands + extra + weights]
        self.memory = np.frombuffer(image + bytes(internal), np.int8).copy()
        for tensor in self.tensors:
            base = len(image) if tensor.kind in (1, 2, 3) else commands + extra
            tensor.address = base + tensor.offset
        table = np.frombuffer(data, "<u4", 10 * count, 128).reshape(-1, 10)
        return np.frombuffer(image, "<u8", commands // 8), table

    def place_standard(self, flat, root, graph):
        blobs = [flat.vector(t, 0, "i1") for t in flat.tables(root, 20)]
        starts = np.cumsum([0] + [(len(b) + 63) // 64 * 64 for b in blobs])
        internal = max(t.offset + t.size for t in self.tensors if t.kind in (1, 2, 3))
        self.memory = np.zeros(int(starts[-1]) + internal, np.int8)
        for start, blob in zip(starts, blobs):
            self.memory[start : start + len(blob)] = blob
        for tensor in self.tensors:
            inner = tensor.kind in (1, 2, 3)
            tensor.address = int(starts[-1]) + tensor.offset if inner else 0
            if not inner and tensor.blob is not None:
                tensor.address = int(starts[tensor.blob])
        held = {t.kind: blobs[t.blob] for t in self.tensors if t.kind in (9, 10)}
        words = held[9].view("<u8").copy()
        address = {t.name: t.address for t in self.tensors}
        for entry in flat.tables(graph, 7):
            places = flat.vector(entry, 1, "<u8")
            for addend, at in zip(places & 0xFFFFFFFF, places >> 32):
                value = (address[flat.text(entry, 0)] + int(addend)) & 0xFFFFFFFF
                words[at] = (int(words[at]) & ~(0xFFFFFFFF << 16)) | value << 16
        table = held[10].view("<u4").reshape(-1, 10)
        lists = flat.vector(graph, 10).tolist()
        if len(lists) > 2:
            table = table[lists[2] : lists[3] if len(lists) > 3 else len(table)]
        return words, table

    def decode(self, words, table):
        """Registers persist in two groups per block, which take turns."""
        groups = {b: [{}, {}] for b in ENABLED.values()}
        current = dict.fromkeys(groups, 0)
        lut, tasks = np.zeros((2, 513), np.int64), []
        for entry in table:
            enabled, first = int(entry[2]), int(entry[8]) // 8
            loads, access = False, 0
            for word in words[first : first + int(entry[6])].tolist():
                number, value = word & 0xFFFF, word >> 16 & 0xFFFFFFFF
                block = BLOCK_OF_TARGET.get(word >> 48)
                if block is None:
                    continue
                if number & 0xFFF == 4:
                    current[block] = 0 if value & 0x30 else current[block]
                elif number == 0x4100:
                    access = value
                elif number == 0x4104 and access >> 17 & 1:
                    loads, lut = True, lut.copy() if not loads else lut
                    lut[access >> 16 & 1, access & 0x3FF] = np.int16(
                        np.uint16(value & 0xFFFF).astype(np.int16)
                    )
                    access += 1
                else:
                    groups[block][current[block]][number] = value
            registers = {}
            for bit, block in ENABLED.items():
                if enabled & bit:
                    registers.update(groups[block][current[block]])
                    current[block] ^= 1
            tasks.append((int(entry[1]), None if loads else enabled, registers, lut))
        return tasks

    # ---- memory

    def planes(self, address, plane, line, shape):
        """View ``(C, H, W)`` of 16-byte atoms, C a multiple of 16: ``(C1, H, W, 16)``."""
        c, h, w = shape
        return np.lib.stride_tricks.as_strided(
            self.memory[address:], ((c + 15) // 16, h, w, 16), (plane, line, 16, 1)
        )

    def place(self, tensor):
        """View of a tensor of rank 4 as ``(N, C, H, W)``, after a copy for the channels."""
        n, c, h, w = tensor.shape
        if tensor.is_pixel:
            row = (w + 15) // 16 * 16 * c
            return np.lib.stride_tricks.as_strided(
                self.memory[tensor.address :], (n, c, h, w), (h * row, 1, row, c)
            )
        plane = h * w if tensor.kind == 1 or h * w == 1 else (h * w + 3) // 4 * 4
        groups = np.lib.stride_tricks.as_strided(
            self.memory[tensor.address :],
            (n, tensor.native[1], h, w, 16),
            (tensor.native[1] * plane * 16, plane * 16, w * 16, 16, 1),
        )
        return groups

    def read(self, index):
        """Logical values of a tensor of rank 4 in blocks of 16, or of pixels."""
        tensor = self.tensors[index]
        view = self.place(tensor)
        if tensor.is_pixel:
            return view.copy()
        n, c, h, w = tensor.shape
        return np.moveaxis(view, 4, 2).reshape(n, -1, h, w)[:, :c].copy()

    def write(self, index, values):
        """The other way; rows of an image are filled up with the zero point."""
        tensor = self.tensors[index]
        n, c, h, w = tensor.shape
        view = self.place(tensor)
        if tensor.is_pixel:
            size = n * h * ((w + 15) // 16 * 16) * c
            self.memory[tensor.address : tensor.address + size] = tensor.zero_point
            view[...] = values
            return
        padded = np.zeros((n, view.shape[1] * 16, h, w), np.int8)
        padded[:, :c] = values
        view[...] = np.moveaxis(padded.reshape(n, view.shape[1], 16, h, w), 2, 4)

    # ---- tasks

    def run(self):
        """All tasks but the ones of the graph's ends."""
        for node in range(len(self.nodes)):
            if self.nodes[node][0] not in ("InputOperator", "OutputOperator"):
                self.run_node(node)

    def run_node(self, node):
        """The tasks of one node."""
        for owner, enabled, registers, lut in self.tasks:
            if owner != node or enabled is None:
                continue
            r = Registers(registers)
            if enabled == 0x60:
                self.run_pooling(r)
            elif enabled == 0x18:
                self.run_dpu(r, lut)
            else:
                self.run_convolution(node, r, lut)

    def accumulated(self, node, registers, acc):
        """A hook for tests: the sums of a task, stored values times weights."""

    def run_convolution(self, node, r, lut):
        kw, kh, kernels = r(0x1038, 28, 24), r(0x1038, 20, 16), r(0x1038, 13, 0)
        width, height = r(0x1020, 26, 16), r(0x1020, 10, 0)
        size = r(0x3014, 31, 16) + 1, r(0x3014, 15, 0) + 1
        channels, pixel = r(0x1024, 15, 0), r(0x100C, 15, 12)
        pad_value = int(np.uint8(r(0x1184, 7, 0)).astype(np.int8))
        bits = 4 if self.is_rk3588 else 8
        pads = r(0x1068, bits - 1, 0), r(0x1068, 2 * bits - 1, bits)
        if pixel:
            # Whole rows of memory, as every binding but pass_through makes RK3588 read.
            pitch = (width + 15) // 16 * 16 if self.is_rk3588 else r(0x1044, 31, 16)
            columns = pitch if self.is_rk3588 else width
            c = pixel - 7
            x = np.lib.stride_tricks.as_strided(
                self.memory[r(0x1070) :], (c, height, columns), (1, pitch * c, c)
            )
        else:
            by_lines = r(0x100C, 29, 29) or r(0x107C) != 4 * width
            line = r(0x107C) if by_lines else width
            plane = r(0x1080)
            if self.is_rk3588:
                plane = (plane + (width if by_lines else r(0x107C))) % (1 << 28)
            atoms = self.planes(
                r(0x1070), plane * 16, line * 16, ((channels + 15) // 16 * 16, height, width)
            )
            if self.is_rk3588 and r(0x100C, 3, 0) == 0:  # those that exist
                channels = (channels - 1) // 64 * 64 + r(0x1024, 29, 16) % 64 + 1
            x = np.moveaxis(atoms, 3, 1).reshape(-1, height, width)[:channels]
        x = insert(x, (r(0x1014, 13, 11) + 1, r(0x1014, 10, 8) + 1), pad_value)
        depthwise = r(0x100C, 3, 0) != 0
        results = r(0x403C, 28, 16) + 1
        offsets = self.channel_values(r, 0x501C, 0x5020, results)[1]
        if offsets is None:
            constant = r(0x4050, 1, 0) == 0 if self.is_rk3588 else r(0x4054, 31, 31)
            offsets = np.full(results, r.signed(0x4054) if constant else 0)
        w = self.weights(r, kernels, len(x) if depthwise else x.shape[0], kh, kw, depthwise)
        if not depthwise:  # an odd number of kernels is made even
            w = w[:results] + offsets[: min(results, len(w)), None, None, None]
        elif self.is_rk3588:
            w = w + np.resize(offsets, len(w))[:, None, None, None]
        stride = r(0x1014, 5, 3), r(0x1014, 2, 0)
        dilation = r(0x1014, 25, 21) + 1, r(0x1014, 20, 16) + 1
        acc = convolve(x, w, stride, dilation, pads, pad_value, size)
        self.accumulated(node, r, acc)
        acc = rne(acc, r(0x301C, 4, 0))
        values = np.zeros((results, *size), np.int64)
        values[: min(results, len(acc))] = acc[:results]
        notch = r(0x4038, 12, 0)
        writer = r(0x405C, 28, 16) + 1, r(0x405C, 12, 0) + 1
        assert writer in (tuple(size), (size[1], 1))
        is_by_pixels = writer != tuple(size)
        line = r(0x40C0) if is_by_pixels else (size[1] + notch) * 16
        strides = ((1 + notch if is_by_pixels else 1) * 16, line)
        self.finish(r, lut, values, strides)

    def packed(self, r):
        """The bytes of the weights as they lie in memory where nothing is compressed."""
        memory = self.memory[r(0x1110) :]
        if r(0x1100):
            unpack = unpacked_by_codes if self.is_rk3588 else unpacked_by_eights
            self.held = r(0x1110), unpack(memory.view(np.uint8), r)
        held = r(0x1110) == self.held[0]
        return self.held[1] if held else memory

    def weights(self, r, kernels, channels, kh, kw, depthwise):
        taps, memory = kh * kw, self.packed(r)
        if depthwise:
            pairs = not self.is_rk3588 and r(0x100C, 3, 0) == 7
            group = 64 if self.is_rk3588 else 32
            stored = r(0x1030) // (taps * (2 if pairs else 1))
            flat = memory[: r(0x1030)].astype(np.int64)
            if pairs:
                second = flat[1::2]
                flat = flat[::2] + np.where(second == -128, 128, second)
            elif not self.is_rk3588:
                flat = flat + r.signed(0x1074)
            parts, at = [], 0
            for first in range(0, stored, group):
                size = min(group, stored - first)
                part = flat[at : at + taps * size].reshape(taps, size)
                parts.append(part.T)
                at += taps * size
            return np.concatenate(parts)[:channels].reshape(channels, 1, kh, kw)
        stored, group = r(0x1034) // taps, 32 if self.is_rk3588 else 16
        out = np.zeros((kernels, stored, taps), np.int64)
        at = 0
        for k in range(0, kernels, group):
            oc = min(group, kernels - k)
            for c in range(0, stored, 32):
                ic = min(32, stored - c)
                block = memory[at : at + taps * oc * ic].reshape(taps, oc, ic)
                out[k : k + oc, c : c + ic] = np.moveaxis(block, 0, 2)
                at += taps * oc * ic
        return out[:, :channels].reshape(kernels, channels, kh, kw)

    @staticmethod
    def stored(v, scale, shift, offset):
        """The zero point is added before the last shift, which rounds halves to even."""
        return clip8(rne(v * scale + (offset << shift), shift))

    def channel_values(self, r, parts_at, address_at, count):
        """int32, int16 offsets, int16 multipliers of the channels; None for those absent."""
        parts, group = r(parts_at, 4, 1), 8 if self.is_rk3588 else 4
        padded = (count + group - 1) // group * group
        sizes = [4 if parts & 1 else 0, 2 if parts & 2 else 0, 2 if parts & 4 else 0]
        block = self.memory[r(address_at) :][: padded * sum(sizes)]
        if not sum(sizes):
            return None, None, None
        block = block.reshape(-1, group * sum(sizes))
        out, at = [], 0
        for size, dtype in zip(sizes, ("<i4", "<i2", "<i2")):
            part = np.ascontiguousarray(block[:, at : at + group * size])
            out.append(part.view(dtype).ravel()[:count].astype(np.int64) if size else None)
            at += group * size
        return out

    def run_dpu(self, r, lut):
        width, height = r(0x500C, 12, 0) + 1, r(0x5010, 12, 0) + 1
        channels = r(0x5014, 12, 0) + 1
        if r(0x5048, 12, 12):
            self.unpool(r, width, height)
            return
        line = (width + r(0x5048, 31, 19)) * 16
        plane = ((height - 1) * line + width * 16 + r(0x504C)) & 0xFFFFFFFF
        atoms = self.planes(r(0x5018), plane, line, (channels, height, width))
        values = np.moveaxis(atoms, 3, 1).reshape(-1, height, width)[:channels]
        notch = r(0x4038, 12, 0)
        self.finish(r, lut, values.astype(np.int64), (16, (width + notch) * 16))

    def unpool(self, r, width, height):
        x = self.planes(r(0x5018), 0, width * 16, (16, height, width))[0].copy()
        times = r(0x5048, 5, 3) + 1, r(0x5048, 2, 0) + 1
        out = np.repeat(np.repeat(x, times[0], 0), times[1], 1)
        at = self.planes(r(0x4020), 0, r(0x4024), (16, *out.shape[:2]))[0]
        at[...] = out

    def finish(self, r, lut, v, strides):
        """BS, BN, EW or LUT, conversion, and into memory."""
        count, height, width = v.shape
        if not self.is_rk3588:
            v = v + r.signed(0x4018, 32)
        bias, _, mul = self.channel_values(r, 0x501C, 0x5020, count)
        v = self.bs(r, v, bias, mul)
        v = self.bn(r, v)
        config = r(0x4070)
        if config & 0x81 == 0:
            slopes = r.signed(0x4120), r.signed(0x4128, 16, 16)
            v = interpolate(
                lut, v, r(0x410C, 15, 8), r.signed(0x4110, 32), slopes,
                (r(0x4124, 4, 0), r(0x412C, 9, 5)),
            )  # fmt: skip
        elif config & 3 == 0 and not r(0x5034, 0, 0):
            v = self.ew(r, v)
        v = self.stored(v, r.signed(0x4084), r(0x4088, 11, 0), r.signed(0x4080, 32))
        padded = np.zeros(((count + 15) // 16 * 16, height, width), np.int8)
        padded[:count] = v
        at = np.lib.stride_tricks.as_strided(
            self.memory[r(0x4020) :],
            (len(padded) // 16, height, width, 16),
            (r(0x4024), strides[1], strides[0], 1),
        )
        atoms = np.moveaxis(padded.reshape(-1, 16, height, width), 1, 3)
        if count % 16:  # the rest of the last group is whatever the NPU makes of it
            at[:-1] = atoms[:-1]
            at[-1, :, :, : count % 16] = atoms[-1, :, :, : count % 16]
        else:
            at[...] = atoms

    def bs(self, r, v, bias, mul):
        if self.is_rk3588:
            config = r(0x4040)
            if config & 1:
                return v
            if not config & 2:
                add = bias[:, None, None] if config & 0x100 else r.signed(0x4044, 32)
                v = v - add if config >> 16 & 0xF == 4 else v + add
            if not config & 0x10:
                m = mul[:, None, None] if r(0x4048, 0, 0) else r.signed(0x4048, 16, 16)
                p = v * m
                v = rne(p, np.where(p >= 0, r(0x4048, 13, 8), r(0x4010, 9, 4)))
            return v if config & 0x40 else np.maximum(v, 0)
        v = v if bias is None else v + bias[:, None, None]
        if r(0x4040, 0, 0) or r(0x4050, 1, 1):
            return v
        p = v * (r.signed(0x4048, 16, 16) if mul is None else mul[:, None, None])
        return rne(p, np.where(p >= 0, r(0x4040, 14, 9), r(0x4054, 29, 24)))

    def bn(self, r, v):
        config = r(0x4060)
        if config & 1:
            return v
        adds, multiplies = not config & 2, not config & 0x10
        block = self.channel_values(r, 0x5028, 0x502C, len(v))
        add = block[0][:, None, None] if config & 0x100 and adds else r.signed(0x4064, 32)
        mul = block[2][:, None, None] if r(0x4068, 0, 0) and multiplies else None
        mul = r.signed(0x4068, 16, 16) if mul is None else mul
        positive, negative = r(0x4068, 13, 8), r(0x4010, 15, 10)
        add = add if adds else 0
        if config & 0x20:
            v = np.where(v < 0, rne(v * mul, negative), rne(v, positive))
        elif multiplies:
            p = v * mul + add if self.is_rk3588 else (v + add) * mul
            v = rne(p, np.where(p >= 0, positive, negative))
        else:
            v = v + add
        if config & 0x40:
            return v
        if self.is_rk3588:
            v = np.maximum(v, 0)
            return np.minimum(v, r.signed(0x406C, 32)) if config & 0x80 else v
        return np.clip(v, r.signed(0x406C, 32), r.signed(0x4028, 32))

    def ew(self, r, v):
        config, (count, height, width) = r(0x4070), v.shape
        address = r(0x5018) if r(0x5044, 10, 8) and self.is_rk3588 else r(0x5038)
        if r(0x5034, 31, 30) == 0:
            height = width = 1
        atoms = self.planes(address, r(0x5040), width * 16, (count, height, width))
        e = np.moveaxis(atoms, 3, 1).reshape(-1, height, width)[:count].astype(np.int64)
        if not config & 0x100:
            e = rne((e + r.signed(0x4074, 32)) * r.signed(0x4078), r(0x4078, 21, 16))
        if config & 4:
            return rne(v * e, r(0x4078, 31, 22))
        return {0: np.maximum, 1: np.minimum, 2: np.add, 4: np.subtract}[config >> 16 & 0xF](v, e)

    def run_pooling(self, r):
        size = r(0x6010, 12, 0) + 1, r(0x600C, 12, 0) + 1
        out = r(0x601C, 12, 0) + 1, r(0x6018, 12, 0) + 1
        channels = r(0x6014, 12, 0) + 1
        atoms = self.planes(r(0x701C), r(0x7028), r(0x7024), (channels, *size))
        x = np.moveaxis(atoms, 3, 1).reshape(-1, *size)
        y = pool(
            x,
            r(0x6024, 1, 0),
            (r(0x6034, 11, 8) + 1, r(0x6034, 3, 0) + 1),
            (r(0x6034, 23, 20) + 1, r(0x6034, 19, 16) + 1),
            (r(0x6040, 6, 4), r(0x6040, 2, 0)),
            out,
            (r(0x6044, 18, 0) ^ 1 << 18) - (1 << 18),
            (r(0x603C, 16, 0), r(0x6038, 16, 0)),
        )
        line = (out[1] + r(0x6024, 28, 16)) * 16
        at = self.planes(r(0x6070), r(0x607C), line, (channels, *out))
        at[...] = np.moveaxis(y.reshape(-1, 16, *out), 1, 3)


class Registers:
    """Registers of one task; registers that were never written are 0."""

    def __init__(self, values):
        self.values = values

    def __call__(self, number, high=31, low=0):
        return self.values.get(number, 0) >> low & ((1 << (high - low + 1)) - 1)

    def signed(self, number, bits=16, low=0):
        value = self(number, low + bits - 1, low)
        return value - (1 << bits) if value >> (bits - 1) else value

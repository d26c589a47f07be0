"""Families of layers as frameworks export them, and of whole small networks.

families.py draws single operators on images; these have odd attributes, several inputs or outputs,
and tensors of other ranks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from . import architectures, exporters
from . import families as f
from .families import CHANNELS, pick
from .network import Case, Network, Value


def ranked(net: Network, least: int = 2) -> Value:
    """Draw an input of rank 2, 3, 4 or 5."""
    rank = pick(net, [rank for rank in (2, 3, 3, 4, 5) if rank >= least])
    sizes = [pick(net, (2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 32)[: 12 if rank < 5 else 6])
             for _ in range(rank - 1)]  # fmt: skip
    return net.input(pick(net, (1, 1, 1, 2)), *sizes)


def dense(net: Network, x: Value, out: int, bias: bool = True) -> Value:
    """A layer of torch.nn.Linear."""
    y = net.op("MatMul", x, net.weights(x.shape[-1], out, spread=x.shape[-1] ** -0.5))
    return net.op("Add", y, net.weights(out, spread=0.3)) if bias else y


def odd_conv(net: Network) -> Value:
    """Sides of padding, strides and dilations that differ."""
    group = pick(net, (1, 1, 2, 3))
    x = f.image(net, 5, channels=[c for c in CHANNELS if c % group == 0])
    kernel = [pick(net, (1, 2, 3, 4, 5)) for _ in range(2)]
    dilation = [pick(net, (1, 1, 2)) if k > 1 else 1 for k in kernel]
    reach = [(k - 1) * d for k, d in zip(kernel, dilation)]
    out = pick(net, [c for c in CHANNELS if c % group == 0])
    if pick(net, (0, 0, 0, 1)):  # several kernels for each channel
        group, out = x.shape[1], x.shape[1] * pick(net, (2, 3))
    return net.op(
        "Conv", x, net.weights(out, x.shape[1] // group, *kernel), net.weights(out, spread=0.3),
        strides=[pick(net, (1, 1, 2, 3, 4)) for _ in range(2)], dilations=dilation, group=group,
        kernel_shape=kernel, pads=[int(net.random.integers(0, r + 1)) for r in (*reach, *reach)],
    )  # fmt: skip


def odd_transposed(net: Network) -> Value:
    x = f.image(net, 2, channels=CHANNELS[:18])
    group = pick(net, (1, 1, x.shape[1], 2 if x.shape[1] % 2 == 0 else 1))
    each = 1 if group == x.shape[1] > 1 else pick(net, (1, 2, 3, 8, 16, 17))
    kernel = [pick(net, (2, 3, 4, 5)) for _ in range(2)]
    stride = [pick(net, (1, 2, 2, 3, 4)) for _ in range(2)]
    extra = [int(s > 1 and net.random.random() < 0.3) for s in stride]
    return net.op(
        "ConvTranspose", x,
        net.weights(x.shape[1], each, *kernel, spread=(x.shape[1] / group) ** -0.5 / 2),
        net.weights(each * group, spread=0.3), strides=stride, output_padding=extra, group=group,
        pads=[int(net.random.integers(0, (k + 1) // 2)) for k in (*kernel, *kernel)],
    )  # fmt: skip


def odd_pooling(net: Network) -> Value:
    x = f.image(net, 5, channels=CHANNELS[2:])
    kernel = [pick(net, (1, 2, 3, 4, 5)) for _ in range(2)]
    kind = pick(net, ("MaxPool", "AveragePool"))
    attributes = {"count_include_pad": pick(net, (0, 1))} if kind == "AveragePool" else {}
    return net.op(
        kind, x, kernel_shape=kernel, strides=[pick(net, (1, 1, 2, 3)) for _ in range(2)],
        pads=[int(net.random.integers(0, k // 2 + 1)) for k in (*kernel, *kernel)],
        ceil_mode=pick(net, (0, 0, 1)), **attributes,
    )  # fmt: skip


def odd_resize(net: Network) -> Value:
    x = f.image(net, 3, channels=CHANNELS[:18])
    h, w = x.shape[2:]
    sizes = [max(1, pick(net, (s * 2, s * 2, s * 3, s + 1, s - 1, s // 2, 7, 13))) for s in (h, w)]
    mode = pick(net, ("nearest", "linear", "linear", "cubic"))
    attributes = {"coordinate_transformation_mode": pick(
        net, ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"))}  # fmt: skip
    if mode == "nearest":
        attributes["nearest_mode"] = pick(
            net, ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        )
    to = net.ints(x.shape[0], x.shape[1], *sizes)
    return net.op("Resize", x, None, None, to, mode=mode, **attributes)


def odd_reduction(net: Network) -> Value:
    x = ranked(net, 3)
    kind = pick(net, ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2",
                      "ReduceSumSquare", "ReduceLogSumExp"))  # fmt: skip
    count = pick(net, (1, 1, 2))
    axes = sorted(int(a) for a in net.random.permutation(range(1, len(x.shape)))[:count])
    keep = pick(net, (0, 1))
    if kind == "ReduceSum":
        return net.op(kind, x, net.ints(*axes), keepdims=keep)
    return net.op(kind, x, axes=axes, keepdims=keep)


def odd_softmax(net: Network) -> Value:
    x = ranked(net)
    return net.op("Softmax", x, axis=int(net.random.integers(1, len(x.shape))))


def odd_activation(net: Network) -> Value:
    x = ranked(net)
    if pick(net, (0, 0, 1)):
        x = net.op("Add", x, net.weights(*x.shape))
    kind = pick(net, ("ThresholdedRelu", "Celu", "HardSwish", "Sqrt", "Reciprocal", "Log", "Pow",
                      "", "", "", "", "PRelu", "Clip"))  # fmt: skip
    if kind in ("Sqrt", "Reciprocal", "Log"):
        return net.op(kind, net.op("Add", net.op("Abs", x), net.constant(0.5)))
    if kind == "Pow":
        return net.op(kind, x, net.constant(pick(net, (2.0, 3.0))))
    if kind == "PRelu":
        return net.op(kind, x, net.constant(net.random.uniform(0, 0.5, pick(net, ((1,), ())))))
    if kind == "Clip":
        return net.op(kind, x, net.constant(pick(net, (-1.3, 0.2))), net.constant(1.1))
    if kind:
        return net.op(kind, x)
    return pick(net, (f.silu, f.gelu, f.gelu_tanh, f.mish, f.activation, f.activation))(net, x)


def odd_slice(net: Network) -> Value | list[Value]:
    """Parts along several axes, or of several sizes."""
    x = ranked(net, 3)
    if pick(net, (0, 1)):
        axes = sorted(int(a) for a in net.random.permutation(range(1, len(x.shape)))[:2])
        starts = [int(net.random.integers(0, max(x.shape[a] // 2, 1))) for a in axes]
        ends = [int(net.random.integers(s + 1, x.shape[a] + 1)) for s, a in zip(starts, axes)]
        return net.op("Slice", x, net.ints(*starts), net.ints(*ends), net.ints(*axes),
                      net.ints(*(pick(net, (1, 1, 2)) for _ in axes)))  # fmt: skip
    axis = pick(net, [a for a in range(1, len(x.shape)) if x.shape[a] > 2] or [0])
    if axis == 0:
        return net.op("Relu", x)
    first = int(net.random.integers(1, x.shape[axis] - 1))
    second = int(net.random.integers(1, x.shape[axis] - first + 1))
    sizes = [s for s in (first, second, x.shape[axis] - first - second) if s > 0]
    parts = net.ops("Split", len(sizes), x, net.ints(*sizes), axis=axis)
    return [net.op("Relu", part) if pick(net, (0, 1)) else part for part in parts]


def odd_concat(net: Network) -> Value:
    x = ranked(net, 3)
    axis = int(net.random.integers(1, len(x.shape)))
    parts = [x]
    for _ in range(pick(net, (1, 2))):
        shape = list(x.shape)
        shape[axis] = pick(net, (1, 2, 3, 5, 8, 16))
        high = pick(net, (2.0, 2.0, 0.7, 5.0))
        parts.append(
            net.constant(net.random.normal(size=shape)) if pick(net, (0, 0, 0, 1))
            else net.input(*shape, low=-high, high=high)
        )  # fmt: skip
    y = net.op("Concat", *parts, axis=axis)
    return f.silu(net, y) if pick(net, (0, 0, 1)) else y


def odd_pad(net: Network) -> Value:
    x = ranked(net, 3)
    rank = len(x.shape)
    mode = pick(net, ("constant", "constant", "reflect", "edge"))
    ends = [0] * (2 * rank)
    for axis in net.random.permutation(range(1, rank))[: pick(net, (1, 2))]:
        most = min(3, x.shape[axis] - 1)
        ends[axis], ends[axis + rank] = (int(net.random.integers(0, most + 1)) for _ in range(2))
    inputs = [x, net.ints(*ends)]
    if mode == "constant":
        inputs.append(net.constant(pick(net, (0.0, 1.0, -0.7))))
    return net.op("Pad", *inputs, mode=mode)


def odd_broadcast(net: Network) -> Value:
    """Two tensors or a constant whose dimensions of 1 are repeated."""
    x = ranked(net, 3)
    shape = [size if pick(net, (0, 1)) else 1 for size in x.shape]
    shape = shape[int(net.random.integers(0, 2)) :]
    kind = pick(net, ("Add", "Sub", "Mul", "Div", "Max", "Min"))
    if pick(net, (0, 1)) or len(shape) != len(x.shape):
        values = net.random.normal(size=shape)
        other = net.constant(np.abs(values) + 0.5 if kind == "Div" else values)
    else:
        low = 0.5 if kind == "Div" else -1.5
        other = net.input(*shape, low=low, high=3.0)
    return net.op(kind, *((other, x) if kind != "Div" and pick(net, (0, 1)) else (x, other)))


def choose(net: Network) -> Value:
    """Where, with masks that are computed, and constants of all shapes."""
    x = ranked(net, 3)
    other = pick(net, (net.constant(0.1), net.input(*x.shape)))
    chosen = net.op(pick(net, ("Less", "Greater", "GreaterOrEqual", "LessOrEqual")), x, other)
    if pick(net, (0, 0, 1)):
        chosen = net.op("Not", chosen)
    shape = [size if pick(net, (0, 1)) else 1 for size in x.shape]
    first = pick(net, (x, net.constant(pick(net, (0.0, -1.5, 2.0))), net.weights(*shape)))
    return net.op("Where", chosen, first, net.op("Mul", x, net.constant(0.5)))


def odd_gather(net: Network) -> Value:
    x = ranked(net, 3)
    axis = int(net.random.integers(1, len(x.shape)))
    kind = pick(net, ("", "Tile", "Expand", "Flatten", "Unsqueeze", "CumSum"))
    if kind == "Tile":
        return net.op(kind, x, net.ints(1, *(pick(net, (1, 2, 3)) for _ in x.shape[1:])))
    if kind == "Expand":
        y = net.op("ReduceMean", x, axes=[axis], keepdims=1)
        return net.op(kind, y, net.ints(*x.shape))
    if kind == "Flatten":
        return net.op("Relu", net.op(kind, x, axis=axis))
    if kind == "Unsqueeze":
        return net.op("Relu", net.op(kind, x, net.ints(axis)))
    if kind == "CumSum":
        return net.op(kind, x, net.constant(axis, np.int64))
    shape = pick(net, ((), (2,), (3,), (2, 2)))
    return net.op("Gather", x, net.constant(net.random.integers(0, x.shape[axis], shape), np.int64),
                  axis=axis)  # fmt: skip


def odd_transpose(net: Network) -> Value:
    x = ranked(net, 3)
    order = [0, *(int(i) + 1 for i in net.random.permutation(len(x.shape) - 1))]
    y = net.op("Transpose", x, perm=order)
    return f.activation(net, y, ("Relu", "Sigmoid", "Tanh")) if pick(net, (0, 1)) else y


def blocks(net: Network) -> Value:
    x = f.image(net, 4, channels=(4, 8, 9, 16, 18, 27, 32, 36, 64))
    kind = pick(net, ("DepthToSpace", "SpaceToDepth", "unfold"))
    c, h, w = x.shape[1:]
    if kind == "unfold":
        b = pick(net, [b for b in (2, 3, 4) if h % b == 0 and w % b == 0] or [1])
        y = net.op("Reshape", x, net.ints(1, c, h // b, b, w // b, b))
        y = net.op("Transpose", y, perm=list(pick(net, ((0, 1, 3, 5, 2, 4), (0, 3, 5, 1, 2, 4),
                                                        (0, 2, 4, 3, 5, 1)))))  # fmt: skip
        return net.op("Reshape", y, net.ints(1, y.shape[1] * y.shape[2] * y.shape[3], *y.shape[4:]))
    if kind == "DepthToSpace":
        b = pick(net, [b for b in (2, 3) if c % (b * b) == 0])
        return net.op(kind, x, blocksize=b, mode=pick(net, ("DCR", "CRD")))
    b = pick(net, [b for b in (2, 3, 4) if h % b == 0 and w % b == 0])
    return net.op(kind, x, blocksize=b)


def torch_norm(net: Network, x: Value | None = None) -> Value:
    """A LayerNorm as torch exported it before opset 17."""
    x = f.tokens(net) if x is None else x
    width = x.shape[-1]
    less = net.op("Sub", x, net.op("ReduceMean", x, axes=[-1], keepdims=1))
    square = net.op("Pow", less, net.constant(2.0))
    mean = net.op("ReduceMean", square, axes=[-1], keepdims=1)
    root = net.op("Sqrt", net.op("Add", mean, net.constant(pick(net, (1e-5, 1e-6)))))
    y = net.op("Div", less, root)
    y = net.op("Mul", y, net.constant(net.random.uniform(0.5, 1.5, width)))
    return net.op("Add", y, net.weights(width, spread=0.3))


def no_epsilon(net: Network) -> Value:
    x = f.tokens(net)
    return net.op("LayerNormalization", x, net.constant(net.random.uniform(0.5, 1.5, x.shape[-1])),
                  net.weights(x.shape[-1], spread=0.3))  # fmt: skip


def heads_of(net: Network, x: Value, heads: int) -> list[Value]:
    """Queries, keys and values, as three layers, or as one that is split or gathered."""
    n, width = x.shape[1:]
    d = width // heads
    kind = pick(net, ("three", "split", "gather", "slice"))
    if kind == "three":
        parts = [dense(net, x, width, pick(net, (True, False))) for _ in range(3)]
        parts = [net.op("Reshape", part, net.ints(1, n, heads, d)) for part in parts]
        return [net.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts]
    y = dense(net, x, 3 * width)
    if kind == "gather":
        y = net.op("Reshape", y, net.ints(1, n, 3, heads, d))
        y = net.op("Transpose", y, perm=[2, 0, 3, 1, 4])
        return [net.op("Gather", y, net.constant(i, np.int64), axis=0) for i in range(3)]
    if kind == "split":
        parts = net.ops("Split", 3, y, axis=2)
    else:
        parts = [net.op("Slice", y, net.ints(i * width), net.ints((i + 1) * width), net.ints(2))
                 for i in range(3)]  # fmt: skip
    parts = [net.op("Reshape", part, net.ints(1, n, heads, d)) for part in parts]
    return [net.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts]


def scores(net: Network, q: Value, k: Value) -> Value:
    factor = pick(net, (q.shape[-1] ** -0.5, q.shape[-1] ** -0.5, 0.3, 0.77))
    k = net.op("Transpose", k, perm=[0, 1, 3, 2])
    place = pick(net, ("q", "after", "div", "both"))
    if place == "q":
        q = net.op("Mul", q, net.constant(factor))
    if place == "both":
        q, k = (net.op("Mul", each, net.constant(factor**0.5)) for each in (q, k))
    s = net.op("MatMul", q, k)
    if place == "after":
        return net.op("Mul", s, net.constant(factor))
    return net.op("Div", s, net.constant(1 / factor)) if place == "div" else s


def attend(net: Network, x: Value, heads: int) -> Value:
    q, k, v = heads_of(net, x, heads)
    n, width = x.shape[1:]
    s = scores(net, q, k)
    mask = pick(net, ("", "", "causal", "bias", "heads"))
    if mask == "causal":
        s = net.op("Add", s, net.constant(np.triu(np.full((n, n), -8.0), 1)[None, None]))
    elif mask:
        s = net.op("Add", s, net.weights(1, heads if mask == "heads" else 1, n, n, spread=1.0))
    y = net.op("MatMul", net.op("Softmax", s, axis=-1), v)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), net.ints(1, n, width))
    return dense(net, y, width)


def transformer(net: Network) -> Value:
    """A layer of an encoder, before or after its norms."""
    n = pick(net, (4, 7, 8, 10, 13, 16, 17, 20, 25, 32))
    heads, d = pick(net, (1, 2, 3, 4)), pick(net, (4, 8, 12, 16))
    x = net.input(1, n, heads * d)
    norm = pick(net, (torch_norm, f.layer_norm))
    first = pick(net, (True, False))
    act = pick(net, (f.gelu, f.gelu_tanh, f.silu, lambda n, v: n.op("Relu", v)))
    y = attend(net, norm(net, x) if first else x, heads)
    x = net.op("Add", x, y)
    x = x if first else norm(net, x)
    y = dense(net, act(net, dense(net, norm(net, x) if first else x, 2 * heads * d)), heads * d)
    x = net.op("Add", x, y)
    return x if first else norm(net, x)


def patches(net: Network) -> Value:
    """A vision transformer: patches, a class token, positions, attention, a classifier."""
    p, side, heads, d = pick(net, (4, 8)), pick(net, (3, 4, 5)), pick(net, (1, 2)), 16
    x = net.input(1, 3, p * side, p * side)
    width = heads * d
    y = net.op("Conv", x, net.weights(width, 3, p, p), net.weights(width, spread=0.2),
               strides=[p, p], kernel_shape=[p, p])  # fmt: skip
    y = net.op("Transpose", net.op("Reshape", y, net.ints(1, width, side * side)), perm=[0, 2, 1])
    if pick(net, (True, False)):
        y = net.op("Concat", net.weights(1, 1, width, spread=0.5), y, axis=1)
    y = net.op("Add", y, net.weights(1, *y.shape[1:], spread=0.3))
    y = net.op("Add", y, attend(net, f.layer_norm(net, y), heads))
    y = f.layer_norm(net, y)
    if pick(net, (True, False)):
        return dense(net, net.op("Gather", y, net.constant(0, np.int64), axis=1), 10)
    return dense(net, net.op("ReduceMean", y, axes=[1], keepdims=0), 10)


def recurrent(net: Network) -> Value | list[Value]:
    """Layers with batches, states and several outputs."""
    steps, n, width, hidden = (pick(net, c) for c in (
        (1, 2, 4, 7, 10), (1, 1, 2, 3), (3, 8, 10, 16, 20), (4, 6, 8, 16, 20)))  # fmt: skip
    kind = pick(net, ("GRU", "LSTM"))
    gates = 3 if kind == "GRU" else 4
    direction = pick(net, ("forward", "bidirectional", "reverse"))
    d = 2 if direction == "bidirectional" else 1
    x = net.input(steps, n, width)
    inputs: list[Value | None] = [
        x, net.weights(d, gates * hidden, width, spread=width**-0.5),
        net.weights(d, gates * hidden, hidden, spread=hidden**-0.5),
        net.weights(d, 2 * gates * hidden, spread=0.2) if pick(net, (1, 1, 0)) else None,
    ]  # fmt: skip
    if pick(net, (True, False)):
        states = []
        for _ in range(gates - 2):
            given = pick(net, (1, 1, 0))
            state = np.zeros((d, n, hidden))
            states.append(net.weights(d, n, hidden, spread=0.5) if given else net.constant(state))
        inputs += [None, *states]
    attributes = {"linear_before_reset": pick(net, (0, 1))} if kind == "GRU" else {}
    found = net.ops(kind, gates - 1, *inputs, hidden_size=hidden, direction=direction, **attributes)
    y = found[0]
    form = pick(net, ("raw", "torch", "torch", "last", "both"))
    if form == "last":
        return found[1]
    if form == "both":
        return found[:2]
    if form == "torch":
        y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]),
                   net.ints(steps, n, d * hidden))  # fmt: skip
        return dense(net, y, 5) if pick(net, (0, 1)) else y
    return y


def both_top(net: Network) -> list[Value]:
    x = ranked(net)
    axis = pick(net, (-1, 1, len(x.shape) - 1))
    k = int(net.random.integers(1, x.shape[axis] + 1))
    return net.ops("TopK", 2, x, net.ints(k), axis=axis, largest=pick(net, (0, 1)))


def wide_image(net: Network) -> Value:
    """Images whose lines are long."""
    c, h, w = (
        pick(net, (1, 3, 3, 4, 16)),
        pick(net, (3, 4, 6)),
        pick(net, (320, 500, 641, 1280, 2050)),
    )
    x = net.input(1, c, h, w)
    k, out = pick(net, (1, 3, 3)), pick(net, (2, 3, 4))
    strides = [1, pick(net, (1, 2, 4))]
    y = net.op(
        "Conv", x, net.weights(out, c, k, k), net.weights(out, spread=0.2),
        strides=strides, pads=[k // 2] * 4, kernel_shape=[k, k],
    )  # fmt: skip
    return pick(net, (f.silu, lambda n, v: n.op("Relu", v), lambda n, v: v))(net, y)


def many(net: Network) -> list[Value]:
    """Several inputs and outputs."""
    x = f.image(net, 4, channels=CHANNELS[2:18])
    c, h, w = x.shape[1:]
    other = net.input(1, pick(net, CHANNELS[:12]), h, w)
    both = net.op("Concat", x, other, axis=1)
    y = f.usual_activation(net, net.op("Conv", both, net.weights(c, both.shape[1], 1, 1)))
    found = [y, net.op("Add", y, x)]
    if pick(net, (0, 1)):
        found.append(net.op("GlobalAveragePool", y))
    if pick(net, (0, 1)):
        found.append(net.op("Sum", x, y, found[1]))
    return found


def block(net: Network, x: Value, out: int, stride: int = 1, k: int = 3) -> Value:
    y = net.op("Conv", x, net.weights(out, x.shape[1], k, k), net.weights(out, spread=0.2),
               strides=[stride] * 2, pads=[k // 2] * 4, kernel_shape=[k, k])  # fmt: skip
    return f.usual_activation(net, y)


def classifier(net: Network) -> Value:
    c = pick(net, (1, 3, 3, 4))
    side = pick(net, (12, 16, 20, 28, 31))
    x = net.input(1, c, side, side)
    y = block(
        net, block(net, x, pick(net, (8, 10, 16)), pick(net, (1, 2))), pick(net, (12, 16, 24)), 2
    )
    y = net.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]) if pick(net, (0, 1)) else y
    if pick(net, (0, 1)):
        y = net.op("GlobalAveragePool", y)
    y = net.op("Flatten", y, axis=1)
    y = net.op("Gemm", y, net.weights(10, y.shape[1]), net.weights(10, spread=0.2), transB=1)
    return net.op("Softmax", y, axis=-1) if pick(net, (0, 1)) else y


def unet(net: Network) -> Value:
    x = net.input(1, pick(net, (3, 8)), pick(net, (8, 12, 16)), pick(net, (8, 12, 16, 20)))
    a = block(net, x, pick(net, (8, 12, 16)))
    b = block(net, a, pick(net, (16, 20, 24)), 2)
    if pick(net, (0, 1)):
        up = net.op(
            "ConvTranspose", b, net.weights(b.shape[1], 8, 2, 2, spread=0.2), strides=[2, 2]
        )
    else:
        mode = pick(net, ("nearest", "linear"))
        how = "asymmetric" if mode == "nearest" else pick(net, ("half_pixel", "align_corners"))
        attributes = {"nearest_mode": "floor"} if mode == "nearest" else {}
        up = net.op("Resize", b, None, net.constant([1, 1, 2, 2]), mode=mode,
                    coordinate_transformation_mode=how, **attributes)  # fmt: skip
    y = block(net, net.op("Concat", up, a, axis=1), 8)
    return net.op("Conv", y, net.weights(pick(net, (1, 2, 5)), 8, 1, 1))


def detector(net: Network) -> Value | list[Value]:
    """The end of a detector: boxes by a distribution, scores, or a map of anchors."""
    h, w = pick(net, (3, 4, 5, 8)), pick(net, (3, 4, 5, 8))
    x = net.input(1, pick(net, (16, 24, 32)), h, w)
    y = block(net, x, pick(net, (16, 20)))
    if pick(net, (0, 1)):
        a = pick(net, (2, 3))
        y = net.op("Conv", y, net.weights(a * 7, y.shape[1], 1, 1), net.weights(a * 7, spread=0.2))
        y = net.op("Reshape", y, net.ints(1, a, 7, h * w))
        y = net.op("Sigmoid", net.op("Transpose", y, perm=[0, 1, 3, 2]))
        xy, wh, rest = net.ops("Split", 3, y, net.ints(2, 2, 3), axis=3)
        xy = net.op("Sub", net.op("Mul", xy, net.constant(2.0)), net.constant(0.5))
        y = net.op("Concat", xy, net.op("Pow", wh, net.constant(2.0)), rest, axis=3)
        return net.op("Reshape", y, net.ints(1, a * h * w, 7))
    box = net.op("Conv", y, net.weights(64, y.shape[1], 1, 1), net.weights(64, spread=0.2))
    box = net.op("Reshape", box, net.ints(1, 4, 16, h * w))
    box = net.op("Softmax", net.op("Transpose", box, perm=[0, 2, 1, 3]), axis=1)
    box = net.op("Conv", box, net.constant(np.arange(16).reshape(1, 16, 1, 1)))
    box = net.op("Reshape", box, net.ints(1, 4, h * w))
    score = net.op("Sigmoid", net.op("Conv", y, net.weights(3, y.shape[1], 1, 1)))
    score = net.op("Reshape", score, net.ints(1, 3, h * w))
    return net.op("Concat", box, score, axis=1) if pick(net, (0, 1)) else [box, score]


def residual(net: Network) -> Value:
    """Blocks as MobileNet, ResNet, C2f and SPPF have them."""
    x = f.image(net, 5, channels=(8, 12, 16, 20, 24, 32))
    c = x.shape[1]
    kind = pick(net, ("inverted", "resnet", "c2f", "sppf", "ghost"))
    if kind == "inverted":
        y = block(net, x, 2 * c, 1, 1)
        y = f.usual_activation(net, net.op(
            "Conv", y, net.weights(2 * c, 1, 3, 3), net.weights(2 * c, spread=0.2), group=2 * c,
            pads=[1] * 4, kernel_shape=[3, 3]))  # fmt: skip
        return net.op("Add", x, net.op("Conv", y, net.weights(c, 2 * c, 1, 1)))
    if kind == "resnet":
        y = net.op(
            "Conv", block(net, x, c), net.weights(c, c, 3, 3), pads=[1] * 4, kernel_shape=[3, 3]
        )
        return net.op("Relu", net.op("Add", y, x))
    if kind == "ghost":
        y = block(net, x, c, 1, 1)
        if min(y.shape[2:]) < 2:
            return net.op("Concat", y, f.depthwise(net, y), axis=1)
        each = {"group": c, "pads": [1] * 4, "kernel_shape": [3, 3]}
        cheap = net.op("Conv", y, net.weights(c, 1, 3, 3), **each)
        return net.op("Concat", y, cheap, axis=1)
    if kind == "c2f":
        a, b = net.ops("Split", 2, block(net, x, c, 1, 1), axis=1)
        d = net.op("Add", b, block(net, block(net, b, c // 2), c // 2))
        return block(net, net.op("Concat", a, b, d, axis=1), c, 1, 1)
    y = block(net, x, c // 2, 1, 1)
    parts = [y]
    for _ in range(3):
        parts.append(
            net.op("MaxPool", parts[-1], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1])
        )
    return block(net, net.op("Concat", *parts, axis=1), c, 1, 1)


def sound(net: Network) -> Value:
    """Convolutions over time: strided, dilated, grouped, transposed."""
    c, length = pick(net, CHANNELS[3:20]), pick(net, (9, 16, 25, 40, 63))
    x = net.input(1, c, length)
    for _ in range(pick(net, (1, 2))):
        k, d = pick(net, (2, 3, 5)), pick(net, (1, 1, 2))
        if pick(net, (0, 0, 0, 1)):
            x = net.op("ConvTranspose", x, net.weights(x.shape[1], 8, k, spread=0.2), strides=[2])
            continue
        group = pick(net, (1, 1, x.shape[1]))
        out = x.shape[1] if group > 1 else pick(net, (8, 10, 16))
        x = net.op(
            "Conv", x, net.weights(out, x.shape[1] // group, k), net.weights(out, spread=0.2),
            strides=[pick(net, (1, 1, 2))], dilations=[d], group=group, kernel_shape=[k],
            pads=[(k - 1) * d // 2] * 2,
        )  # fmt: skip
        x = f.usual_activation(net, x)
    return x


def crnn(net: Network) -> Value:
    """Features of lines of text, then a recurrent layer over their columns."""
    w = pick(net, (16, 20, 24))
    x = block(net, net.input(1, pick(net, (1, 3)), 8, w), 16, 2)
    y = net.op("AveragePool", x, kernel_shape=[x.shape[2], 1])
    y = net.op("Transpose", net.op("Squeeze", y, net.ints(2)), perm=[2, 0, 1])
    y = net.op(
        "LSTM", y, net.weights(2, 32, 16, spread=0.25), net.weights(2, 32, 8, spread=0.35),
        net.weights(2, 64, spread=0.2), hidden_size=8, direction="bidirectional",
    )  # fmt: skip
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), net.ints(y.shape[0], 1, 16))
    return net.op("Softmax", dense(net, y, 12), axis=-1)


STEPS: dict[str, f.Step] = {
    "torchnorm": torch_norm, "silu": f.silu, "gelu": f.gelu,
    "softmax": lambda n, v: n.op("Softmax", v, axis=-1),
    "dense": lambda n, v: dense(n, v, pick(n, (8, 12, 20, 32))),
    "transpose": lambda n, v: n.op("Transpose", v, perm=[0, 2, 1]),
    "scale": lambda n, v: n.op("Mul", v, n.weights(v.shape[-1])),
    "add": lambda n, v: n.op("Add", v, n.weights(1, *v.shape[1:])),
    "relu": lambda n, v: n.op("Relu", v),
    "conv1d": lambda n, v: n.op("Conv", v, n.weights(12, v.shape[1], 1)),
    "slice": lambda n, v: n.op("Slice", v, n.ints(1), n.ints(1 + v.shape[1] // 2), n.ints(1)),
    "join": lambda n, v: n.op("Concat", v, n.op("Sigmoid", v), axis=pick(n, (1, 2))),
}  # fmt: skip


def sequence(length: int, net: Network) -> Value:
    """A chain of steps on tensors of rank 3."""
    x = net.input(
        pick(net, (1, 1, 1, 2)), pick(net, (4, 7, 8, 12, 16, 20)), pick(net, (8, 12, 16, 20))
    )
    for _ in range(length):
        y = STEPS[pick(net, tuple(STEPS))](net, x)
        x = y if y.shape[0] == x.shape[0] and len(y.shape) == 3 and min(y.shape[1:]) > 1 else x
    return x if x.name[0] != "x" else net.op("Relu", x)


def deep(steps: Sequence[str], net: Network) -> Value:
    """A long chain of steps on images."""
    x = f.image(net, 5, channels=(3, 8, 9, 16, 17, 24, 32))
    for _ in range(pick(net, (6, 8))):
        y = f.STEPS[pick(net, steps)](net, x)
        is_fit = 16 < np.prod(y.shape) < 20000 and len(y.shape) == 4
        x = y if is_fit and min(y.shape[2:]) > 2 else x
    return x if x.name[0] != "x" else net.op("Relu", x)


FAMILIES: dict[str, Callable[[Network], Value | list[Value]]] = {
    **f.FAMILIES,
    "oddconv": odd_conv, "oddtransposed": odd_transposed, "oddpooling": odd_pooling,
    "oddresize": odd_resize, "oddreduction": odd_reduction, "oddsoftmax": odd_softmax,
    "oddactivation": odd_activation, "oddslice": odd_slice, "oddconcat": odd_concat,
    "oddpad": odd_pad, "oddbroadcast": odd_broadcast, "choose": choose, "oddgather": odd_gather,
    "oddtranspose": odd_transpose, "blocks": blocks, "torchnorm": torch_norm,
    "noepsilon": no_epsilon, "transformer": transformer, "patches": patches,
    "recurrent": recurrent, "bothtop": both_top, "wideimage": wide_image, "many": many,
    "classifier": classifier, "unet": unet, "detector": detector, "residual": residual,
    "sound": sound, "crnn": crnn, "sequence2": partial(sequence, 2),
    "sequence4": partial(sequence, 4), "deep": partial(deep, f.LINKS),
    **architectures.FAMILIES,
    **exporters.FAMILIES,
}  # fmt: skip


def draw(seed: int, family: str, index: int) -> Case:
    """Draw a network; the same numbers give the same network."""
    for attempt in range(50):
        random = np.random.default_rng([seed, zlib.crc32(family.encode()), index, attempt])
        net = Network(random)
        try:
            found = FAMILIES[family](net)
            outputs = found if isinstance(found, list) else [found]
            if all(0 < np.prod(each.shape) < 60000 for each in outputs):
                return Case(
                    family,
                    index,
                    net.finish(*outputs),
                    tuple(net.inputs),
                    int(random.integers(2**31)),
                )
        except Exception:  # shapes that do not fit: onnx has many names for it
            continue
    raise ValueError(f"{family}:{index}: no network in 50 attempts")

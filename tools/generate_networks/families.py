"""Families of networks: each draws one network from a random generator.

A step takes a tensor [n, c, h, w] and returns another one, so that chains can be made of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from .network import Network, Value

Step = Callable[[Network, Value], Value]
Choice = TypeVar("Choice")

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33, 40, 48, 64, 65, 96)
SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20, 24, 28, 32, 40)


def pick(net: Network, choices: Sequence[Choice]) -> Choice:
    """Choose one."""
    return choices[int(net.random.integers(len(choices)))]


def image(
    net: Network, least: int = 1, batch: int = 1, channels: Sequence[int] = CHANNELS
) -> Value:
    """Draw an input of rank 4."""
    sides = [side for side in SIDES if side >= least]
    return net.input(batch, pick(net, channels), pick(net, sides), pick(net, sides))


# ---- steps ------------------------------------------------------------------------


def conv(net: Network, x: Value, group: int = 1, dilation: int = 1, to: int = 0) -> Value:
    c, h, w = x.shape[1:]
    kernels = [k for k in (1, 2, 3, 5, 7) if (k - 1) * dilation < min(h, w) + 1]
    kh, kw = pick(net, kernels), pick(net, kernels)
    out = to or group * pick(net, (1, 2, 3, 4, 8, 16, 20, 33)) if group > 1 else pick(net, CHANNELS)
    out = to or out
    pads = [int(net.random.integers(0, (k - 1) * dilation // 2 + 1)) for k in (kh, kw)]
    stride = pick(net, (1, 1, 1, 2, 2, 3))
    inputs = [x, net.weights(out, c // group, kh, kw)]
    if net.random.random() < 0.8:
        inputs.append(net.weights(out, spread=0.3))
    return net.op(
        "Conv", *inputs, group=group, dilations=[dilation] * 2, strides=[stride] * 2,
        pads=pads + pads, kernel_shape=[kh, kw],
    )  # fmt: skip


def depthwise(net: Network, x: Value) -> Value:
    return conv(net, x, group=x.shape[1], to=x.shape[1])


def group_conv(net: Network, x: Value) -> Value:
    groups = [g for g in (2, 3, 4, 5, 8, 16) if x.shape[1] % g == 0] or [1]
    return conv(net, x, group=pick(net, groups))


def dilated(net: Network, x: Value) -> Value:
    return conv(net, x, dilation=pick(net, (2, 3)))


def transposed(net: Network, x: Value) -> Value:
    k, out = pick(net, (1, 2, 3, 4)), pick(net, CHANNELS[:-4])
    stride = pick(net, (1, 2, 2))
    pad = int(net.random.integers(0, (k + 1) // 2))
    return net.op(
        "ConvTranspose", x, net.weights(x.shape[1], out, k, k, spread=x.shape[1] ** -0.5 / k),
        net.weights(out, spread=0.3), strides=[stride] * 2, pads=[pad] * 4,
        output_padding=[int(k > 1 and stride > 1 and net.random.random() < 0.3)] * 2,
    )  # fmt: skip


ACTIVATIONS: dict[str, dict[str, float]] = {
    "Relu": {}, "Sigmoid": {}, "Tanh": {}, "LeakyRelu": {"alpha": 0.1}, "HardSwish": {},
    "HardSigmoid": {"alpha": 1 / 6, "beta": 0.5}, "Elu": {"alpha": 1.0}, "Softplus": {},
    "Abs": {}, "Neg": {}, "Exp": {}, "Sin": {}, "Cos": {}, "Floor": {}, "Ceil": {}, "Selu": {},
    "Softsign": {}, "Erf": {}, "Round": {}, "Sign": {},
}  # fmt: skip


def activation(net: Network, x: Value, kinds: Sequence[str] = tuple(ACTIVATIONS)) -> Value:
    kind = pick(net, kinds)
    attributes = dict(ACTIVATIONS[kind])
    if kind == "LeakyRelu":
        attributes["alpha"] = pick(net, (0.01, 0.1, 0.2, 0.5, -0.2, 1.5))
    return net.op(kind, x, **attributes)


def usual_activation(net: Network, x: Value) -> Value:
    return pick(net, (silu, lambda n, v: activation(n, v, tuple(ACTIVATIONS)[:6]), clip))(net, x)


def silu(net: Network, x: Value) -> Value:
    return net.op("Mul", x, net.op("Sigmoid", x))


def gelu(net: Network, x: Value) -> Value:
    one = net.op("Add", net.op("Erf", net.op("Div", x, net.constant(2**0.5))), net.constant(1.0))
    return net.op("Mul", net.op("Mul", x, one), net.constant(0.5))


def gelu_tanh(net: Network, x: Value) -> Value:
    cube = net.op("Mul", net.op("Pow", x, net.constant(3.0)), net.constant(0.044715))
    inner = net.op("Mul", net.op("Add", x, cube), net.constant((2 / np.pi) ** 0.5))
    one = net.op("Add", net.op("Tanh", inner), net.constant(1.0))
    return net.op("Mul", net.op("Mul", x, one), net.constant(0.5))


def mish(net: Network, x: Value) -> Value:
    return net.op("Mul", x, net.op("Tanh", net.op("Softplus", x)))


def prelu(net: Network, x: Value) -> Value:
    return net.op("PRelu", x, net.constant(net.random.uniform(0, 0.5, (x.shape[1], 1, 1))))


def clip(net: Network, x: Value) -> Value:
    low, high = pick(
        net, ((0.0, 6.0), (0.0, 1.0), (-1.0, 1.0), (-0.5, 0.7), (-1.0, 1.5), (0.3, 1.2))
    )
    return net.op("Clip", x, net.constant(low), net.constant(high))


def pooling(net: Network, x: Value) -> Value:
    kind = pick(net, ("MaxPool", "AveragePool"))
    h, w = x.shape[2:]
    k = pick(net, [k for k in (1, 2, 3, 5, 7) if k <= min(h, w)])
    pad = int(net.random.integers(0, (k + 1) // 2))
    attributes = {"count_include_pad": int(net.random.random() < 0.4)} if kind[0] == "A" else {}
    return net.op(
        kind, x, kernel_shape=[k, k], strides=[pick(net, (1, 2, 2, 3))] * 2, pads=[pad] * 4,
        ceil_mode=int(net.random.random() < 0.2), **attributes,
    )  # fmt: skip


def global_pool(net: Network, x: Value) -> Value:
    return net.op(pick(net, ("GlobalAveragePool", "GlobalMaxPool")), x)


def resize(net: Network, x: Value) -> Value:
    h, w = x.shape[2:]
    scales = [s for s in (0.5, 1.5, 2.0, 2.0, 2.0, 3.0, 4.0, 0.75) if int(min(h, w) * s) > 0]
    sy, sx = pick(net, scales), pick(net, scales)
    if pick(net, (True, False, True)):
        sy = sx
    given = net.constant([1.0, 1.0, sy, sx])
    if net.random.random() < 0.5:
        coordinates = pick(net, ("asymmetric", "asymmetric", "half_pixel"))
        return net.op(
            "Resize", x, None, given, mode="nearest", coordinate_transformation_mode=coordinates,
            nearest_mode=pick(net, ("floor", "round_prefer_floor")),
        )  # fmt: skip
    coordinates = pick(net, ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    return net.op(
        "Resize", x, None, given, mode="linear", coordinate_transformation_mode=coordinates
    )


def broadcast(net: Network, x: Value) -> Value:
    kind = pick(net, ("Add", "Sub", "Mul", "Div", "Max", "Min"))
    c, h, w = x.shape[1:]
    shape = pick(net, ((), (1, c, 1, 1), (1, 1, h, w), (1, c, h, w), (1, 1, 1, w), (c, 1, 1)))
    values = net.random.normal(size=shape)
    if kind == "Div":
        values = np.abs(values) + 0.5
    other = net.constant(values)
    return net.op(
        kind, *((other, x) if kind not in ("Div",) and pick(net, (0, 0, 1)) else (x, other))
    )


def two_maps(net: Network, x: Value) -> Value:
    kind = pick(net, ("Add", "Sub", "Mul", "Max", "Min"))
    c, h, w = x.shape[1:]
    shape = pick(net, ((1, c, h, w), (1, c, h, w), (1, c, h, w), (1, c, 1, 1), (1, 1, h, w)))
    return net.op(kind, x, net.input(*((x.shape[0], *shape[1:]))))


def skip(net: Network, x: Value) -> Value:
    c = x.shape[1]
    y = net.op("Conv", x, net.weights(c, c, 1, 1), net.weights(c, spread=0.2))
    return net.op(pick(net, ("Add", "Add", "Mul", "Sub")), x, usual_activation(net, y))


def squeeze_excite(net: Network, x: Value) -> Value:
    c = x.shape[1]
    y = net.op("GlobalAveragePool", x)
    y = net.op("Conv", y, net.weights(max(c // 4, 1), c, 1, 1))
    y = net.op("Conv", net.op("Relu", y), net.weights(c, max(c // 4, 1), 1, 1))
    return net.op("Mul", x, net.op(pick(net, ("Sigmoid", "HardSigmoid")), y))


def batchnorm(net: Network, x: Value) -> Value:
    c = x.shape[1]
    y = net.op(
        "BatchNormalization", x, net.constant(net.random.uniform(0.5, 1.5, c)),
        net.weights(c, spread=0.3), net.weights(c, spread=0.3),
        net.constant(net.random.uniform(0.5, 1.5, c)),
    )  # fmt: skip
    return usual_activation(net, y) if net.random.random() < 0.4 else y


def transpose(net: Network, x: Value) -> Value:
    orders = ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (0, 2, 1, 3), (0, 3, 2, 1))
    return net.op("Transpose", x, perm=list(pick(net, orders)))


def reshape(net: Network, x: Value) -> Value:
    n, c, h, w = x.shape
    forms = [
        (n, c, h * w, 1),
        (n, c * h, 1, w),
        (n, 1, c, h * w),
        (n, c * h * w, 1, 1),
        (n, h, w, c),
    ]
    return net.op("Reshape", x, net.ints(*pick(net, forms)))


def shuffle(net: Network, x: Value) -> Value:
    n, c, h, w = x.shape
    g = pick(net, [g for g in (2, 3, 4) if c % g == 0] or [1])
    y = net.op("Reshape", x, net.ints(n, g, c // g, h, w))
    return net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3, 4]), net.ints(n, c, h, w))


def slices(net: Network, x: Value) -> Value:
    axes = [axis for axis in (1, 2, 3) if x.shape[axis] > 2] or [1]
    axis = pick(net, axes)
    size = x.shape[axis]
    start = int(net.random.integers(0, max(size // 2, 1)))
    end = int(net.random.integers(start + 1, size + 1))
    step = pick(net, (1, 1, 2))
    return net.op("Slice", x, net.ints(start), net.ints(end), net.ints(axis), net.ints(step))


def concat(net: Network, x: Value) -> Value:
    c = x.shape[1]
    parts = [x]
    for _ in range(pick(net, (1, 2))):
        out = pick(net, (c, 3, 8, 16, 17))
        parts.append(net.op("Conv", x, net.weights(out, c, 1, 1), net.weights(out, spread=0.2)))
    return net.op("Concat", *parts, axis=1)


def concat_side(net: Network, x: Value) -> Value:
    return net.op("Concat", x, net.op("Relu", x), axis=pick(net, (2, 3)))


def split(net: Network, x: Value) -> Value:
    axis = pick(net, [a for a in (1, 2, 3) if x.shape[a] % 2 == 0] or [0])
    if axis == 0:
        return net.op("Relu", x)
    a, b = net.ops("Split", 2, x, axis=axis)
    return net.op("Mul", a, net.op("Sigmoid", b)) if pick(net, (0, 1)) else net.op("Add", a, b)


def pad(net: Network, x: Value) -> Value:
    mode = pick(net, ("constant", "constant", "reflect", "edge"))
    most = [min(3, x.shape[axis] - 1) if mode == "reflect" else 3 for axis in (2, 3)]
    top, left, bottom, right = (int(net.random.integers(0, m + 1)) for m in (*most, *most))
    inputs = [x, net.ints(0, 0, top, left, 0, 0, bottom, right)]
    if mode == "constant":
        inputs.append(net.constant(pick(net, (0.0, 0.0, 1.0))))
    return net.op("Pad", *inputs, mode=mode)


def reduction(net: Network, x: Value) -> Value:
    kind = pick(net, ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2"))
    axes = pick(net, ((1,), (2,), (3,), (2, 3), (1, 2, 3)))
    if kind == "ReduceSum":
        return net.op(kind, x, net.ints(*axes), keepdims=1)
    return net.op(kind, x, axes=list(axes), keepdims=1)


def softmax(net: Network, x: Value) -> Value:
    return net.op(
        pick(net, ("Softmax", "Softmax", "Softmax", "LogSoftmax")), x, axis=pick(net, (1, -1, 2))
    )


def space_to_depth(net: Network, x: Value) -> Value:
    c, h, w = x.shape[1:]
    if h % 2 == 0 and w % 2 == 0 and pick(net, (0, 1)):
        return net.op("SpaceToDepth", x, blocksize=2)
    if c % 4 == 0:
        return net.op("DepthToSpace", x, blocksize=2, mode=pick(net, ("DCR", "CRD")))
    return net.op("Relu", x)


def instance_norm(net: Network, x: Value) -> Value:
    c = x.shape[1]
    return net.op(
        "InstanceNormalization", x, net.constant(net.random.uniform(0.5, 1.5, c)),
        net.weights(c, spread=0.3), epsilon=pick(net, (1e-5, 1e-3)),
    )  # fmt: skip


STEPS: dict[str, Step] = {
    "conv": conv, "depthwise": depthwise, "group": group_conv, "dilated": dilated,
    "transposed": transposed, "activation": activation, "silu": silu, "gelu": gelu,
    "gelutanh": gelu_tanh, "mish": mish, "prelu": prelu, "clip": clip, "pooling": pooling,
    "globalpool": global_pool, "resize": resize, "broadcast": broadcast, "twomaps": two_maps,
    "skip": skip, "excite": squeeze_excite, "batchnorm": batchnorm, "transpose": transpose,
    "reshape": reshape, "shuffle": shuffle, "slice": slices, "concat": concat,
    "concatside": concat_side, "split": split, "pad": pad, "reduction": reduction,
    "softmax": softmax, "depth": space_to_depth, "instancenorm": instance_norm,
}  # fmt: skip
#: Steps of chains: their result is an image again.
LINKS = (
    "conv", "conv", "depthwise", "group", "dilated", "transposed", "activation", "silu", "gelu",
    "prelu", "clip", "pooling", "resize", "broadcast", "twomaps", "skip", "excite", "batchnorm",
    "transpose", "shuffle", "slice", "concat", "concatside", "split", "pad",
)  # fmt: skip


# ---- whole networks ----------------------------------------------------------------


def _chain(length: int, batch: Sequence[int] = (1,)) -> Callable[[Network], Value]:
    def make(net: Network) -> Value:
        x = image(net, 4, pick(net, batch), CHANNELS[2:])
        for _ in range(length):
            y = STEPS[pick(net, LINKS)](net, x)
            x = y if 0 < np.prod(y.shape) < 40000 and len(y.shape) == 4 else x
        return x if x.name[0] != "x" else net.op("Relu", x)

    return make


def tokens(net: Network, rank: int = 3) -> Value:
    """Draw an input [1, tokens, features]."""
    count = pick(net, (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 40, 48, 49, 64))
    width = pick(net, (8, 12, 16, 20, 24, 32, 33, 48, 64, 96))
    return net.input(*(1, count, width)[3 - rank :])


def linear(net: Network) -> Value:
    x = tokens(net)
    out = pick(net, (1, 4, 8, 10, 16, 20, 32, 64))
    y = net.op("MatMul", x, net.weights(x.shape[-1], out, spread=x.shape[-1] ** -0.5))
    if net.random.random() < 0.7:
        y = net.op("Add", y, net.weights(out, spread=0.3))
    return gelu(net, y) if net.random.random() < 0.2 else y


def gemm(net: Network) -> Value:
    x = net.input(pick(net, (1, 1, 2, 4, 8)), pick(net, (8, 16, 20, 33, 64, 100, 256)))
    out = pick(net, (1, 5, 10, 16, 32, 64))
    transb = pick(net, (0, 1))
    shape = (out, x.shape[1]) if transb else (x.shape[1], out)
    weights = net.weights(*shape, spread=x.shape[1] ** -0.5)
    return net.op("Gemm", x, weights, net.weights(out, spread=0.3), transB=transb)


def mlp(net: Network) -> Value:
    x = tokens(net)
    for _ in range(2):
        out = pick(net, (8, 16, 32, 48))
        y = net.op("MatMul", x, net.weights(x.shape[-1], out, spread=x.shape[-1] ** -0.5))
        x = pick(net, (gelu, silu, lambda n, v: n.op("Relu", v)))(
            net, net.op("Add", y, net.weights(out, spread=0.3))
        )
    return x


def matmul(net: Network) -> Value:
    heads, m, k, n = (
        pick(net, c) for c in ((1, 2, 3), (4, 7, 8, 16, 20), (8, 16, 20, 32), (4, 8, 13, 16))
    )
    a, b = net.input(1, heads, m, k), net.input(1, heads, k, n)
    y = net.op("MatMul", a, b)
    third = pick(net, ("", "Mul", "Add", "Div"))
    return net.op(third, y, net.constant(pick(net, (0.25, 0.5, 3.0)))) if third else y


def attention(net: Network) -> Value:
    heads, n, d = (pick(net, c) for c in ((1, 2, 4), (4, 8, 13, 16, 20, 32), (8, 16, 24, 32)))
    m = n if pick(net, (True, True, False)) else pick(net, (8, 12))
    q, k, v = net.input(1, heads, n, d), net.input(1, heads, m, d), net.input(1, heads, m, d)
    s = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    factor = pick(net, (1.0, d**-0.5, d**-0.5, 0.5))
    if factor != 1.0:
        kind = pick(net, ("Mul", "Mul", "Div"))
        s = net.op(kind, s, net.constant(factor if kind == "Mul" else 1 / factor))
    if pick(net, (True, False)):
        mask = np.triu(np.full((n, m), pick(net, (-4.0, -10.0)), np.float32), 1)[None, None]
        s = net.op("Add", s, net.constant(mask))
    return net.op("MatMul", net.op("Softmax", s, axis=-1), v)


def self_attention(net: Network) -> Value:
    n, heads, d = (pick(net, c) for c in ((4, 8, 9, 16, 20), (1, 2, 4), (8, 16)))
    x = net.input(1, n, heads * d)
    parts = []
    for _ in range(3):
        y = net.op("MatMul", x, net.weights(heads * d, heads * d, spread=(heads * d) ** -0.5))
        y = net.op("Add", y, net.weights(heads * d, spread=0.2))
        y = net.op("Reshape", y, net.ints(1, n, heads, d))
        parts.append(net.op("Transpose", y, perm=[0, 2, 1, 3]))
    q, k, v = parts
    s = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    s = net.op("Mul", s, net.constant(d**-0.5))
    y = net.op("MatMul", net.op("Softmax", s, axis=-1), v)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), net.ints(1, n, heads * d))
    y = net.op("MatMul", y, net.weights(heads * d, heads * d, spread=(heads * d) ** -0.5))
    return net.op("Add", x, y)


def layer_norm(net: Network, x: Value | None = None) -> Value:
    x = tokens(net) if x is None else x
    width = x.shape[-1]
    inputs = [x, net.constant(net.random.uniform(0.5, 1.5, width))]
    if pick(net, (True, True, False)):
        inputs.append(net.weights(width, spread=0.3))
    return net.op("LayerNormalization", *inputs, axis=-1, epsilon=pick(net, (1e-5, 1e-6, 1e-3)))


def rms_norm(net: Network) -> Value:
    x = tokens(net)
    mean = net.op("ReduceMean", net.op("Mul", x, x), axes=[-1], keepdims=1)
    root = net.op("Sqrt", net.op("Add", mean, net.constant(1e-5)))
    return net.op(
        "Mul", net.op("Div", x, root), net.constant(net.random.uniform(0.5, 1.5, x.shape[-1]))
    )


def group_norm(net: Network) -> Value:
    x = image(net, 2, channels=(4, 8, 16, 24, 32, 64))
    n, c, h, w = x.shape
    g = pick(net, [g for g in (1, 2, 4, 8) if c % g == 0])
    y = net.op("Reshape", x, net.ints(n, g, -1))
    y = net.op("InstanceNormalization", y, net.constant(np.ones(g)), net.constant(np.zeros(g)))
    y = net.op("Reshape", y, net.ints(n, c, h, w))
    y = net.op("Mul", y, net.constant(net.random.uniform(0.5, 1.5, (c, 1, 1))))
    return net.op("Add", y, net.constant(net.random.normal(size=(c, 1, 1)) * 0.3))


def l2_norm(net: Network) -> Value:
    x = tokens(net)
    norm = net.op("ReduceL2", x, axes=[-1], keepdims=1)
    return net.op("Div", x, net.op("Max", norm, net.constant(1e-6)))


def vit_block(net: Network) -> Value:
    n, d = pick(net, (8, 9, 16, 17)), pick(net, (16, 32))
    x = net.input(1, n, d)
    y = layer_norm(net, x)
    parts = [
        net.op("MatMul", y, net.weights(d, d, spread=d**-0.5)) for _ in range(3)
    ]  # fmt: skip
    s = net.op("MatMul", parts[0], net.op("Transpose", parts[1], perm=[0, 2, 1]))
    s = net.op("Softmax", net.op("Mul", s, net.constant(d**-0.5)), axis=-1)
    x = net.op("Add", x, net.op("MatMul", s, parts[2]))
    y = gelu(net, net.op("MatMul", layer_norm(net, x), net.weights(d, 2 * d, spread=d**-0.5)))
    return net.op("Add", x, net.op("MatMul", y, net.weights(2 * d, d, spread=(2 * d) ** -0.5)))


def rnn(net: Network) -> Value:
    steps, width, hidden = (pick(net, c) for c in ((1, 3, 5, 8), (4, 8, 12, 16), (4, 8, 12, 16)))
    kind = pick(net, ("GRU", "LSTM"))
    gates = 3 if kind == "GRU" else 4
    direction = pick(net, ("forward", "forward", "bidirectional", "reverse"))
    d = 2 if direction == "bidirectional" else 1
    x = net.input(steps, 1, width)
    attributes = {"linear_before_reset": pick(net, (0, 1))} if kind == "GRU" else {}
    y = net.op(
        kind, x, net.weights(d, gates * hidden, width, spread=width**-0.5),
        net.weights(d, gates * hidden, hidden, spread=hidden**-0.5),
        net.weights(d, 2 * gates * hidden, spread=0.2), hidden_size=hidden, direction=direction,
        **attributes,
    )  # fmt: skip
    if d == 1 and pick(net, (True, True, False)):
        return net.op("Squeeze", y, net.ints(1))
    return y


def top_k(net: Network) -> list[Value]:
    x = image(net, 4)
    return net.ops("TopK", 2, x, net.ints(pick(net, (1, 2, 3))), axis=pick(net, (-1, 2)))[:1]


def arg_max(net: Network) -> Value:
    x = image(net, 2)
    return net.op(
        pick(net, ("ArgMax", "ArgMin")), x, axis=pick(net, (1, 2, 3)), keepdims=pick(net, (0, 1))
    )


def gather(net: Network) -> Value:
    x = image(net, 3)
    axis = pick(net, (1, 2, 3))
    picks = net.random.integers(0, x.shape[axis], pick(net, (1, 2, 5)))
    return net.op("Gather", x, net.constant(picks, np.int64), axis=axis)


def rank3(net: Network) -> Value:
    """Element-wise functions on a tensor of rank 3."""
    x = net.input(1, pick(net, CHANNELS), pick(net, SIDES))
    step = pick(net, (silu, gelu, lambda n, v: activation(n, v), lambda n, v: n.op("Mul", v, v),
                      lambda n, v: n.op("Add", v, n.weights(*v.shape))))  # fmt: skip
    return step(net, x)


def conv1d(net: Network) -> Value:
    x = net.input(1, pick(net, CHANNELS), pick(net, SIDES[6:]))
    k, out = pick(net, (1, 3, 5)), pick(net, CHANNELS)
    y = net.op(
        "Conv", x, net.weights(out, x.shape[1], k), net.weights(out, spread=0.3), pads=[k // 2] * 2
    )
    return net.op("Relu", y) if pick(net, (True, False)) else y


def compare(net: Network) -> Value:
    x = image(net, 2)
    kind = pick(net, ("Less", "Greater", "Equal"))
    chosen = net.op(kind, x, net.constant(0.25))
    return net.op("Where", chosen, x, net.op("Mul", x, net.constant(-0.5)))


def high_rank(net: Network) -> Value:
    """Transposes and reshapes of rank 5, as attention over windows has them."""
    a, b, c, d = (pick(net, (2, 3, 4, 8, 16)) for _ in range(4))
    x = net.input(1, a * b, c, d)
    y = net.op("Reshape", x, net.ints(1, a, b, c, d))
    order = [0, *(int(i) + 1 for i in net.random.permutation(4))]
    y = net.op("Transpose", y, perm=order)
    return net.op("Reshape", y, net.ints(1, y.shape[1] * y.shape[2], y.shape[3], y.shape[4]))


def batches(net: Network) -> Value:
    x = image(net, 4, pick(net, (2, 3, 4)), CHANNELS[2:])
    steps = ("conv", "depthwise", "activation", "silu", "pooling", "resize", "broadcast",
             "twomaps", "skip", "concat", "split", "transpose", "globalpool")  # fmt: skip
    for _ in range(pick(net, (1, 1, 2))):
        y = STEPS[pick(net, steps)](net, x)
        x = y if y.shape[0] == x.shape[0] and len(y.shape) == 4 and min(y.shape[2:]) > 1 else x
    return x if x.name[0] != "x" else net.op("Relu", x)


def conv_act(net: Network) -> Value:
    """A convolution with the activation that the compiler fuses."""
    y = STEPS[pick(net, ("conv", "conv", "depthwise"))](net, image(net, 2))
    return pick(net, (silu, gelu, mish, prelu, clip, activation))(net, y)


def _single(step: Step) -> Callable[[Network], Value]:
    return lambda net: step(net, image(net))


FAMILIES: dict[str, Callable[[Network], Value | list[Value]]] = {
    **{name: _single(step) for name, step in STEPS.items()},
    "linear": linear, "gemm": gemm, "mlp": mlp, "matmul": matmul, "attention": attention,
    "selfattention": self_attention, "layernorm": layer_norm, "rmsnorm": rms_norm,
    "groupnorm": group_norm, "l2norm": l2_norm, "vit": vit_block, "rnn": rnn, "topk": top_k,
    "argmax": arg_max, "gather": gather, "rank3": rank3, "conv1d": conv1d, "compare": compare,
    "highrank": high_rank, "batch": batches, "convact": conv_act,
    "chain2": _chain(2), "chain3": _chain(3), "chain4": _chain(4), "chain5": _chain(5),
    "chainbatch": _chain(2, (2, 3)),
}  # fmt: skip

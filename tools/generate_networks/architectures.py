"""Families of blocks that well-known networks are made of, as their frameworks export them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import families as f
from .families import pick
from .network import Network, Value

WIDTHS = (4, 8, 12, 16, 18, 20, 24, 32, 40)


def image(net: Network, least: int = 4, channels: Sequence[int] = WIDTHS) -> Value:
    """Draw an input of one image, or now and then of several."""
    return f.image(net, least, pick(net, (1, 1, 1, 2, 3)), channels)


def conv(net: Network, x: Value, out: int, k: int = 1, s: int = 1, d: int = 1, g: int = 1) -> Value:
    """A convolution that keeps the size, or divides it by its stride."""
    return net.op(
        "Conv", x, net.weights(out, x.shape[1] // g, k, k), net.weights(out, spread=0.3),
        kernel_shape=[k, k], strides=[s, s], dilations=[d, d], pads=[(k - 1) * d // 2] * 4, group=g,
    )  # fmt: skip


def act(net: Network, x: Value) -> Value:
    return pick(net, (f.silu, f.gelu, hard_swish, relu6, leaky, relu, relu))(net, x)


def relu(net: Network, x: Value) -> Value:
    return net.op("Relu", x)


def leaky(net: Network, x: Value) -> Value:
    return net.op("LeakyRelu", x, alpha=0.1)


def relu6(net: Network, x: Value) -> Value:
    return net.op("Clip", x, net.constant(0.0), net.constant(6.0))


def hard_swish(net: Network, x: Value) -> Value:
    """As one node, by HardSigmoid, and by Relu6."""
    kind = pick(net, ("one", "two", "four"))
    if kind == "one":
        return net.op("HardSwish", x)
    if kind == "two":
        return net.op("Mul", x, net.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    y = net.op("Mul", x, relu6(net, net.op("Add", x, net.constant(3.0))))
    return net.op("Div", y, net.constant(6.0))


def block(net: Network, x: Value, out: int, k: int = 3, s: int = 1, d: int = 1) -> Value:
    return act(net, conv(net, x, out, k, s, d))


def dense(net: Network, x: Value, out: int) -> Value:
    y = net.op("MatMul", x, net.weights(x.shape[-1], out, spread=x.shape[-1] ** -0.5))
    return net.op("Add", y, net.weights(out, spread=0.3))


def mean(net: Network, x: Value, *axes: int, keep: int = 1, kind: str = "ReduceMean") -> Value:
    return net.op(kind, x, axes=list(axes), keepdims=keep)


def resized(net: Network, x: Value, h: int, w: int, mode: str = "") -> Value:
    mode = mode or pick(net, ("nearest", "linear"))
    ways = {"nearest_mode": "floor"} if mode == "nearest" else {}
    way = "asymmetric" if mode == "nearest" else pick(net, ("half_pixel", "align_corners"))
    return net.op("Resize", x, None, None, net.ints(*x.shape[:2], h, w), mode=mode,
                  coordinate_transformation_mode=way, **ways)  # fmt: skip


def convnext(net: Network) -> Value:
    x = image(net, 7)
    c = x.shape[1]
    y = net.op("Transpose", conv(net, x, c, pick(net, (5, 7)), g=c), perm=[0, 2, 3, 1])
    y = dense(net, f.gelu(net, dense(net, f.layer_norm(net, y), 2 * c)), c)
    if pick(net, (True, False)):
        y = net.op("Mul", net.constant(net.random.uniform(0.1, 1.0, c)), y)
    return net.op("Add", x, net.op("Transpose", y, perm=[0, 3, 1, 2]))


def cbam(net: Network) -> Value:
    """Attention to channels by two pools and one perceptron, then to places."""
    x = image(net, 5)
    c = x.shape[1]
    down, up = net.weights(max(c // 4, 2), c, 1, 1), net.weights(c, max(c // 4, 2), 1, 1)
    both = []
    for pool in ("GlobalAveragePool", "GlobalMaxPool"):
        y = net.op("Relu", net.op("Conv", net.op(pool, x), down))
        both.append(net.op("Conv", y, up))
    x = net.op("Mul", x, net.op("Sigmoid", net.op("Add", *both)))
    maps = [mean(net, x, 1), mean(net, x, 1, kind="ReduceMax")]
    y = conv(net, net.op("Concat", *maps, axis=1), 1, pick(net, (3, 5, 7)))
    return net.op("Mul", x, net.op("Sigmoid", y))


def coordinates(net: Network) -> Value:
    """Attention by means of the rows and of the columns."""
    x = image(net, 4)
    c, h, w = x.shape[1:]
    rows, columns = mean(net, x, 3), net.op("Transpose", mean(net, x, 2), perm=[0, 1, 3, 2])
    y = hard_swish(net, conv(net, net.op("Concat", rows, columns, axis=2), max(c // 2, 4)))
    rows, columns = net.ops("Split", 2, y, net.ints(h, w), axis=2)
    columns = net.op("Transpose", columns, perm=[0, 1, 3, 2])
    y = net.op("Mul", x, net.op("Sigmoid", conv(net, rows, c)))
    return net.op("Mul", y, net.op("Sigmoid", conv(net, columns, c)))


def channel_line(net: Network) -> Value:
    """Attention by a convolution along the channels."""
    x = image(net, 3)
    y = net.op("GlobalAveragePool", x)
    y = net.op("Transpose", net.op("Squeeze", y, net.ints(3)), perm=[0, 2, 1])
    y = net.op("Conv", y, net.weights(1, 1, 3), pads=[1, 1])
    y = net.op("Unsqueeze", net.op("Transpose", y, perm=[0, 2, 1]), net.ints(3))
    return net.op("Mul", x, net.op("Sigmoid", y))


def shuffle_unit(net: Network) -> Value:
    x = image(net, 5, (8, 16, 24, 32, 36, 48))
    n, c, h, w = x.shape
    a, b = net.ops("Split", 2, x, axis=1)
    b = block(net, b, c // 2, 1)
    b = block(net, conv(net, b, c // 2, 3, g=c // 2), c // 2, 1)
    y = net.op("Reshape", net.op("Concat", a, b, axis=1), net.ints(n, 2, c // 2, h, w))
    return net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3, 4]), net.ints(n, c, h, w))


def upscaler(net: Network) -> Value:
    """Pixels out of channels, as one node or as torch's reshapes; with a skip of the input."""
    x = image(net, 4, (1, 3, 3, 8))
    n, c, h, w = x.shape
    r = pick(net, (2, 3, 4))
    y = conv(net, block(net, x, pick(net, (8, 16, 20))), c * r * r, 3)
    if pick(net, (True, True, False)):
        y = net.op("DepthToSpace", y, blocksize=r, mode=pick(net, ("CRD", "DCR")))
    else:
        y = net.op("Reshape", y, net.ints(n, c, r, r, h, w))
        y = net.op("Transpose", y, perm=[0, 1, 4, 2, 5, 3])
        y = net.op("Reshape", y, net.ints(n, c, h * r, w * r))
    return net.op("Add", y, resized(net, x, h * r, w * r)) if pick(net, (0, 1)) else y


def pyramid(net: Network) -> Value:
    """Branches of several dilations and a pooled one."""
    x = image(net, 9)
    h, w = x.shape[2:]
    parts = [block(net, x, 8, 1)]
    parts += [block(net, x, 8, 3, d=d) for d in pick(net, ((2, 3), (2, 4), (1, 6), (3,)))]
    parts.append(resized(net, block(net, net.op("GlobalAveragePool", x), 8, 1), h, w, "linear"))
    return block(net, net.op("Concat", *parts, axis=1), pick(net, WIDTHS), 1)


def decoder(net: Network) -> Value:
    """Transposed convolutions with their norms, as generators have them."""
    x = f.image(net, 2, pick(net, (1, 1, 2)), (8, 16, 24, 32))
    for _ in range(pick(net, (1, 2))):
        out, k = pick(net, (3, 8, 12, 16)), pick(net, (2, 3, 4))
        y = net.op(
            "ConvTranspose", x, net.weights(x.shape[1], out, k, k, spread=x.shape[1] ** -0.5 / k),
            strides=[2, 2], kernel_shape=[k, k], pads=[(k - 1) // 2] * 4,
            output_padding=[k % 2] * 2,
        )  # fmt: skip
        norm = [net.constant(net.random.uniform(0.5, 1.5, out)), net.weights(out, spread=0.3)]
        norm += [net.weights(out, spread=0.3), net.constant(net.random.uniform(0.5, 1.5, out))]
        x = relu(net, net.op("BatchNormalization", y, *norm))
    return net.op(pick(net, ("Tanh", "Sigmoid")), conv(net, x, pick(net, (1, 3)), 3))


def masked(net: Network) -> Value:
    """Attention whose mask is an input, and that looks at another sequence."""
    h, n, d = pick(net, (1, 2, 4)), pick(net, (4, 7, 8, 12, 16)), pick(net, (8, 12, 16))
    m = pick(net, (n, 5, 9, 16))
    b = pick(net, (1, 1, 2))
    shape = pick(net, ((b, h), (b * h,)))
    q, k, v = net.input(*shape, n, d), net.input(*shape, m, d), net.input(*shape, m, d)
    last = [*range(len(shape)), len(shape) + 1, len(shape)]
    s = net.op("MatMul", q, net.op("Transpose", k, perm=last))
    s = net.op("Mul", s, net.constant(d**-0.5))
    if pick(net, (True, True, False)):
        rows = pick(net, (1, n))
        s = net.op("Add", s, net.input(*[1] * len(shape), rows, m, low=-6.0, high=0.0))
    return net.op("MatMul", net.op("Softmax", s, axis=-1), v)


def mixer(net: Network) -> Value:
    n, d = pick(net, (4, 9, 16, 20)), pick(net, (8, 16, 24, 33))
    x = net.input(pick(net, (1, 1, 2)), n, d)
    y = net.op("Transpose", f.layer_norm(net, x), perm=[0, 2, 1])
    y = net.op("Transpose", dense(net, f.gelu(net, dense(net, y, 2 * n)), n), perm=[0, 2, 1])
    x = net.op("Add", x, y)
    return net.op("Add", x, dense(net, f.gelu(net, dense(net, f.layer_norm(net, x), 2 * d)), d))


def windows(net: Network) -> Value:
    """Attention inside of windows of an image."""
    c, s = pick(net, (8, 16, 24)), pick(net, (2, 4))
    h, w = s * pick(net, (2, 3)), s * pick(net, (2, 3))
    x = net.input(1, h, w, c)
    y = net.op("Reshape", x, net.ints(1, h // s, s, w // s, s, c))
    y = net.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    y = net.op("Reshape", y, net.ints(h * w // s // s, s * s, c))
    q, k, v = net.ops("Split", 3, dense(net, f.layer_norm(net, y), 3 * c), axis=2)
    t = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 1]))
    t = net.op("Add", net.op("Mul", t, net.constant(c**-0.5)), net.weights(1, s * s, s * s))
    y = net.op("MatMul", net.op("Softmax", t, axis=-1), v)
    y = net.op("Reshape", y, net.ints(1, h // s, w // s, s, s, c))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), net.ints(1, h, w, c))
    return net.op("Add", x, y)


def grids(net: Network) -> Value:
    """Each window has every second row and column (MobileViT, MaxViT), or those side by side."""
    c, s = pick(net, (8, 16, 24, 40)), pick(net, (2, 4))
    h, w = s * pick(net, (2, 3, 4)), s * pick(net, (2, 3, 4))
    x = net.input(1, c, h, w)
    x = conv(net, x, c, 1) if pick(net, (0, 1)) else x
    apart = pick(net, (0, 1))
    y = net.op("Reshape", x, net.ints(1, c, h // s, s, w // s, s))
    order = (3, 5, 2, 4) if apart else (2, 4, 3, 5)
    y = net.op("Transpose", y, perm=[0, 1, *order])
    y = net.op("Reshape", y, net.ints(1, c, s * s if apart else h * w // s // s, -1))
    y = net.op("Add", y, net.op("Mul", y, net.op("Softmax", y, axis=-1)))
    if pick(net, (0, 1)):
        return y
    parts = (s, s, h // s, w // s) if apart else (h // s, w // s, s, s)
    y = net.op("Reshape", y, net.ints(1, c, *parts))
    y = net.op("Transpose", y, perm=[0, 1, 4, 2, 5, 3] if apart else [0, 1, 2, 4, 3, 5])
    return net.op("Reshape", y, net.ints(1, c, h, w))


def branches(net: Network) -> Value:
    """Inception, RepVGG, DenseNet, SqueezeNet."""
    x = image(net, 5)
    c = x.shape[1]
    kind = pick(net, ("inception", "rep", "dense", "fire"))
    if kind == "inception":
        pool = net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
        middle = block(net, block(net, x, 6, 1), 12, 5)
        return net.op("Concat", block(net, x, 8, 1), middle, block(net, pool, 5, 1), axis=1)
    if kind == "rep":
        y = net.op("Add", conv(net, x, c, 3), conv(net, x, c, 1))
        return relu(net, net.op("Add", y, f.batchnorm(net, x)))
    if kind == "fire":
        y = relu(net, conv(net, x, max(c // 4, 2)))
        return net.op("Concat", relu(net, conv(net, y, 12)), relu(net, conv(net, y, 20, 3)), axis=1)
    for _ in range(3):
        x = net.op("Concat", x, conv(net, relu(net, f.batchnorm(net, x)), 6, 3), axis=1)
    return x


def feature_pyramid(net: Network) -> list[Value]:
    """Three sizes joined from small to large, by sums, by weighted sums or side by side."""
    x = f.image(net, 12, channels=(3, 8, 16))
    maps = [block(net, x, 16, 3, 1)]
    for _ in range(2):
        maps.append(block(net, maps[-1], pick(net, (16, 24)), 3, 2))
    kind = pick(net, ("sum", "weighted", "concat"))
    found = [conv(net, maps[2], 16)]
    for each in maps[1::-1]:
        up = resized(net, found[-1], *each.shape[2:], "nearest")
        side = conv(net, each, 16)
        if kind == "weighted":
            side = net.op("Mul", side, net.constant(0.6))
            up = net.op("Mul", up, net.constant(0.4))
        joined = net.op("Concat", up, side, axis=1) if kind == "concat" else net.op("Add", up, side)
        found.append(block(net, joined, 16))
    return found


def trees(net: Network) -> list[Value]:
    """Parts of parts, joined again in another order."""
    x = image(net, 3, (12, 16, 24, 32, 36))
    c = x.shape[1]
    a, b, d = net.ops("Split", 3, x, net.ints(c // 4, c // 4, c // 2), axis=1)
    d, e = net.ops("Split", 2, d, axis=1)
    left = net.op("Concat", b, act(net, d), a, axis=1)
    right = net.op("Concat", net.op("Mul", e, net.op("Sigmoid", a)), left, axis=1)
    return [net.op("Slice", left, net.ints(1), net.ints(c // 2), net.ints(1)), act(net, right)]


def large(net: Network) -> Value:
    """Kernels of up to 15, of one row, and strides above the kernel."""
    x = image(net, 16)
    c = x.shape[1]
    k = [pick(net, (1, 3, 7, 9, 11, 13, 15)) for _ in range(2)]
    g = pick(net, (1, c))
    out = c if g == c else pick(net, (1, 5, 8, 24))
    s = [pick(net, (1, 2, 4, 5)) for _ in range(2)]
    pads = [int(net.random.integers(0, size // 2 + 1)) for size in (*k, *k)]
    y = net.op("Conv", x, net.weights(out, c // g, *k), net.weights(out, spread=0.2), strides=s,
               kernel_shape=k, pads=pads, group=g)  # fmt: skip
    return act(net, y) if pick(net, (0, 1)) else y


def wide_channels(net: Network) -> Value:
    """A thousand channels, and one."""
    c, out = pick(net, (1, 2, 3, 520, 1000, 1025)), pick(net, (1, 2, 3, 513, 1000, 1024))
    x = net.input(1, c, pick(net, (1, 3, 7)), pick(net, (1, 4, 7)))
    y = act(net, conv(net, x, out))
    return net.op("Flatten", net.op("GlobalAveragePool", y), axis=1) if pick(net, (0, 1)) else y


def focus(net: Network) -> Value:
    """Every second pixel of an image, four times, side by side."""
    h, w = 2 * pick(net, (4, 8, 10, 16)), 2 * pick(net, (4, 7, 8, 16))
    x = net.input(1, 3, h, w)
    parts = [
        net.op("Slice", x, net.ints(i, j), net.ints(h, w), net.ints(2, 3), net.ints(2, 2))
        for j in (0, 1)
        for i in (0, 1)
    ]
    return block(net, net.op("Concat", *parts, axis=1), 16)


def yolox_head(net: Network) -> Value:
    """Boxes of a grid with exponents, and scores, of two sizes."""
    x = f.image(net, 8, channels=(3, 8, 16))
    rows = []
    for y in (block(net, x, 16, 3, 2), block(net, x, 16, 3, 4)):
        h, w = y.shape[2:]
        box, score = conv(net, y, 4), net.op("Sigmoid", conv(net, y, 6))
        both = net.op("Concat", box, score, axis=1)
        both = net.op("Reshape", both, net.ints(1, 10, h * w))
        rows.append(net.op("Transpose", both, perm=[0, 2, 1]))
    y = net.op("Concat", *rows, axis=1)
    if pick(net, (True, False)):
        return y
    n = y.shape[1]
    xy, wh, rest = net.ops("Split", 3, y, net.ints(2, 2, 6), axis=2)
    xy = net.op("Mul", net.op("Add", xy, net.constant(net.random.uniform(0, 4, (1, n, 2)))),
                net.constant(0.5))  # fmt: skip
    return net.op("Concat", xy, net.op("Exp", wh), rest, axis=2)


def modulated(net: Network) -> Value:
    """An image scaled and moved by a vector that is another input."""
    x = image(net, 3)
    n, c = x.shape[:2]
    v = net.input(n, pick(net, (4, 10, 16)))
    weights = net.weights(v.shape[1], 2 * c, spread=v.shape[1] ** -0.5)
    y = net.op("Gemm", v, weights, net.weights(2 * c, spread=0.2))
    y = net.op("Reshape", y, net.ints(n, 2 * c, 1, 1))
    factor, shift = net.ops("Split", 2, y, axis=1)
    factor = net.op("Add", factor, net.constant(1.0)) if pick(net, (0, 1)) else factor
    return net.op("Add", net.op("Mul", conv(net, x, c, 3), factor), shift)


def wave(net: Network) -> Value:
    """A gated causal convolution over time with its residual sum."""
    c, n, d = pick(net, (8, 12, 16)), pick(net, (12, 20, 33)), pick(net, (1, 2, 4))
    x = net.input(pick(net, (1, 1, 2)), c, n)
    y = net.op("Pad", x, net.ints(0, 0, 2 * d, 0, 0, 0), net.constant(0.0))
    parts = [
        net.op("Conv", y, net.weights(c, c, 3), net.weights(c, spread=0.2), dilations=[d])
        for _ in range(2)
    ]
    y = net.op("Mul", net.op("Tanh", parts[0]), net.op("Sigmoid", parts[1]))
    return net.op("Add", x, net.op("Conv", y, net.weights(c, c, 1)))


def product(net: Network) -> Value:
    """Products of tensors of rank 2 to 5, one of them perhaps transposed or repeated."""
    k, n, m = pick(net, (4, 8, 12, 16, 20)), pick(net, (3, 8, 13, 16)), pick(net, (1, 5, 8, 16))
    front = pick(net, ((), (1,), (2,), (1, 2), (2, 3), (1, 2, 2)))
    a = net.input(*front, m, k)
    if pick(net, (True, False)):
        b = net.input(*front, n, k)
        rank = len(b.shape)
        b = net.op("Transpose", b, perm=[*range(rank - 2), rank - 1, rank - 2])
    else:
        b = net.input(*front, k, n)
    y = net.op("MatMul", a, b)
    return pick(net, (lambda n, v: v, relu, lambda n, v: n.op("Softmax", v, axis=-1)))(net, y)


def statistics(net: Network) -> Value:
    """Norms written out, over several axes."""
    x = image(net, 3)
    axes = pick(net, ((1,), (2, 3), (1, 2, 3)))
    less = net.op("Sub", x, mean(net, x, *axes))
    variance = mean(net, net.op("Mul", less, less), *axes)
    root = net.op("Sqrt", net.op("Add", variance, net.constant(1e-3)))
    y = net.op("Div", less, root)
    return net.op("Add", net.op("Mul", y, net.constant(net.random.uniform(0.5, 1.5, (
        x.shape[1], 1, 1)))), net.weights(x.shape[1], 1, 1, spread=0.3))  # fmt: skip


def arithmetic(net: Network) -> Value:
    """Normalization inside of the network, and formulas of several tensors."""
    x = image(net, 2, (1, 3, 5, 8, 16, 17))
    c = x.shape[1]
    kind = pick(net, ("image", "lerp", "square", "ratio", "clamp"))
    if kind == "image":
        y = net.op("Sub", x, net.constant(net.random.uniform(-0.5, 0.5, (1, c, 1, 1))))
        y = net.op("Div", y, net.constant(net.random.uniform(0.5, 2.0, (1, c, 1, 1))))
        return conv(net, y, 8, 3)
    z = net.input(*x.shape)
    if kind == "lerp":
        gate = net.op("Sigmoid", conv(net, net.op("Concat", x, z, axis=1), c))
        rest = net.op("Mul", net.op("Sub", net.constant(1.0), gate), z)
        return net.op("Add", net.op("Mul", gate, x), rest)
    if kind == "square":
        y = net.op("Sub", x, z)
        return net.op("Sqrt", net.op("Add", net.op("Mul", y, y), net.constant(0.01)))
    if kind == "ratio":
        y = net.op("Add", net.op("Abs", z), net.constant(0.7))
        return net.op("Div", x, y)
    return net.op("Min", net.op("Max", x, net.op("Neg", net.op("Abs", z))), net.op("Abs", z))


def ends(net: Network) -> list[Value]:
    """Inner tensors that are outputs, too; weights that two layers share; parts of one input."""
    x = image(net, 4)
    c = x.shape[1]
    w = net.weights(c, c, 3, 3)
    a = net.op("Conv", x, w, pads=[1] * 4)
    b = net.op("Conv", net.op("Relu", a), w, pads=[1] * 4)
    found = [a, b] if pick(net, (0, 1)) else [net.op("Sigmoid", a), net.op("Add", a, b)]
    found.append(mean(net, b, 2, 3, keep=pick(net, (0, 1))))
    return found


def non_local(net: Network) -> Value:
    x = image(net, 3, (8, 12, 16))
    n, c, h, w = x.shape
    q, k, v = (net.op("Reshape", conv(net, x, 8), net.ints(n, 8, h * w)) for _ in range(3))
    s = net.op("Softmax", net.op("MatMul", net.op("Transpose", q, perm=[0, 2, 1]), k), axis=-1)
    y = net.op("MatMul", v, net.op("Transpose", s, perm=[0, 2, 1]))
    return net.op("Add", x, conv(net, net.op("Reshape", y, net.ints(n, 8, h, w)), c))


def single_shot(net: Network) -> list[Value]:
    """Heads of two sizes, channels last, joined for boxes and for classes."""
    x = f.image(net, 9, channels=(3, 8, 16))
    maps = [block(net, x, 16, 3, 2)]
    maps.append(block(net, maps[0], 24, 3, 2))
    found = []
    for out in (4, 5):
        rows = []
        for y in maps:
            y = net.op("Transpose", conv(net, y, 3 * out, 3), perm=[0, 2, 3, 1])
            rows.append(net.op("Reshape", y, net.ints(1, y.shape[1] * y.shape[2] * 3, out)))
        found.append(net.op("Concat", *rows, axis=1))
    return [found[0], net.op("Softmax", found[1], axis=2)]


def styled(net: Network) -> Value:
    """Reflected borders, instance norms, enlarged by repetition."""
    x = image(net, 6, (3, 8, 16))
    y = net.op("Pad", x, net.ints(0, 0, 2, 2, 0, 0, 2, 2), mode=pick(net, ("reflect", "edge")))
    y = net.op("Conv", y, net.weights(12, x.shape[1], 5, 5), net.weights(12, spread=0.2))
    y = relu(net, f.instance_norm(net, y))
    return conv(net, resized(net, y, 2 * y.shape[2], 2 * y.shape[3], "nearest"), 3, 3)


FAMILIES: dict[str, Callable[[Network], Value | list[Value]]] = {
    "convnext": convnext, "cbam": cbam, "coordinates": coordinates, "channelline": channel_line,
    "shuffleunit": shuffle_unit, "upscaler": upscaler, "pyramid": pyramid, "decoder": decoder,
    "masked": masked, "mixer": mixer, "windows": windows, "grids": grids, "branches": branches,
    "featurepyramid": feature_pyramid, "trees": trees, "large": large,
    "widechannels": wide_channels, "focus": focus, "yoloxhead": yolox_head,
    "modulated": modulated, "wave": wave, "product": product, "statistics": statistics,
    "arithmetic": arithmetic, "ends": ends, "nonlocal": non_local, "singleshot": single_shot,
    "styled": styled,
}  # fmt: skip

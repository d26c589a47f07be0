"""Families of patterns that exporters and converters leave in graphs, and of unusual operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import architectures as a
from . import families as f
from .families import pick
from .network import Network, Value

ODD = (1, 2, 3, 5, 6, 10, 11, 13, 14, 18, 21, 26, 30, 36, 50, 60, 80, 100, 130)


def small(net: Network, least: int = 3) -> Value:
    """Draw an image whose channels other families do not have."""
    return f.image(net, least, channels=ODD[:16])


def folded(net: Network) -> Value:
    """Convolution, batch normalization, activation; the last in one of many spellings."""
    x = small(net)
    out = pick(net, ODD)
    k = pick(net, (1, 3))
    y = net.op(
        "Conv",
        x,
        net.weights(out, x.shape[1], k, k),
        pads=[k // 2] * 4,
        kernel_shape=[k, k],
        strides=[pick(net, (1, 2))] * 2,
    )
    y = f.batchnorm(net, y)
    kind = pick(net, ("relu6", "hardtanh", "minmax", "softplus", "elu", "threshold", "leaky"))
    if kind == "minmax":
        return net.op("Min", net.op("Max", y, net.constant(-0.5)), net.constant(1.5))
    if kind == "threshold":
        return net.op("Where", net.op("Greater", y, net.constant(0.1)), y, net.constant(0.0))
    if kind == "hardtanh":
        return net.op("Clip", y, net.constant(-1.0), net.constant(1.0))
    if kind == "relu6":
        return a.relu6(net, y)
    attributes = {"elu": {"alpha": 0.7}, "leaky": {"alpha": 0.3}}.get(kind, {})
    return net.op({"elu": "Elu", "leaky": "LeakyRelu"}.get(kind, "Softplus"), y, **attributes)


def scaled(net: Network) -> Value:
    """Factors and addends before, between and after convolutions."""
    x = small(net)
    c = x.shape[1]

    def constant(v: Value) -> Value:
        shape = pick(net, ((), (1, v.shape[1], 1, 1), (v.shape[1], 1, 1), (1,), (1, 1, 1, 1)))
        return net.constant(net.random.uniform(0.3, 1.7, shape))

    if pick(net, (0, 1)):
        x = net.op("Sub", x, constant(x))
    if pick(net, (0, 1)):
        x = net.op(pick(net, ("Mul", "Div")), x, constant(x))
    y = net.op("Conv", x, net.weights(pick(net, ODD[:12]), c, 1, 1))
    y = net.op("Mul", y, constant(y))
    y = net.op("Add", y, constant(y))
    return pick(net, (a.relu, f.silu, lambda n, v: n.op("Neg", v)))(net, y)


def channels_last(net: Network) -> Value:
    """Traces of a converter from TensorFlow: transposes, pads, and separate biases."""
    h, w, c = pick(net, (4, 6, 7, 9, 12)), pick(net, (4, 5, 8, 10, 13)), pick(net, (3, 8, 12, 20))
    x = net.op("Transpose", net.input(1, h, w, c), perm=[0, 3, 1, 2])
    same = pick(net, ([0, 0, 1, 1], [1, 1, 1, 1], [1, 0, 1, 0]))
    y = net.op("Pad", x, net.ints(0, 0, *same[:2], 0, 0, *same[2:]))
    out = pick(net, (4, 8, 10, 16))
    y = net.op("Conv", y, net.weights(out, c, 3, 3), strides=[pick(net, (1, 2))] * 2)
    y = net.op("Add", y, net.weights(1, out, 1, 1, spread=0.3))
    y = a.act(net, y)
    y = net.op("Transpose", y, perm=[0, 2, 3, 1])
    end = pick(net, ("none", "softmax", "flat", "mean"))
    if end == "softmax":
        return net.op("Softmax", y, axis=-1)
    if end == "flat":
        return net.op("Reshape", y, net.ints(1, -1))
    return net.op("ReduceMean", y, axes=[1, 2], keepdims=0) if end == "mean" else y


def distant(net: Network) -> Value:
    """Large strides, dilations and kernels."""
    x = f.image(net, 13, channels=(3, 6, 8, 16, 20, 33))
    c, h, w = x.shape[1:]
    group = pick(net, (1, 1, c))
    kh, kw = pick(net, (1, 2, 3, 6, 9, 11)), pick(net, (1, 2, 4, 7, 9, 13))
    dilation = [pick(net, (1, 2, 3, 5)) if (k - 1) * 5 < s else 1 for k, s in ((kh, h), (kw, w))]
    out = c if group == c else pick(net, (2, 7, 16, 24))
    return net.op(
        "Conv",
        x,
        net.weights(out, c // group, kh, kw),
        net.weights(out, spread=0.2),
        group=group,
        kernel_shape=[kh, kw],
        dilations=dilation,
        strides=[pick(net, (1, 4, 5, 7, 8)) for _ in "hw"],
        pads=[int(net.random.integers(0, min(k, 8))) for k in (kh, kw, kh, kw)],
    )


def grouped(net: Network) -> Value:
    """Groups of any width, some of them shuffled or one behind the other."""
    g = pick(net, (2, 3, 4, 6, 8, 12, 16))
    c = g * pick(net, (1, 2, 3, 4, 5, 8, 10))
    x = net.input(1, c, pick(net, (3, 5, 8, 14)), pick(net, (4, 6, 7, 16)))
    out = g * pick(net, (1, 2, 3, 6, 8))
    k = pick(net, (1, 3, 5))
    y = net.op(
        "Conv",
        x,
        net.weights(out, c // g, k, k),
        net.weights(out, spread=0.3),
        group=g,
        pads=[k // 2] * 4,
        kernel_shape=[k, k],
        strides=[pick(net, (1, 1, 2))] * 2,
    )
    y = a.act(net, y)
    return f.group_conv(net, y) if pick(net, (0, 1)) else f.shuffle(net, y)


def pointwise(net: Network) -> Value:
    """Layers of very many or very few channels on maps of one pixel or one line."""
    c, out = pick(net, (1, 2, 3, 7, 127, 255, 256, 300, 513)), pick(net, (1, 2, 5, 63, 129, 257))
    x = net.input(1, c, *pick(net, ((1, 1), (1, 3), (2, 1), (1, 17), (5, 1))))
    y = net.op("Conv", x, net.weights(out, c, 1, 1), net.weights(out, spread=0.3))
    y = pick(net, (a.act, f.mish, lambda n, v: n.op("Sigmoid", v), lambda n, v: n.op("Tanh", v)))(
        net, y
    )
    return (
        net.op("Conv", y, net.weights(pick(net, (1, 3, 16)), out, 1, 1)) if pick(net, (0, 1)) else y
    )


def siblings(net: Network) -> list[Value]:
    """One tensor read by several layers, whose results are joined in unusual ways."""
    x = small(net, 4)
    c = x.shape[1]
    w = net.weights(c, c, 3, 3)
    parts = [
        net.op("Conv", x, w, pads=[1] * 4),
        net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4),
        net.op("Relu", x),
    ]
    kind = pick(net, ("max", "sum", "mean", "concat", "min", "apart"))
    if kind == "apart":
        return [net.op("Sigmoid", parts[0]), parts[1], net.op("Sub", parts[2], parts[0])]
    if kind == "concat":
        return [net.op("Concat", *parts, x, axis=1)]
    return [net.op({"max": "Max", "sum": "Sum", "mean": "Mean", "min": "Min"}[kind], *parts)]


def clipped_slices(net: Network) -> Value:
    """Slices from the end, with steps, backwards, and of computed tensors."""
    x = small(net, 5)
    y = a.conv(net, x, pick(net, ODD[:12])) if pick(net, (0, 1)) else x
    axis = pick(net, (1, 2, 3))
    size = y.shape[axis]
    start, end, step = pick(
        net, ((-2, 1000, 1), (1, -1, 1), (0, size, 3), (1, size, 2), (-1, -1000, -1))
    )
    y = net.op("Slice", y, net.ints(start), net.ints(end), net.ints(axis), net.ints(step))
    return a.relu(net, y) if pick(net, (0, 1)) else y


def picked(net: Network) -> Value:
    """Gathers with negative, repeated and nested indices, and elements of a constant table."""
    kind = pick(net, ("negative", "many", "elements", "nd", "channels"))
    x = net.input(1, pick(net, (5, 8, 12)), pick(net, (6, 9, 16)))
    rows = x.shape[1]
    if kind == "negative":
        return net.op("Gather", x, net.constant([-1, 0, -2], np.int64), axis=1)
    if kind == "many":
        picks = net.random.integers(0, rows, 2 * rows)
        return net.op("Gather", x, net.constant(picks, np.int64), axis=1)
    if kind == "elements":
        picks = net.random.integers(0, rows, (1, 3, x.shape[2]))
        return net.op("GatherElements", x, net.constant(picks, np.int64), axis=1)
    if kind == "nd":
        picks = np.stack([np.zeros(4), net.random.integers(0, rows, 4)], 1)
        return net.op("GatherND", x, net.constant(picks, np.int64))
    y = f.image(net, 3, channels=(6, 8, 16))
    order = net.random.permutation(y.shape[1])
    return net.op("Gather", y, net.constant(order, np.int64), axis=1)


def sums_of_products(net: Network) -> Value:
    """What einsum becomes: products whose axes are moved and joined before."""
    n, m, k, e = (pick(net, c) for c in ((1, 2, 4), (3, 6, 8), (5, 8, 16), (4, 7, 9)))
    kind = pick(net, ("bmk,bke", "weights", "left", "outer", "vector"))
    x = net.input(1, n, m, k)
    if kind == "weights":
        return net.op("MatMul", x, net.weights(n, k, e, spread=k**-0.5))
    if kind == "left":
        return net.op("MatMul", net.weights(e, m, spread=m**-0.5), x)
    if kind == "outer":
        return net.op(
            "Mul",
            net.op("Unsqueeze", net.op("ReduceMean", x, axes=[3]), net.ints(4)),
            net.op("Unsqueeze", x, net.ints(2)),
        )
    if kind == "vector":
        return net.op("MatMul", x, net.weights(k, spread=k**-0.5))
    y = net.input(1, n, e, k)
    y = net.op("MatMul", x, net.op("Transpose", y, perm=[0, 1, 3, 2]))
    return net.op("Transpose", y, perm=[0, 2, 1, 3]) if pick(net, (0, 1)) else y


def pixel_shuffles(net: Network) -> Value:
    """PixelShuffle and its inverse by reshapes, for blocks that are not square, too."""
    bh, bw = pick(net, ((2, 2), (3, 3), (1, 2), (2, 1), (4, 4), (2, 4)))
    c, h, w = pick(net, (1, 2, 3, 5, 8)), pick(net, (2, 3, 6, 8)), pick(net, (2, 4, 5, 7))
    if pick(net, (0, 1)):
        x = net.input(1, c * bh * bw, h, w)
        y = a.conv(net, x, c * bh * bw, 3) if pick(net, (0, 1)) else x
        first = pick(net, ((0, 1, 4, 2, 5, 3), (0, 3, 4, 1, 5, 2)))
        form = (1, c, bh, bw, h, w) if first[1] == 1 else (1, bh, bw, c, h, w)
        y = net.op("Transpose", net.op("Reshape", y, net.ints(*form)), perm=list(first))
        return net.op("Reshape", y, net.ints(1, c, bh * h, bw * w))
    x = net.input(1, c, h * bh, w * bw)
    y = net.op("Reshape", x, net.ints(1, c, h, bh, w, bw))
    y = net.op("Transpose", y, perm=list(pick(net, ((0, 1, 3, 5, 2, 4), (0, 3, 5, 1, 2, 4)))))
    y = net.op("Reshape", y, net.ints(1, c * bh * bw, h, w))
    return a.conv(net, y, pick(net, (4, 9, 16)), pick(net, (1, 3)))


def norms(net: Network) -> Value:
    """Normalizations over unusual axes, and with a factor alone."""
    kind = pick(net, ("all", "channels", "rms", "batch1d", "weight", "group", "scaled"))
    if kind == "all":
        x = small(net)
        shape = x.shape[1:]
        return net.op(
            "LayerNormalization",
            x,
            net.constant(net.random.uniform(0.5, 1.5, shape)),
            net.weights(*shape, spread=0.3),
            axis=1,
            epsilon=1e-5,
        )
    if kind == "channels":
        x = small(net)
        less = net.op("Sub", x, net.op("ReduceMean", x, axes=[1], keepdims=1))
        var = net.op("ReduceMean", net.op("Mul", less, less), axes=[1], keepdims=1)
        return net.op("Div", less, net.op("Sqrt", net.op("Add", var, net.constant(1e-3))))
    if kind == "batch1d":
        x = net.input(1, pick(net, ODD[2:]), pick(net, (7, 12, 20)))
        return f.batchnorm(net, x)
    if kind == "group":
        return f.group_norm(net)
    x = f.tokens(net)
    if kind == "rms":
        root = net.op("ReduceMean", net.op("Pow", x, net.constant(2.0)), axes=[-1], keepdims=1)
        root = net.op("Reciprocal", net.op("Sqrt", net.op("Add", root, net.constant(1e-5))))
        return net.op(
            "Mul", net.op("Mul", x, root), net.constant(net.random.uniform(0.5, 1.5, x.shape[-1]))
        )
    if kind == "scaled":
        y = f.layer_norm(net, x)
        return net.op(
            "Add", net.op("Mul", y, net.input(1, 1, x.shape[-1])), net.input(1, 1, x.shape[-1])
        )
    norm = net.op("ReduceL2", x, axes=[1], keepdims=1)
    return net.op("Div", x, net.op("Add", norm, net.constant(1e-3)))


def saturated(net: Network) -> Value:
    """Values that leave the range of their types: clipped sums, large and tiny factors."""
    x = small(net)
    y = a.conv(net, x, pick(net, (4, 8, 17)), pick(net, (1, 3)))
    kind = pick(net, ("large", "tiny", "exp", "square", "steep", "flat"))
    if kind in ("large", "tiny"):
        return net.op("Mul", y, net.constant(50.0 if kind == "large" else 0.01))
    if kind == "exp":
        return net.op("Exp", net.op("Clip", y, net.constant(-4.0), net.constant(3.0)))
    if kind == "square":
        return net.op("Mul", y, y)
    if kind == "steep":
        return net.op("Sigmoid", net.op("Mul", y, net.constant(6.0)))
    return net.op("Softmax", net.op("Mul", y, net.constant(4.0)), axis=1)


def borders(net: Network) -> Value:
    """Pads of channels, of one side, with values, and before poolings and convolutions."""
    x = small(net, 4)
    kind = pick(net, ("channels", "side", "value", "pool", "average", "reflect"))
    ends = {
        "channels": (0, 2, 0, 0, 0, 3, 0, 0),
        "side": (0, 0, 0, 3, 0, 0, 0, 0),
        "value": (0, 0, 1, 1, 0, 0, 2, 2),
        "reflect": (0, 0, 2, 1, 0, 0, 1, 2),
        "pool": (0, 0, 0, 0, 0, 0, 1, 1),
        "average": (0, 0, 1, 1, 0, 0, 1, 1),
    }[kind]
    inputs = [x, net.ints(*ends)]
    if kind == "value":
        inputs.append(net.constant(-1.5))
    y = net.op("Pad", *inputs, mode="reflect" if kind == "reflect" else "constant")
    if kind in ("pool", "average"):
        return net.op(
            "MaxPool" if kind == "pool" else "AveragePool",
            y,
            kernel_shape=[2, 2],
            strides=[pick(net, (1, 2))] * 2,
        )
    return a.conv(net, y, pick(net, ODD[:10])) if pick(net, (0, 1)) else y


def gates(net: Network) -> Value:
    """Products of two branches: GLU of all kinds, squeezes by several poolings, masks."""
    kind = pick(net, ("glu", "swiglu", "geglu", "spatial", "twice", "mask"))
    if kind in ("swiglu", "geglu"):
        x = f.tokens(net)
        d = pick(net, (8, 16, 24))
        gate = net.op("MatMul", x, net.weights(x.shape[-1], d, spread=x.shape[-1] ** -0.5))
        up = net.op("MatMul", x, net.weights(x.shape[-1], d, spread=x.shape[-1] ** -0.5))
        y = net.op("Mul", (f.silu if kind == "swiglu" else f.gelu)(net, gate), up)
        return net.op("MatMul", y, net.weights(d, x.shape[-1], spread=d**-0.5))
    x = f.image(net, 4, channels=(4, 8, 12, 16, 20))
    c = x.shape[1]
    if kind == "glu":
        left, right = net.ops("Split", 2, a.conv(net, x, 2 * c, 3), axis=1)
        return net.op("Mul", left, net.op(pick(net, ("Sigmoid", "Tanh", "HardSigmoid")), right))
    if kind == "spatial":
        both = [a.mean(net, x, 1), a.mean(net, x, 1, kind="ReduceMax")]
        return net.op(
            "Mul", x, net.op("Sigmoid", a.conv(net, net.op("Concat", *both, axis=1), 1, 7))
        )
    if kind == "twice":
        y = net.op("Add", net.op("GlobalAveragePool", x), net.op("GlobalMaxPool", x))
        return net.op("Mul", x, net.op("Sigmoid", a.conv(net, y, c)))
    mask = (net.random.random((1, 1, *x.shape[2:])) < 0.5).astype(np.float32)
    return net.op("Mul", a.conv(net, x, c, 3), net.constant(mask))


def enlarged(net: Network) -> Value:
    """Resizes in all modes and by factors of two kinds, between convolutions."""
    x = f.image(net, 3, channels=(4, 8, 16, 24))
    x = a.block(net, x, pick(net, (6, 8, 16, 20))) if pick(net, (0, 1)) else x
    h, w = x.shape[2:]
    kind = pick(net, ("nearest", "linear", "linear"))
    how = pick(net, ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"))
    how = pick(net, ("asymmetric", "half_pixel")) if kind == "nearest" else how
    attributes = {"mode": kind, "coordinate_transformation_mode": how}
    if kind == "nearest":
        attributes["nearest_mode"] = "floor" if how == "asymmetric" else "round_prefer_floor"
    factors = pick(net, ((2, 2), (4, 4), (3, 3), (2, 1), (1, 4), (8, 8), (0.5, 0.5), (2.5, 2.5)))
    if pick(net, (0, 1)):
        y = net.op("Resize", x, None, net.constant([1, 1, *factors]), **attributes)
    else:
        to = net.ints(*x.shape[:2], int(h * factors[0]), int(w * factors[1]))
        y = net.op("Resize", x, None, None, to, **attributes)
    return a.conv(net, y, pick(net, (3, 8)), 3) if np.prod(y.shape) < 40000 else y


def untransposed(net: Network) -> Value:
    """Transposed convolutions with groups, output padding, even kernels, and what follows them."""
    c = pick(net, (2, 4, 6, 8, 16, 20))
    x = net.input(1, c, pick(net, (2, 3, 5, 8)), pick(net, (2, 4, 7)))
    k, s = pick(net, ((2, 2), (3, 2), (4, 2), (3, 1), (5, 3), (4, 4), (6, 2)))
    group = pick(net, (1, 1, 1, c))
    each = 1 if group == c else pick(net, (1, 3, 8, 12))
    pad = min(pick(net, (0, 1, 1, 2)), k - 1)
    extra = [pick(net, (0, 0, s - 1))] * 2
    y = net.op(
        "ConvTranspose",
        x,
        net.weights(c, each, k, k, spread=(c / group) ** -0.5 / 2),
        strides=[s, s],
        pads=[pad] * 4,
        output_padding=extra,
        group=group,
    )
    y = (
        f.batchnorm(net, y)
        if pick(net, (0, 1))
        else net.op("Add", y, net.weights(1, y.shape[1], 1, 1))
    )
    return a.act(net, y) if pick(net, (0, 1)) else y


def heads(net: Network) -> list[Value]:
    """Several outputs of different ranks: regressions, classes, keypoints, masks."""
    x = a.block(net, f.image(net, 8, channels=(3, 8, 16)), pick(net, (12, 16, 24)), 3, 2)
    n, c, h, w = x.shape
    found: list[Value] = [net.op("Reshape", a.conv(net, x, 5), net.ints(n, 5, h * w))]
    if pick(net, (0, 1)):
        y = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
        found.append(
            net.op(
                "Softmax", net.op("Gemm", y, net.weights(4, c), net.weights(4), transB=1), axis=1
            )
        )
    if pick(net, (0, 1)):
        y = net.op("Transpose", net.op("Sigmoid", a.conv(net, x, 6)), perm=[0, 2, 3, 1])
        found.append(net.op("Reshape", y, net.ints(n, h * w * 2, 3)))
    if pick(net, (0, 1)):
        found.append(net.op("ReduceMax", x, axes=[1], keepdims=0))
    if pick(net, (0, 1)):
        found.append(net.op("ArgMax", a.conv(net, x, 7), axis=1, keepdims=0))
    return found


def constants(net: Network) -> Value:
    """A branch that depends on no input, and inputs that only a part of the graph needs."""
    x = small(net)
    c, h, w = x.shape[1:]
    table = net.weights(1, c, h, w, spread=1.0)
    kind = pick(net, ("conv", "sigmoid", "slice", "shape"))
    if kind == "conv":
        table = a.conv(net, table, c)
    elif kind == "sigmoid":
        table = net.op("Sigmoid", table)
    elif kind == "slice":
        table = net.op(
            "Slice", net.weights(1, c, h + 2, w), net.ints(1), net.ints(h + 1), net.ints(2)
        )
    else:
        table = net.op("Expand", net.weights(1, c, 1, 1), net.ints(1, c, h, w))
    return a.relu(net, net.op(pick(net, ("Add", "Mul", "Sub")), x, table))


def lines(net: Network) -> Value:
    """Tensors of rank 2 and 3 through layers of one dimension."""
    c, t = pick(net, (1, 4, 9, 16, 20)), pick(net, (8, 15, 30, 33))
    x = net.input(1, c, t)
    k, s, d = pick(net, (2, 3, 5, 8)), pick(net, (1, 1, 2, 3)), pick(net, (1, 1, 2))
    group = pick(net, (1, 1, c))
    out = c * pick(net, (1, 2)) if group == c else pick(net, (6, 16, 24))
    y = net.op(
        "Conv",
        x,
        net.weights(out, c // group, k),
        net.weights(out, spread=0.2),
        group=group,
        strides=[s],
        dilations=[d],
        pads=[(k - 1) * d, 0] if pick(net, (0, 1)) else [k // 2] * 2,
    )
    y = a.act(net, y)
    end = pick(net, ("pool", "mean", "linear", "transposed", "none"))
    if end == "pool":
        return net.op(pick(net, ("MaxPool", "AveragePool")), y, kernel_shape=[2], strides=[2])
    if end == "mean":
        return net.op("ReduceMean", y, axes=[2], keepdims=pick(net, (0, 1)))
    if end == "linear":
        return a.dense(net, net.op("Transpose", y, perm=[0, 2, 1]), 7)
    if end == "transposed":
        return net.op(
            "ConvTranspose", y, net.weights(out, 5, 4, spread=0.2), strides=[2], pads=[1, 1]
        )
    return y


def decisions(net: Network) -> Value:
    """Comparisons, masks and choices between computed branches."""
    x = small(net)
    other = net.input(*x.shape)
    chosen = net.op(pick(net, ("Greater", "Less")), x, other)
    if pick(net, (0, 1)):
        more = net.op("Greater", x, net.constant(0.3))
        chosen = net.op(pick(net, ("And", "Or")), chosen, more)
    kind = pick(net, ("where", "cast", "sum"))
    if kind == "where":
        return net.op("Where", chosen, net.op("Sigmoid", x), net.op("Neg", other))
    mask = net.op("Cast", chosen, to=1)
    return (
        net.op("Mul", x, mask)
        if kind == "cast"
        else net.op("ReduceSum", mask, net.ints(1), keepdims=1)
    )


FAMILIES: dict[str, Callable[[Network], Value | list[Value]]] = {
    "folded": folded,
    "scaled": scaled,
    "channelslast": channels_last,
    "distant": distant,
    "grouped": grouped,
    "pointwise": pointwise,
    "siblings": siblings,
    "clippedslices": clipped_slices,
    "picked": picked,
    "sumsofproducts": sums_of_products,
    "pixelshuffles": pixel_shuffles,
    "norms": norms,
    "saturated": saturated,
    "borders": borders,
    "gates": gates,
    "enlarged": enlarged,
    "untransposed": untransposed,
    "heads": heads,
    "constants": constants,
    "lines": lines,
    "decisions": decisions,
}

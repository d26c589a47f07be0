"""Small detectors for the synthetic scenes, in the output forms that the ecosystem uses.

Every net is the same backbone and neck (convolutions with ReLU, CSP blocks, SPPF, FPN + PAN,
strides 8, 16 and 32) with one of four heads, or the smallest one; ``HEADS`` lists them.
A net returns raw maps while it is trained; ``export_form`` gives the graph that is exported.
The exported graphs hold only what the NPU runtimes run themselves: Conv, Relu, Sigmoid, MaxPool,
Resize (nearest), Concat, Add with a constant, Reshape, ReduceSum, Clip; no Slice, Split,
Transpose, Softmax, Gather.
"""

from __future__ import annotations

import torch
from scenes import CLASSES, SIZE
from torch import Tensor, nn

STRIDES = (8, 16, 32)
DFL_BINS = 16
LTRB_RANGE = 8.0  # the single-output head's largest distance to a side, in strides


class ConvBlock(nn.Sequential):
    """Convolution without bias, batch norm, ReLU; the padding keeps the size / stride."""

    def __init__(
        self, c_in: int, c_out: int, kernel: int = 3, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(
            nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
        )


class CspBlock(nn.Module):
    """YOLOv8's C2f with one bottleneck, its channel split written as two 1x1 convolutions."""

    def __init__(self, c_in: int, c_out: int, residual: bool) -> None:
        super().__init__()
        hidden = c_out // 2
        self.skip = ConvBlock(c_in, hidden, 1)
        self.stem = ConvBlock(c_in, hidden, 1)
        self.bottleneck = nn.Sequential(ConvBlock(hidden, hidden), ConvBlock(hidden, hidden))
        self.merge = ConvBlock(3 * hidden, c_out, 1)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        stem = self.stem(x)
        deep = self.bottleneck(stem)
        if self.residual:
            deep = deep + stem
        return self.merge(torch.cat([self.skip(x), stem, deep], 1))


class Sppf(nn.Module):
    """Three chained 5x5 max pools, concatenated: context at the coarsest level."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = ConvBlock(channels, channels // 2, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.merge = ConvBlock(channels * 2, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        pools = [self.reduce(x)]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        return self.merge(torch.cat(pools, 1))


class Features(nn.Module):
    """Backbone and neck: image to three maps of ``neck`` channels at strides 8, 16, 32."""

    def __init__(self, widths: tuple[int, int, int, int, int], neck: int) -> None:
        super().__init__()
        c2, c4, c8, c16, c32 = widths
        self.to4 = nn.Sequential(
            ConvBlock(3, c2, 3, 2), ConvBlock(c2, c4, 3, 2), CspBlock(c4, c4, True)
        )
        self.to8 = nn.Sequential(ConvBlock(c4, c8, 3, 2), CspBlock(c8, c8, True))
        self.to16 = nn.Sequential(ConvBlock(c8, c16, 3, 2), CspBlock(c16, c16, True))
        self.to32 = nn.Sequential(ConvBlock(c16, c32, 3, 2), CspBlock(c32, c32, True), Sppf(c32))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.top16 = CspBlock(c32 + c16, neck, False)
        self.top8 = CspBlock(neck + c8, neck, False)
        self.down16 = ConvBlock(neck, neck, 3, 2)
        self.out16 = CspBlock(neck + neck, neck, False)
        self.down32 = ConvBlock(neck, neck, 3, 2)
        self.out32 = CspBlock(neck + c32, neck, False)

    def forward(self, images: Tensor) -> list[Tensor]:
        f8 = self.to8(self.to4(images))
        f16 = self.to16(f8)
        f32 = self.to32(f16)
        t16 = self.top16(torch.cat([self.up(f32), f16], 1))
        p8 = self.top8(torch.cat([self.up(t16), f8], 1))
        p16 = self.out16(torch.cat([self.down16(p8), t16], 1))
        p32 = self.out32(torch.cat([self.down32(p16), f32], 1))
        return [p8, p16, p32]


class SeparableBlock(nn.Sequential):
    """A 3x3 convolution of each channel alone, then a 1x1 convolution of all."""

    def __init__(self, c_in: int, c_out: int, stride: int = 1) -> None:
        super().__init__(ConvBlock(c_in, c_in, 3, stride, groups=c_in), ConvBlock(c_in, c_out, 1))


class SmallFeatures(nn.Module):
    """As `Features`, of few weights: separable convolutions, and no way down again."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        c = channels
        self.to8 = nn.Sequential(
            ConvBlock(3, c // 2, 3, 2),
            ConvBlock(c // 2, c // 2, 3, 2),
            SeparableBlock(c // 2, c, 2),
            SeparableBlock(c, c),
        )
        self.to16, self.to32 = (
            nn.Sequential(SeparableBlock(c, c, 2), SeparableBlock(c, c), SeparableBlock(c, c))
            for _ in range(2)
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.top16, self.top8 = ConvBlock(2 * c, c, 1), ConvBlock(2 * c, c, 1)

    def forward(self, images: Tensor) -> list[Tensor]:
        f8 = self.to8(images)
        f16 = self.to16(f8)
        f32 = self.to32(f16)
        t16 = self.top16(torch.cat([self.up(f32), f16], 1))
        p8 = self.top8(torch.cat([self.up(t16), f8], 1))
        return [p8, t16, f32]


class Branches(nn.Module):
    """Per level: a box branch of ``box_channels`` and a class branch, not activated."""

    def __init__(
        self, channels: int, box_channels: int, box_bias: float, block: type[nn.Module] = ConvBlock
    ) -> None:
        super().__init__()
        self.box = nn.ModuleList(_branch(channels, box_channels, box_bias, block) for _ in STRIDES)
        # a prior of 1 % per class keeps the first steps from drowning in background
        self.cls = nn.ModuleList(_branch(channels, len(CLASSES), -4.6, block) for _ in STRIDES)

    def forward(self, levels: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        return [(b(x), c(x)) for b, c, x in zip(self.box, self.cls, levels)]


def _branch(
    channels: int, out: int, bias: float, block: type[nn.Module] = ConvBlock
) -> nn.Sequential:
    last = nn.Conv2d(channels, out, 1)
    nn.init.constant_(last.bias, bias)
    return nn.Sequential(block(channels, channels), last)


class SingleOutputNet(nn.Module):
    """YOLOv8-style, one output ``[1, 4 + classes, 1, predictions]``, boxes normalised 0..1.

    Boxes and scores share one int8 scale in this form, so the boxes are divided by the input
    size inside the graph: both then lie in 0..1 and a quantization step is 1/255.
    """

    outputs = ("output0",)

    def __init__(self, widths: tuple[int, int, int, int, int], neck: int) -> None:
        super().__init__()
        self.features = Features(widths, neck)
        self.head = Branches(neck, 4, -1.0)

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        return self.head(self.features(images))

    def distances(self, box: Tensor) -> Tensor:
        """Turn raw box channels (second axis) into left, top, right, bottom in strides."""
        return torch.sigmoid(box) * LTRB_RANGE

    def export_form(self) -> nn.Module:
        """Return the module with the fixed box arithmetic and the one output."""
        return _SingleOutputExport(self)


class _SingleOutputExport(nn.Module):
    def __init__(self, net: SingleOutputNet) -> None:
        super().__init__()
        self.net = net
        self.to_cxcywh = nn.ModuleList()
        for i, stride in enumerate(STRIDES):
            conv = nn.Conv2d(4, 4, 1, bias=False)
            unit = torch.tensor([[-0.5, 0, 0.5, 0], [0, -0.5, 0, 0.5], [1, 0, 1, 0], [0, 1, 0, 1]])
            conv.weight.data = (unit * (LTRB_RANGE * stride / SIZE))[..., None, None]
            self.to_cxcywh.append(conv)
            cells = SIZE // stride
            centre = (torch.arange(cells) + 0.5) / cells
            grid = torch.zeros(1, 4, cells, cells)
            grid[0, 0], grid[0, 1] = centre[None, :], centre[:, None]
            self.register_buffer(f"grid{i}", grid)

    def forward(self, images: Tensor) -> Tensor:
        parts = []
        for i, (box, cls) in enumerate(self.net(images)):
            centred = self.to_cxcywh[i](torch.sigmoid(box)) + getattr(self, f"grid{i}")
            level = torch.cat([centred, torch.sigmoid(cls)], 1)
            parts.append(level.reshape(1, 4 + len(CLASSES), 1, (SIZE // STRIDES[i]) ** 2))
        return torch.cat(parts, 3)


class DflNet(nn.Module):
    """YOLOv8 in the model zoo's split form: box 4*16 raw, scores, clipped class sum; 9 outputs."""

    outputs = tuple(f"{kind}_{s}" for s in STRIDES for kind in ("box", "score", "score_sum"))

    def __init__(self, widths: tuple[int, int, int, int, int], neck: int) -> None:
        super().__init__()
        self.features = Features(widths, neck)
        self.head = Branches(neck, 4 * DFL_BINS, 1.0)

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        return self.head(self.features(images))

    def export_form(self) -> nn.Module:
        """Return the module with the nine outputs."""
        return _SplitExport(self.features, self.head, with_sum=True)


class SmallNet(DflNet):
    """The same of 33,000 weights, for the demonstration in the wheel."""

    def __init__(self, widths: tuple[int, ...], neck: int) -> None:
        nn.Module.__init__(self)
        self.features = SmallFeatures(neck)
        self.head = Branches(neck, 4 * DFL_BINS, 1.0, SeparableBlock)


class EndToEndNet(nn.Module):
    """YOLOv10: a one-to-many head for the features, a one-to-one head that needs no NMS.

    Exported in the zoo's split form, the one-to-one head alone: box 4*16 raw, scores; 6 outputs.
    """

    outputs = tuple(f"{kind}_{s}" for s in STRIDES for kind in ("box", "score"))

    def __init__(self, widths: tuple[int, int, int, int, int], neck: int) -> None:
        super().__init__()
        self.features = Features(widths, neck)
        self.head = Branches(neck, 4 * DFL_BINS, 1.0)
        self.one_to_one = Branches(neck, 4 * DFL_BINS, 1.0)

    def forward(
        self, images: Tensor
    ) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
        levels = self.features(images)
        # as in the paper, the one-to-one loss stops before the features
        return self.head(levels), self.one_to_one([x.detach() for x in levels])

    def export_form(self) -> nn.Module:
        """Return the module with the six outputs of the one-to-one head."""
        return _SplitExport(self.features, self.one_to_one, with_sum=False)


class _SplitExport(nn.Module):
    def __init__(self, features: Features, head: Branches, with_sum: bool) -> None:
        super().__init__()
        self.features, self.head, self.with_sum = features, head, with_sum

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        outputs = []
        for box, cls in self.head(self.features(images)):
            score = torch.sigmoid(cls)
            outputs += [box, score]
            if self.with_sum:
                outputs.append(torch.clamp(score.sum(1, keepdim=True), 0, 1))
        return tuple(outputs)


class AnchorNet(nn.Module):
    """YOLOv5: three outputs ``[1, 3 * (5 + classes), H, W]`` after sigmoid; decode.ANCHORS."""

    outputs = tuple(f"output_{s}" for s in STRIDES)

    def __init__(self, widths: tuple[int, int, int, int, int], neck: int) -> None:
        super().__init__()
        self.features = Features(widths, neck)
        channels = 3 * (5 + len(CLASSES))
        self.head = nn.ModuleList(_branch(neck, channels, 0.0) for _ in STRIDES)
        for branch in self.head:
            bias = branch[-1].bias.data.view(3, -1)
            bias[:, 4], bias[:, 5:] = -4.6, -1.6

    def forward(self, images: Tensor) -> list[Tensor]:
        return [branch(x) for branch, x in zip(self.head, self.features(images))]

    def export_form(self) -> nn.Module:
        """Return the module with the sigmoid applied."""
        return _AnchorExport(self)


class _AnchorExport(nn.Module):
    def __init__(self, net: AnchorNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.sigmoid(x) for x in self.net(images))


LARGE = ((16, 32, 48, 64, 64), 32)
SMALL = ((16, 16, 32, 40, 40), 24)
HEADS = {
    "single": (SingleOutputNet, LARGE),
    "yolov5": (AnchorNet, SMALL),
    "yolov8": (DflNet, SMALL),
    "yolov10": (EndToEndNet, SMALL),
    "small": (SmallNet, ((), 32)),
}


def make_net(head: str) -> nn.Module:
    """Make an untrained net by the name of its head, a key of ``HEADS``."""
    net_class, (widths, neck) = HEADS[head]
    return net_class(widths, neck)

"""Losses of the four heads: task-aligned assignment for YOLOv8 / YOLOv10, anchors for YOLOv5.

Sources: TOOD (task-aligned assignment), Generalized Focal Loss (DFL), CIoU, the YOLOv10 paper
(consistent dual assignment), and YOLOv5's published target rule (anchor ratio below 4, the cell
and its two nearest neighbours).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from decode import ANCHORS
from nets import DFL_BINS, STRIDES, AnchorNet, EndToEndNet, SingleOutputNet
from scenes import CLASSES, SIZE
from torch import Tensor, nn
from torch.nn import functional as F

Levels = list[tuple[Tensor, Tensor]]


def loss_of(net: nn.Module, images: Tensor, boxes: Tensor, class_ids: Tensor) -> Tensor:
    """Return the loss of one batch.

    Args:
        net: One of the nets of ``nets.HEADS``.
        images: ``(b, 3, SIZE, SIZE)``, 0..1.
        boxes: ``(b, g, 4)``, pixels, xyxy; padded with zeros.
        class_ids: ``(b, g)`` int64; -1 where padded.
    """
    raw = net(images)
    if isinstance(net, AnchorNet):
        return anchor_loss([x.float() for x in raw], boxes, class_ids)
    if isinstance(net, EndToEndNet):
        many, one = raw
        return aligned_loss(many, boxes, class_ids, topk=10) + aligned_loss(
            one, boxes, class_ids, topk=1
        )
    distances = net.distances if isinstance(net, SingleOutputNet) else None
    return aligned_loss(raw, boxes, class_ids, topk=10, distances=distances)


# --- anchor-free ----------------------------------------------------------------------------


def aligned_loss(
    levels: Levels,
    boxes: Tensor,
    class_ids: Tensor,
    *,
    topk: int,
    distances: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Return the loss of an anchor-free head; DFL boxes unless ``distances`` decodes them."""
    raw_box = torch.cat([b.float().flatten(2) for b, _ in levels], 2).transpose(1, 2)
    logits = torch.cat([c.float().flatten(2) for _, c in levels], 2).transpose(1, 2)
    centres, strides = _cells()
    if distances is None:
        bins = raw_box.view(*raw_box.shape[:2], 4, DFL_BINS)
        ltrb = bins.softmax(-1) @ torch.arange(DFL_BINS, dtype=torch.float32)
    else:
        ltrb = distances(raw_box)
    predicted = torch.cat([centres - ltrb[..., :2] * strides, centres + ltrb[..., 2:] * strides], 2)
    owner, weight = assign(
        logits.detach().sigmoid(), predicted.detach(), centres, boxes, class_ids, topk
    )
    positive = owner >= 0
    batch = torch.arange(len(boxes))[:, None].expand_as(owner)[positive]
    gt_box, gt_class = boxes[batch, owner[positive]], class_ids[batch, owner[positive]]
    w = weight[positive]
    target = torch.zeros_like(logits)
    target[positive] = F.one_hot(gt_class, len(CLASSES)).float() * w[:, None]
    total = w.sum().clamp(min=1.0)
    loss = 0.5 * F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / total
    if len(w) == 0:
        return loss + 0.0 * raw_box.sum()
    loss = loss + 7.5 * ((1 - ciou(predicted[positive], gt_box)) * w).sum() / total
    if distances is None:
        cell, stride = (
            centres.expand(len(boxes), -1, -1)[positive],
            strides.expand(len(boxes), -1, -1)[positive],
        )
        aim = torch.cat([cell - gt_box[:, :2], gt_box[:, 2:] - cell], 1) / stride
        loss = loss + 1.5 * (_dfl(bins[positive], aim) * w).sum() / total
    return loss


@torch.no_grad()
def assign(
    scores: Tensor, predicted: Tensor, centres: Tensor, boxes: Tensor, class_ids: Tensor, topk: int
) -> tuple[Tensor, Tensor]:
    """Give each object the ``topk`` cells whose score and box fit it best.

    Args:
        scores: ``(b, a, classes)``, after sigmoid.
        predicted: ``(b, a, 4)``, pixels, xyxy.
        centres: ``(a, 2)``, pixels.
        boxes: ``(b, g, 4)``.
        class_ids: ``(b, g)``, -1 where padded.
        topk: Cells per object.

    Returns:
        Per cell the index of its object or -1, ``(b, a)``, and the target score, ``(b, a)``.
    """
    valid = class_ids >= 0
    inside = torch.minimum(
        (centres[None, None] - boxes[:, :, None, :2]).amin(-1),
        (boxes[:, :, None, 2:] - centres[None, None]).amin(-1),
    )
    candidate = (inside > 0) & valid[..., None]
    overlap = iou(boxes[:, :, None], predicted[:, None]) * candidate
    index = class_ids.clamp(min=0)[..., None].expand(-1, -1, scores.shape[1])
    score = scores.transpose(1, 2).gather(1, index)
    metric = score.sqrt() * overlap.pow(6) * candidate
    value, best = metric.topk(topk, -1)
    chosen = torch.zeros_like(metric, dtype=torch.bool).scatter_(-1, best, value > 1e-12)
    # a cell that several objects chose belongs to the one that it overlaps most
    rank = torch.where(chosen, overlap, torch.full_like(overlap, -1.0))
    most, owner = rank.max(1)
    owner = torch.where(most >= 0, owner, torch.full_like(owner, -1))
    kept = chosen & (torch.arange(boxes.shape[1])[None, :, None] == owner[:, None])
    metric, overlap = metric * kept, overlap * kept
    scale = overlap.amax(-1, keepdim=True) / metric.amax(-1, keepdim=True).clamp(min=1e-12)
    return owner, (metric * scale).amax(1)


def _cells() -> tuple[Tensor, Tensor]:
    """Return the centres ``(a, 2)`` and strides ``(a, 1)`` of all cells, in pixels."""
    centres, strides = [], []
    for stride in STRIDES:
        axis = (torch.arange(SIZE // stride, dtype=torch.float32) + 0.5) * stride
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        centres.append(torch.stack([xx.flatten(), yy.flatten()], 1))
        strides.append(torch.full((len(centres[-1]), 1), float(stride)))
    return torch.cat(centres), torch.cat(strides)


def _dfl(bins: Tensor, aim: Tensor) -> Tensor:
    """Cross entropy of the two bins around each distance, mean over the four sides."""
    aim = aim.clamp(0, DFL_BINS - 1.01)
    low = aim.long()
    high_weight = aim - low
    log_p = bins.log_softmax(-1)
    at_low = log_p.gather(-1, low[..., None])[..., 0]
    at_high = log_p.gather(-1, low[..., None] + 1)[..., 0]
    return -(at_low * (1 - high_weight) + at_high * high_weight).mean(-1)


# --- anchors --------------------------------------------------------------------------------


def anchor_loss(levels: list[Tensor], boxes: Tensor, class_ids: Tensor) -> Tensor:
    """Return YOLOv5's loss; ``levels`` are ``(b, 3 * (5 + classes), h, w)`` before sigmoid."""
    batch, slot = torch.nonzero(class_ids >= 0, as_tuple=True)
    gt, gt_class = boxes[batch, slot], class_ids[batch, slot]
    total = torch.zeros(())
    for raw, stride, anchors, balance in zip(levels, STRIDES, ANCHORS, (4.0, 1.0, 0.4)):
        b, _, h, w = raw.shape
        p = raw.view(b, 3, 5 + len(CLASSES), h, w).permute(0, 1, 3, 4, 2)
        size = torch.from_numpy(anchors)
        which, n, gy, gx = _anchor_matches(gt, stride, size, h, w)
        aim = torch.zeros(b, 3, h, w)
        if len(n):
            at = p[batch[n], which, gy, gx]
            xy = (at[:, :2].sigmoid() * 2 - 0.5 + torch.stack([gx, gy], 1)) * stride
            wh = (at[:, 2:4].sigmoid() * 2) ** 2 * size[which]
            fit = ciou(torch.cat([xy - wh / 2, xy + wh / 2], 1), gt[n])
            total = total + 0.05 * (1 - fit).mean()
            # cells that several objects match aim at the best of them
            flat = ((batch[n] * 3 + which) * h + gy) * w + gx
            aim.view(-1).scatter_reduce_(0, flat, fit.detach().clamp(min=0), "amax")
            one_hot = F.one_hot(gt_class[n], len(CLASSES)).float()
            total = total + 0.1 * F.binary_cross_entropy_with_logits(at[:, 5:], one_hot)
        total = total + 0.5 * balance * F.binary_cross_entropy_with_logits(p[..., 4], aim)
    return total


def _anchor_matches(
    gt: Tensor, stride: int, anchors: Tensor, h: int, w: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return anchor, object, row and column of every match at one level."""
    wh, centre = gt[:, 2:] - gt[:, :2], (gt[:, :2] + gt[:, 2:]) / (2 * stride)
    ratio = wh[None] / anchors[:, None]
    which, n = torch.nonzero(torch.maximum(ratio, 1 / ratio).amax(-1) < 4, as_tuple=True)
    parts = []
    for dx, dy in ((0.0, 0.0), (-0.5, 0.0), (0.5, 0.0), (0.0, -0.5), (0.0, 0.5)):
        cell = (centre[n] + torch.tensor([dx, dy])).floor().long()
        here = centre[n].floor().long()
        ok = ((cell != here).any(1) | (dx == dy)) & (cell >= 0).all(1)
        ok &= (cell[:, 0] < w) & (cell[:, 1] < h)
        parts.append(torch.stack([which[ok], n[ok], cell[ok, 1], cell[ok, 0]]))
    return tuple(torch.cat(parts, 1))


# --- boxes ----------------------------------------------------------------------------------


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the IoU of two broadcastable sets of boxes, xyxy."""
    wh = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(0)
    inter = wh[..., 0] * wh[..., 1]
    area_a = (a[..., 2:] - a[..., :2]).prod(-1)
    area_b = (b[..., 2:] - b[..., :2]).prod(-1)
    return inter / (area_a + area_b - inter).clamp(min=1e-6)


def ciou(a: Tensor, b: Tensor) -> Tensor:
    """Return the complete IoU: overlap, distance of the centres, difference of the aspects."""
    overlap = iou(a, b)
    hull = torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])
    apart = (a[:, :2] + a[:, 2:] - b[:, :2] - b[:, 2:]) / 2
    wh_a, wh_b = (a[:, 2:] - a[:, :2]).clamp(min=1e-3), (b[:, 2:] - b[:, :2]).clamp(min=1e-3)
    angle = torch.atan(wh_a[:, 0] / wh_a[:, 1]) - torch.atan(wh_b[:, 0] / wh_b[:, 1])
    v = 4 / math.pi**2 * angle**2
    alpha = (v / (1 - overlap + v + 1e-6)).detach()
    return overlap - (apart**2).sum(-1) / (hull**2).sum(-1).clamp(min=1e-6) - alpha * v

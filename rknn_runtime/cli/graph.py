"""The drawing of ``rknn-runtime info --graph``: the network as SVG, or as a page with it.

It shows which layers run on the NPU and which on the CPU, and the MACs of each.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Sequence

from rknn_runtime.cli.files import write_text
from rknn_runtime.cli.tables import count, shape, short_name
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile.layers import Layer

WIDTH, HEIGHT = 190, 50
#: Space between boxes, distance of ranks, and the width for an arrow that passes a rank.
GAP, STEP, LANE = 24, 92, 14
MARGIN = 30
SWEEPS = 8
#: More layers than anyone can look at; the time to order them grows faster than their number.
MOST_LAYERS = 3000

#: Fill and edge of a box by device, in colours that colour-blind people can tell apart.
COLOURS = {"NPU": ("#dbeafe", "#2563eb"), "CPU": ("#ffe0b8", "#d97706"), "": ("#eeeeee", "#888888")}
STYLE = (
    "text{font:11px sans-serif;fill:#111;text-anchor:middle}.o{font-weight:bold;font-size:13px}"
    ".t{text-anchor:start}.e{fill:none;stroke:#777;stroke-width:1.3}"
)


def write(path: str, title: str, layers: Sequence[Layer]) -> None:
    """Draw a model into an SVG file, or into a page if the name says so."""
    drawing = draw(title, layers)
    if not path.lower().endswith(".svg"):
        drawing = (
            '<!doctype html><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width"><title>{_escaped(title)}</title>'
            f"<body style='margin:0;background:#fff'>{drawing}</body>\n"
        )
    write_text(path, drawing)


def draw(title: str, layers: Sequence[Layer]) -> str:
    """Draw layers as SVG from top to bottom, each below all that it reads."""
    if len(layers) > MOST_LAYERS:
        raise UnavailableError(f"expected at most {MOST_LAYERS} layers to draw, got {len(layers)}")
    layout = _Layout(layers)
    body = [_arrow(layout, path, name) for path, name in layout.arrows]
    body += [_box(layout, number, layer) for number, layer in enumerate(layers)]
    width, height = max(layout.width, 460), layout.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{STYLE}</style>'
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>'
        f'<rect width="100%" height="100%" fill="#fff"/>{_legend(title, layers)}'
        f"{''.join(body)}</svg>\n"
    )


class _Layout:
    """The places of boxes and arrows, by ranks, lanes, orders and coordinates.

    Points are numbered: first the layers, then the lanes for arrows that pass a rank.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        edges = _edges(layers)
        self.ranks = _ranks(len(layers), edges)
        self.arrows = [(self._lanes(source, target), name) for source, target, name in edges]
        self._above: dict[int, list[int]] = defaultdict(list)
        self._below: dict[int, list[int]] = defaultdict(list)
        for path, _ in self.arrows:
            for upper, lower in zip(path, path[1:]):
                self._above[lower].append(upper)
                self._below[upper].append(lower)
        self._boxes = len(layers)
        rows: dict[int, list[int]] = defaultdict(list)
        for point, rank in enumerate(self.ranks):
            rows[rank].append(point)
        self.rows = [rows[rank] for rank in sorted(rows)]
        self.x = [0.0] * len(self.ranks)
        for row in self.rows:
            self._pack(row, [0.0] * len(row))
        for sweep in range(SWEEPS):
            # The last sweeps keep the order and only straighten.
            self._sweep(self.rows, self._above, sort=sweep < SWEEPS - 3)
            self._sweep(self.rows[::-1], self._below, sort=sweep < SWEEPS - 3)
        self._sweep(self.rows, self._above, sort=False)
        left = min((self.x[p] - self.half(p) for p in range(len(self.x))), default=0.0) - MARGIN
        self.x = [x - left for x in self.x]
        right = max((self.x[p] + self.half(p) for p in range(len(self.x))), default=0.0)
        self.width, self.height = right + MARGIN, self.y(len(self.rows) - 1) + HEIGHT + MARGIN

    def half(self, point: int) -> float:
        return (WIDTH if point < self._boxes else LANE) / 2

    def y(self, rank: int) -> float:
        return 2 * MARGIN + 20 + rank * STEP

    def _lanes(self, source: int, target: int) -> list[int]:
        """Return the points of an arrow: its ends, and one in every rank between."""
        between = range(self.ranks[source] + 1, self.ranks[target])
        start = len(self.ranks)
        self.ranks += between
        return [source, *range(start, len(self.ranks)), target]

    def _sweep(self, rows: list[list[int]], beside: dict[int, list[int]], *, sort: bool) -> None:
        """Move each point towards the middle of its neighbours."""
        for row in rows:
            wanted = {point: self._middle(point, beside[point]) for point in row}
            if sort:
                row.sort(key=wanted.__getitem__)
            self._pack(row, [wanted[point] for point in row])

    def _middle(self, point: int, others: list[int]) -> float:
        places = sorted(self.x[other] for other in others)
        if not places:
            return self.x[point]
        return (places[(len(places) - 1) // 2] + places[len(places) // 2]) / 2

    def _pack(self, row: list[int], wanted: list[float]) -> None:
        """Place a row near its wanted coordinates, in order and without overlaps.

        Points that would overlap form a block at the average of its members' wishes.
        """
        blocks: list[tuple[float, list[tuple[int, float]]]] = []
        for point, want in zip(row, wanted):
            members, at = [(point, 0.0)], want
            while blocks:
                start, others = blocks[-1]
                last, offset = others[-1]
                room = offset + self.half(last) + self.half(members[0][0]) + GAP / 2
                if start + room <= at:
                    break
                blocks.pop()
                total = start * len(others) + (at - room) * len(members)
                members = others + [(p, room + o) for p, o in members]
                at = total / len(members)
            blocks.append((at, members))
        for at, members in blocks:
            for point, offset in members:
                self.x[point] = at + offset


def _edges(layers: Sequence[Layer]) -> list[tuple[int, int, str]]:
    """Return writer, reader and tensor of each arrow; the last writer of a tensor counts."""
    writers: dict[str, int] = {}
    edges: dict[tuple[int, int], str] = {}
    for number, layer in enumerate(layers):
        for tensor in layer.inputs:
            writer = writers.get(tensor.name)
            if writer is not None:
                text = f"{tensor.name} {shape(tensor.shape)} {tensor.dtype and tensor.dtype.name}"
                edges.setdefault((writer, number), text)
        writers.update((tensor.name, number) for tensor in layer.outputs)
    return [(source, target, name) for (source, target), name in edges.items()]


def _ranks(layers: int, edges: list[tuple[int, int, str]]) -> list[int]:
    """Put each layer one rank below the lowest layer that it reads."""
    ranks = [0] * layers
    for source, target, _ in sorted(edges, key=lambda edge: edge[1]):
        ranks[target] = max(ranks[target], ranks[source] + 1)
    return ranks


def _arrow(layout: _Layout, path: Sequence[int], name: str) -> str:
    source, *lanes, target = path
    places = [(layout.x[source], layout.y(layout.ranks[source]) + HEIGHT)]
    for lane in lanes:
        top = layout.y(layout.ranks[lane])
        places += [(layout.x[lane], top), (layout.x[lane], top + HEIGHT)]
    places.append((layout.x[target], layout.y(layout.ranks[target]) - 1))
    words = [f"M{places[0][0]:.0f} {places[0][1]:.0f}"]
    for (x, y), (next_x, next_y) in zip(places[::2], places[1::2]):
        half = (y + next_y) / 2
        words.append(f"C{x:.0f} {half:.0f} {next_x:.0f} {half:.0f} {next_x:.0f} {next_y:.0f}")
        words.append(f"V{next_y + HEIGHT:.0f}")
    del words[-1]  # the arrow ends there
    return (
        f'<path class="e" marker-end="url(#a)" d="{"".join(words)}">'
        f"<title>{_escaped(name)}</title></path>"
    )


def _box(layout: _Layout, number: int, layer: Layer) -> str:
    x, y = layout.x[number], layout.y(layout.ranks[number])
    fill, edge = COLOURS[layer.device]
    seen = layer.outputs or layer.inputs
    facts = "  ".join(shape(tensor.shape) for tensor in seen[:1])
    facts += f" +{len(seen) - 1}" if len(seen) > 1 else ""
    facts += f"  {count(layer.macs)}MACs" if layer.macs else ""
    whole = [
        f"{number} {layer.operator} {layer.name}",
        f"on the {layer.device}" if layer.device else "an end of the graph",
        f"in {', '.join(shape(t.shape) for t in layer.inputs) or '-'}",
        f"out {', '.join(shape(t.shape) for t in layer.outputs) or '-'}",
        f"{layer.macs} MACs; bytes: weights {layer.weight_bytes}, inputs {layer.input_bytes}, "
        f"outputs {layer.output_bytes}",
    ]
    return (
        f'<g><title>{_escaped(chr(10).join(whole))}</title><rect x="{x - WIDTH / 2:.0f}" '
        f'y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="7" fill="{fill}" stroke="{edge}"/>'
        f'<text class="o" x="{x:.0f}" y="{y + 16:.0f}">{_escaped(layer.operator[:24])}</text>'
        f'<text x="{x:.0f}" y="{y + 30:.0f}">{_escaped(short_name(layer.name, 30))}</text>'
        f'<text x="{x:.0f}" y="{y + 44:.0f}">{_escaped(facts)}</text></g>'
    )


def _legend(title: str, layers: Sequence[Layer]) -> str:
    macs = count(sum(layer.macs for layer in layers))
    words = [f'<text class="o t" x="{MARGIN}" y="24">{_escaped(short_name(title, 60))}</text>']
    x = MARGIN
    for device, text in (("NPU", "on the NPU"), ("CPU", "on the CPU"), ("", "ends")):
        number = sum(layer.device == device for layer in layers)
        fill, edge = COLOURS[device]
        words.append(
            f'<rect x="{x}" y="36" width="12" height="12" rx="3" fill="{fill}" stroke="{edge}"/>'
            f'<text class="t" x="{x + 18}" y="46">{number} {text}</text>'
        )
        x += 105
    return "".join(words) + f'<text class="t" x="{x}" y="46">{macs}MACs</text>'


def _escaped(text: str) -> str:
    """Escape text for XML, also characters that XML cannot hold."""
    printable = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    return html.escape(printable)

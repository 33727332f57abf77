"""Lines and bars as SVG images, for the documents that benchmarks write."""

import math
from dataclasses import dataclass, field
from pathlib import Path

# Okabe and Ito's colors, which most people can tell apart.
COLORS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#888888"]
WIDTH, HEIGHT = 380, 240  # of a panel
LEFT, TOP, GAP = 64, 76, 84


@dataclass
class Lines:
    """y over x, a line for each name. With `spread`, a band between the smallest and the largest y."""
    title: str
    x_label: str
    lines: dict[str, list[tuple[float, float]]]
    spread: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)  # x, smallest, largest
    x_log: bool = False


@dataclass
class Bars:
    """For each name one bar, or one for each member of a group; `spread`: the smallest and the largest."""
    title: str
    bars: dict[str, list[float]]
    spread: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, about five of them."""
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step = next(step * factor for factor in (0.5, 1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def frame(x: float, y: float, title: str, low: float, high: float) -> list[str]:
    parts = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
             text(x + WIDTH / 2, y - 8, title, size=13)]
    for value in ticks(low, high):
        height = y + HEIGHT * (high - value) / (high - low)
        parts.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>')
        parts.append(text(x - 6, height + 4, number(value), "end", 10))
    return parts


def draw_lines(x: float, y: float, panel: Lines, colors: dict[str, str], dashes: dict[str, str]) -> list[str]:
    points = [point for line in panel.lines.values() for point in line]
    scale = math.log10 if panel.x_log else float
    start, end = (scale(pick(px for px, _ in points)) for pick in (min, max))
    low, high = min(py for _, py in points), max(py for _, py in points)
    high += 0.05 * (high - low) or 1
    across = lambda px: x + WIDTH * (scale(px) - start) / ((end - start) or 1)
    up = lambda py: y + HEIGHT * (high - py) / (high - low)
    parts = frame(x, y, panel.title, low, high)
    marks = [10.0 ** n * m for n in range(math.floor(start), math.ceil(end) + 1) for m in (1, 2, 5)] \
        if panel.x_log else ticks(start, end)
    parts += [text(across(px), y + HEIGHT + 14, number(px), size=10) for px in marks if start <= scale(px) <= end]
    parts.append(text(x + WIDTH / 2, y + HEIGHT + 30, panel.x_label))
    for name, band in panel.spread.items():
        outline = [(px, bottom) for px, bottom, _ in band] + [(px, top) for px, _, top in reversed(band)]
        path = " ".join(f"{across(px):.1f},{up(py):.1f}" for px, py in outline)
        parts.append(f'<polygon points="{path}" fill="{colors[name]}" opacity="0.15"/>')
    for name, line in panel.lines.items():
        path = " ".join(f"{across(px):.1f},{up(py):.1f}" for px, py in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colors[name]}" stroke-width="1.8"'
                     f'{dashes[name]}/>')
    return parts


def draw_legend(names: list[str], width: float, colors: dict[str, str],
                dashes: dict[str, str]) -> tuple[list[str], int]:
    """As many lines as the names need; and how high they are."""
    parts, x, y = [], LEFT, 38
    for name in names:
        room = 36 + 6.4 * len(name)
        if x + room > width and x > LEFT:
            x, y = LEFT, y + 16
        parts.append(f'<line x1="{x:.1f}" x2="{x + 16:.1f}" y1="{y}" y2="{y}" stroke="{colors[name]}" stroke-width="4"'
                     f'{dashes[name]}/>')
        parts.append(text(x + 21, y + 4, name, "start"))
        x += room
    return parts, y - 38


def draw_bars(x: float, y: float, panel: Bars, colors: dict[str, str]) -> list[str]:
    high = 1.05 * max([top for ends in panel.spread.values() for _, top in ends] +
                      [value for values in panel.bars.values() for value in values] + [1e-9])
    parts = frame(x, y, panel.title, 0, high)
    place = WIDTH / len(panel.bars)
    up = lambda value: y + HEIGHT * (1 - value / high)
    for n, (name, values) in enumerate(panel.bars.items()):
        width = 0.8 * place / len(values)
        for m, value in enumerate(values):
            left = x + place * (n + 0.1) + width * m
            parts.append(f'<rect x="{left:.1f}" y="{up(value):.1f}" width="{max(width - 1, 1):.1f}" '
                         f'height="{HEIGHT * value / high:.1f}" fill="{colors[name]}"/>')
            if name in panel.spread:
                bottom, top = panel.spread[name][m]
                parts.append(f'<line x1="{left + width / 2:.1f}" x2="{left + width / 2:.1f}" y1="{up(bottom):.1f}" '
                             f'y2="{up(top):.1f}" stroke="#777"/>')
    return parts


def write_plots(path: Path, title: str, panels: list[Lines | Bars], columns: int = 2) -> None:
    """All panels in one image. A name has the same color in each."""
    names = list(dict.fromkeys(name for panel in panels
                               for name in (panel.lines if isinstance(panel, Lines) else panel.bars)))
    colors = {name: COLORS[n % len(COLORS)] for n, name in enumerate(names)}
    # More names than colors: the others have dashed lines.
    dashes = {name: ' stroke-dasharray="5 3"' if n >= len(COLORS) else "" for n, name in enumerate(names)}
    rows = math.ceil(len(panels) / columns)
    width = LEFT + columns * (WIDTH + GAP) - 40
    legend, lower = draw_legend(names, width, colors, dashes)
    height = TOP + lower + rows * (HEIGHT + GAP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="white"/>', text(width / 2, 20, title, size=14)]
    parts += legend
    for n, panel in enumerate(panels):
        x, y = LEFT + n % columns * (WIDTH + GAP), TOP + lower + n // columns * (HEIGHT + GAP)
        parts += draw_lines(x, y, panel, colors, dashes) if isinstance(panel, Lines) else draw_bars(x, y, panel, colors)
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(parts) + "\n</svg>\n")

"""Step times over the number of workers, as an SVG image."""

import math
from pathlib import Path

COLORS = {"fp32": "#555555", "bf16": "#000000", "dgc": "#0072b2", "qsgd": "#e69f00", "terngrad": "#cc79a7",
          "signsgd": "#d55e00", "powersgd": "#009e73", "auto": "#b00020"}
WIDTH, HEIGHT = 300, 220  # of a panel
LEFT, TOP, GAP = 70, 70, 24


def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {more}>{words}</text>'


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:g} ms" if seconds < 0.999 else f"{seconds:g} s"


def panel(x: float, y: float, lines: dict[str, list[tuple[int, float]]], ends: tuple[float, float]) -> list[str]:
    """`lines`: by way, (ranks, seconds). `ends`: of the axis of times, in powers of ten."""
    all_ranks = sorted({ranks for points in lines.values() for ranks, _ in points})
    low, high = math.log2(all_ranks[0]), math.log2(all_ranks[-1])
    across = lambda ranks: x + 12 + (WIDTH - 24) * (math.log2(ranks) - low) / max(high - low, 1)
    up = lambda seconds: y + HEIGHT * (ends[1] - math.log10(seconds)) / (ends[1] - ends[0])
    parts = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>']
    for power in range(math.floor(ends[0]), math.ceil(ends[1])):
        for seconds in (10.0 ** power, 2 * 10.0 ** power, 5 * 10.0 ** power):
            if ends[0] <= math.log10(seconds) <= ends[1]:
                height = up(seconds)
                parts.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>')
                parts.append(text(x - 6, height + 4, milliseconds(seconds), "end", 10))
    for ranks in all_ranks:
        parts.append(text(across(ranks), y + HEIGHT + 14, str(ranks), size=10))
    for way, points in lines.items():
        path = " ".join(f"{across(ranks):.1f},{up(seconds):.1f}" for ranks, seconds in sorted(points))
        dashes = ' stroke-dasharray="5 3"' if way == "auto" else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[way]}" stroke-width="2"{dashes}/>')
    return parts


def write_plot(path: Path, columns: list[str], rows: list[str],
               lines: dict[tuple[str, str], dict[str, list[tuple[int, float]]]], title: str) -> None:
    """A panel for each of `rows` and `columns`. `lines`: by row and column, then by way (ranks, seconds)."""
    width = LEFT + len(columns) * (WIDTH + GAP + 46)
    height = TOP + len(rows) * (HEIGHT + GAP + 26)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="white"/>', text(width / 2, 20, title, size=14)]
    for i, (way, color) in enumerate(COLORS.items()):
        x = LEFT + i * 110
        parts.append(f'<line x1="{x}" x2="{x + 24}" y1="40" y2="40" stroke="{color}" stroke-width="2"/>')
        parts.append(text(x + 30, 44, way, "start"))
    for r, row in enumerate(rows):
        times = [seconds for column in columns for points in lines[row, column].values() for _, seconds in points]
        ends = (math.log10(min(times)) - 0.05, math.log10(max(times)) + 0.05)
        for c, column in enumerate(columns):
            x, y = LEFT + c * (WIDTH + GAP + 46), TOP + r * (HEIGHT + GAP + 26)
            parts.append(text(x + WIDTH / 2, y - 6, f"{row}, {column}"))
            parts += panel(x, y, lines[row, column], ends)
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(parts) + "\n</svg>\n")

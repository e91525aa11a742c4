"""The figure of held-out scores during training, as SVG."""

from __future__ import annotations

import math

from experiments.stories.tables import BASELINE, Run

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#8c6d00", "#555555", "#56b4e9", "#cc3311")
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


def curves(arms: dict[str, list[Run]]) -> str:
    """Return the held-out nats per text token above the baseline's, one line per run."""
    baselines = {run["seed"]: run["curve"] for run in arms[BASELINE]}
    drawn = []
    for arm, runs in arms.items():
        for run in runs if arm != BASELINE else []:
            pairs = zip(run["curve"], baselines.get(run["seed"], []), strict=False)
            points = [(ours["ids"], ours["nll"] - its["nll"]) for ours, its in pairs if ours["ids"]]
            if points:
                drawn.append((f"{arm}, seed {run['seed']}" if len(runs) > 1 else arm, points))
    if not drawn:
        return ""
    drawn.sort(key=lambda line: line[1][-1][1])
    most = max(x for _, points in drawn for x, _ in points)
    heights = [y for _, points in drawn for _, y in points]
    low = max((tick for tick in TICKS if tick <= min(heights)), default=min(heights))
    high = min((tick for tick in TICKS if tick >= max(heights)), default=max(heights))
    width, left, top, bottom, legend = 720, 52, 12, 40, 190
    height = max(300, top + bottom + 17 * len(drawn))
    scale = (height - top - bottom) / math.log(high / low)

    def across(x: float) -> float:
        return left + (width - left - legend) * x / most

    def down(y: float) -> float:
        return top + scale * math.log(high / y)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        "<title>Held-out nats per text token above append, during training</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for tick in TICKS:
        if low <= tick <= high:
            y = f"{down(tick):.1f}"
            parts.append(f'<path d="M{left} {y}H{width - legend}" stroke="#e2e2e2"/>')
            parts.append(f'<text x="{left - 6}" y="{y}" dy="4" text-anchor="end">+{tick:g}</text>')
    for share in (0.25, 0.5, 0.75, 1.0):
        words = f"{most * share / 1e6:.1f}M"
        parts.append(
            f'<text x="{across(most * share):.1f}" y="{height - 20}" text-anchor="middle">{words}'
            "</text>"
        )
    parts.append(f'<text x="{left}" y="{height - 4}">nats above append; ids seen</text>')
    labels = [down(points[-1][1]) for _, points in drawn]
    for n in range(len(labels) - 2, -1, -1):  # the best is lowest; labels above it keep apart
        labels[n] = max(labels[n], labels[n + 1] + 15)
    over = max(0.0, labels[0] - (height - bottom))
    for n, ((arm, points), label) in enumerate(zip(drawn, labels, strict=True)):
        colour = COLOURS[n % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
        end = across(points[-1][0])
        y = max(label - over, top + 15.0 * (len(drawn) - 1 - n))
        parts.append(
            f'<path d="M{end:.1f} {down(points[-1][1]):.1f}L{width - legend + 22} {y:.1f}"'
            f' stroke="{colour}" stroke-width="0.6"/>'
        )
        parts.append(
            f'<text x="{width - legend + 26}" y="{y:.1f}" dy="4" fill="{colour}">{arm}</text>'
        )
    parts.append("</svg>\n")
    return "\n".join(parts)

"""Dashboards as HTML: cards, tables, small grey text, frames of one pixel, charts and thumbnails, in several themes."""

import base64
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image


@dataclass(frozen=True)
class Theme:
    """The colours of a dashboard, and the family and roundness that go with them."""

    ground: str
    side: str
    card: str
    rule: str
    text: str
    faint: str
    accents: Sequence[str]
    family: str = "Liberation Sans"
    radius: int = 8


THEMES = {
    "pale": Theme("#f5f6f8", "#eceef1", "#ffffff", "#dfe3e8", "#1c2430", "#8a93a0", ("#2563eb", "#16a34a", "#dc2626", "#d97706")),
    "dark": Theme("#14171c", "#181c22", "#1c2128", "#2d333b", "#d6dbe1", "#7d8590", ("#d9480f", "#3fb950", "#58a6ff", "#bc8cff")),
    "warm": Theme(
        "#fdf6e3",
        "#f3ead3",
        "#fffdf5",
        "#e4dac0",
        "#3b4a52",
        "#93a1a1",
        ("#b58900", "#cb4b16", "#268bd2", "#2aa198"),
        "DejaVu Serif",
        2,
    ),
    "plain": Theme(
        "#ffffff",
        "#f0f0f0",
        "#ffffff",
        "#000000",
        "#000000",
        "#555555",
        ("#0000ee", "#c00000", "#006400", "#808000"),
        "DejaVu Sans",
        0,
    ),
    "violet": Theme(
        "#f3f0fa", "#2b2142", "#ffffff", "#dcd5ec", "#2b2142", "#857aa3", ("#7c3aed", "#ec4899", "#06b6d4", "#f59e0b"), radius=14
    ),
}
WORDS = [
    "orders",
    "revenue",
    "visitors",
    "sessions",
    "returns",
    "open",
    "shipped",
    "margin",
    "latency",
    "errors",
    "queue",
    "region",
    "storage",
    "uptime",
    "weekly",
    "total",
    "new",
]
PHOTOS = ("astronaut", "coffee", "chelsea", "rocket")


def dashboard(theme: Theme, layout: str, seed: int) -> str:
    """One dashboard; layout: "cards", with thumbnails, or "table", with rules between many rows of small text."""
    chosen = random.Random(seed)
    body = _cards(theme, chosen) if layout == "cards" else _table(theme, chosen)
    links = "".join(f"<a{' class=on' if k == 1 else ''}>{_words(chosen, 1)}</a>" for k in range(9))
    return (
        f"<!doctype html><meta charset=utf-8><style>{_style(theme)}</style><nav><b>Acme board</b>{links}</nav>"
        f"<header><span>Overview, {_words(chosen, 2)}</span><button>Export</button></header><main>{body}</main>"
    )


def _style(theme: Theme) -> str:
    first = theme.accents[0]
    on_side = "#cfc6e6" if theme.side == "#2b2142" else theme.text
    return f"""
* {{ box-sizing: border-box; margin: 0 }}
body {{ background: {theme.ground}; color: {theme.text}; font: 13px/1.45 "{theme.family}"; height: 100vh; overflow: hidden }}
nav {{ position: fixed; inset: 0 auto 0 0; width: 168px; background: {theme.side}; border-right: 1px solid {theme.rule};
  padding: 14px; color: {on_side} }}
nav b {{ font-size: 16px; display: block; margin-bottom: 16px }}
nav a {{ display: block; padding: 6px 8px; border-radius: {theme.radius // 2}px }}
nav a.on {{ background: {first}; color: #fff }}
header {{ position: fixed; inset: 0 0 auto 168px; height: 48px; background: {theme.card}; border-bottom: 1px solid {theme.rule};
  padding: 0 18px; display: flex; align-items: center; justify-content: space-between; font-size: 15px }}
button {{ font: 12px "{theme.family}"; color: #fff; background: {first};
  border: 0; border-radius: {theme.radius // 2}px; padding: 6px 14px }}
main {{ position: absolute; inset: 48px 0 0 168px; padding: 16px; display: grid; gap: 14px;
  grid-template-columns: repeat(auto-fill, minmax(180px, 1fr)); align-content: start }}
.card {{ background: {theme.card}; border: 1px solid {theme.rule}; border-radius: {theme.radius}px; padding: 12px;
  min-height: 92px }}
.wide {{ grid-column: span 2 }} .all {{ grid-column: 1 / -1 }}
.card small {{ font-size: 12px; color: {theme.faint}; display: block }}
.card strong {{ font-size: 22px }} .badge {{ font-size: 11px; color: #fff; border-radius: 9px; padding: 1px 7px }}
img {{ width: 100%; height: 110px; object-fit: cover; display: block; margin-bottom: 6px }}
table {{ border-collapse: collapse; width: 100%; font-size: 12px }}
td, th {{ text-align: left; padding: 3px 8px; border-bottom: 1px solid {theme.rule} }}
th {{ color: {theme.faint}; font-weight: normal }}
tr:nth-child(4n) td {{ background: {theme.ground} }} .bar {{ display: inline-block; height: 8px; border-radius: 4px }}"""


def _words(chosen: random.Random, count: int) -> str:
    return " ".join(chosen.sample(WORDS, count)).capitalize()


def _figure(chosen: random.Random) -> str:
    return f"{chosen.randint(1, 98)},{chosen.randint(100, 999)}"


def _badge(theme: Theme, chosen: random.Random) -> str:
    return f'<span class=badge style="background:{chosen.choice(theme.accents)}">{_words(chosen, 1)}</span>'


def _cards(theme: Theme, chosen: random.Random) -> str:
    cards = [
        f"<div class=card><small>{_words(chosen, 2)}</small><strong>{_figure(chosen)}</strong><br>{_badge(theme, chosen)}"
        f"<small>{_words(chosen, 3)} since Monday</small></div>"
        for _ in range(4)
    ]
    cards.append(f"<div class='card wide'><small>{_words(chosen, 2)}</small>{_line_chart(theme, chosen)}</div>")
    cards.append(f"<div class='card wide'><small>{_words(chosen, 2)}</small>{_bar_chart(theme, chosen)}</div>")
    for name in chosen.sample(PHOTOS, 2):
        cards.append(
            f"<div class=card><img src='{_thumbnail(name)}'><b>{_words(chosen, 1)}</b><small>{_words(chosen, 3)}</small></div>"
        )
    cards.append(f"<div class='card wide'>{_rows(theme, chosen, 7)}</div>")
    return "".join(cards)


def _table(theme: Theme, chosen: random.Random) -> str:
    top = "".join(f"<div class=card><small>{_words(chosen, 2)}</small><strong>{_figure(chosen)}</strong></div>" for _ in range(4))
    return f"{top}<div class='card all'>{_rows(theme, chosen, 24)}</div>"


def _rows(theme: Theme, chosen: random.Random, count: int) -> str:
    rows = [
        f"<tr><td>{_words(chosen, 2)}<td>{_figure(chosen)}<td>{_badge(theme, chosen)}<td>"
        f'<span class=bar style="width:{chosen.randint(8, 90)}px;background:{chosen.choice(theme.accents)}"></span>'
        for _ in range(count)
    ]
    return f"<table><tr><th>{_words(chosen, 1)}<th>{_words(chosen, 1)}<th>{_words(chosen, 1)}<th>Share{''.join(rows)}</table>"


def _line_chart(theme: Theme, chosen: random.Random) -> str:
    lines = []
    for colour in theme.accents[:2]:
        height = 40.0
        points = []
        for x in range(0, 341, 20):
            height = min(max(height + chosen.uniform(-16, 16), 6), 82)
            points.append(f"{x},{height:.1f}")
        lines.append(f"<polyline points='{' '.join(points)}' fill=none stroke='{colour}' stroke-width=2 />")
    rules = "".join(f"<path d='M0 {y}.5H340' stroke='{theme.rule}' />" for y in range(10, 90, 20))
    return f"<svg width=340 height=90>{rules}{''.join(lines)}</svg>"


def _bar_chart(theme: Theme, chosen: random.Random) -> str:
    bars = []
    for k in range(12):
        height = chosen.randint(10, 80)
        bars.append(f"<rect x={k * 28 + 4} y={86 - height} width=18 height={height} rx=3 fill='{theme.accents[k % 4]}' />")
    return f"<svg width=340 height=90>{''.join(bars)}</svg>"


def _thumbnail(name: str) -> str:
    """A photo of scikit-image, as PNG in the text of the page."""
    from skimage import data

    picture = Image.fromarray(np.asarray(getattr(data, name)())[..., :3]).resize((420, 280), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()

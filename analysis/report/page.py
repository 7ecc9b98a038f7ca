"""The page: parts with text, tables, pictures and timelines, rendered to one HTML file.

Everything is inside the file, plotly's own JavaScript too, and its Content-Security-Policy forbids
the browser to fetch anything. The template escapes all text. Equal parts give equal bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs


@dataclass(frozen=True)
class Table:
    """A table; rows are as wide as ``columns``. ``folded``: shown when the reader opens it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False
    numbers: Sequence[int] = ()  # columns that are aligned to the right


@dataclass(frozen=True)
class Picture:
    """A drawn picture as PNG, and what it shows, for whoever cannot see it."""

    png: bytes
    text: str

    @property
    def source(self) -> str:
        """The picture as a data URI."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class TimedRow:
    """A row of what a timeline shows: when it begins, in seconds, and its cells."""

    seconds: float
    is_mark: bool
    cells: Sequence[str]


@dataclass(frozen=True)
class Timeline:
    """An interactive timeline: plotly's JSON, the picture for print, and all that it shows."""

    figure: str
    height: int
    fallback: Picture
    columns: Sequence[str]
    rows: Sequence[TimedRow]
    lags: Table
    note: str


@dataclass(frozen=True)
class Text:
    """Lines of text under a heading, as the terminal shows them."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Part:
    """A part of the page; ``key`` is its place in links. What it has not is empty."""

    key: str
    title: str
    lead: str = ""
    verdict: str = ""  # pass | expected | fail | crash
    facts: Mapping[str, str] = field(default_factory=dict)
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    timeline: Timeline | None = None
    beside: Sequence[Text] = ()


def render(title: str, lead: str, parts: Sequence[Part]) -> str:
    """Return the page as HTML."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    own = files(__package__)
    template = environment.from_string((own / "page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title, lead=lead, parts=parts,
        interactive=any(part.timeline for part in parts),
        style=Markup((own / "page.css").read_text(encoding="utf-8")),
        script=Markup((own / "page.js").read_text(encoding="utf-8")),
        plotly=Markup(get_plotlyjs()),
        as_json=lambda text: Markup(text.replace("<", "\\u003c")),
    )  # fmt: skip

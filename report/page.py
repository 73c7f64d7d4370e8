"""Makes the HTML page of an experiment from its tables alone, whose rows are `tables.Row`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from report.claims import Judgement
from report.html_parts import claims_html, document, environment_html, kinds_html, mark_html, picture_html, table_html
from report.pictures import Picture
from report.tables import NOT_COMPARABLE, Row, Source

# The CSS class of the mark of each validity.
MARKS = {"valid": "good", "suspect": "doubt", NOT_COMPARABLE: "doubt", "invalid": "bad"}


@dataclass(frozen=True)
class Layout:
    """The texts and columns by which the page of one experiment differs from other pages."""

    title: str
    lead: str  # HTML; says what a row is and what counts
    claims_note: str  # HTML above the table of claims
    first: str  # head of the first column
    name: Callable[[Row], str]  # the text of a row in the first column
    # The heads of the columns of numbers in the rows' table, by the name of the column in the file.
    # A column in which every row is empty or 0 is left out.
    columns: dict[str, str]
    with_interval: tuple[str, ...] = ()  # names of the columns that show their 95 % interval
    # Further sections for each source: title, HTML.
    more: Callable[[Source], list[tuple[str, str]]] = lambda _: []


def render(
    layout: Layout,
    sources: list[Source],
    pictures: list[Picture],
    judged: dict[str, list[Judgement]],
    published: Source | None,
) -> str:
    """Return the page as HTML.

    `judged` has the judgements by the label of their source. `published` is the published table,
    whose rows follow those of the sources; it is None if one of the sources is published.
    """
    sections = [
        ("Pictures", "".join(picture_html(picture) for picture in pictures)),
        ("Published claims", claims_html(judged, layout.claims_note)),
    ]
    more: dict[str, str] = {}
    for source in sources:
        for title, html in layout.more(source):
            more[title] = more.get(title, "") + html
    sections += more.items()
    sections.append(
        ("Rows", "".join(_rows(layout, source) for source in [*sources, *([published] if published else [])]))
    )
    sections.append(("Environment", "".join(environment_html(source) for source in sources)))
    return document(layout.title, f"{layout.lead} {kinds_html(sources)}.", sections)


def _rows(layout: Layout, source: Source) -> str:
    used = [name for name in layout.columns if any(row.get(name) for row in source.rows)]
    rows = [
        (
            escape(layout.name(row)),
            *(number_text(row, name, name in layout.with_interval) for name in used),
            mark_html(MARKS.get(row.validity, "none"), row.validity),
            f"<td class=text>{escape(row.reason)}</td>",
        )
        for row in source.rows
    ]
    heads = (layout.first, *(layout.columns[name] for name in used), "Validity", "Reason")
    return table_html(f"All rows of {escape(source.label)}", heads, rows)


def number_text(row: Row, name: str, with_interval: bool = False) -> str:
    """Return the number of a row, with its interval if it has one; "" if it has no such number."""
    if row.get(name) is None:
        return ""
    if with_interval and f"{name}_low" in row.values:
        low, middle, high = (digits(value) for value in row.interval(name))
        return f"{middle} [{low}, {high}]"
    return digits(row.values[name])


def digits(value: float) -> str:
    """Format a whole number, or a value from 1000 on, as an integer; else to three digits."""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"

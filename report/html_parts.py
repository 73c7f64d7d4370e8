"""Parts of a page: document, pictures, tables, verdicts and environment; nothing is external."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

from report import pictures
from report.claims import CONTRADICTED, SUPPORTED, Finding, Judgement
from report.tables import Source

STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
# Colours of the pictures and the CSS properties that replace them, which page.css sets for the
# light and the dark scheme.
THEME = {
    pictures.INK: "ink",
    pictures.MUTED: "muted",
    pictures.GRID: "line",
    pictures.PAPER: "paper",
    pictures.BLUE: "blue",
    pictures.ORANGE: "orange",
}
# Heads of columns that hold text begin with one of these.
TEXT = ("Published sentence", "By ", "Reason", "Note", "Winner")
VERDICT_MARKS = {SUPPORTED: "good", CONTRADICTED: "bad"}


def document(title: str, lead: str, sections: list[tuple[str, str]]) -> str:
    """Return the whole page; `lead` and the bodies of the sections are HTML."""
    links = "".join(f'<li><a href="#{_anchor(name)}">{name}</a></li>' for name, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{_anchor(name)}"><h2 id="{_anchor(name)}">{name}</h2>{text}</section>'
        for name, text in sections
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        'content="light dark">'
        f"<style>{STYLE}</style></head>\n<body><header><h1>{title}</h1><p>{lead}</p>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main>{body}</main></body></html>\n'
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def picture_html(picture: pictures.Picture) -> str:
    svg = picture.svg.read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :]
    # The page has several pictures: make their ids unique.
    svg = re.sub(r'\bid="', f'id="{picture.name}-', svg)
    svg = re.sub(r'(xlink:href="|url\()#', rf"\1#{picture.name}-", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r' width="[^"]*pt"| height="[^"]*pt"', "", svg, count=2)
    for colour, name in THEME.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(picture.description)}" ', 1)
    return f'<figure id="{picture.name}">{svg}</figure>'


def table_html(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table as HTML.

    Cells are HTML; a cell that needs a class is a whole <td>. The first cell of a row is its
    header.
    """
    head = "".join(f'<th scope="col"{" class=text" if name.startswith(TEXT) else ""}>{name}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{first}</th>'
        + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table><caption>{caption}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def mark_html(kind: str, text: str) -> str:
    return f'<span class="mark {kind}">{escape(text)}</span>'


def finding_html(finding: Finding) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in finding.evidence)
    rows = f"<details><summary>{len(finding.evidence)} rows</summary><ul>{lines}</ul></details>" if lines else ""
    return f"{mark_html(VERDICT_MARKS.get(finding.verdict, 'none'), finding.verdict)} {escape(finding.because)}.{rows}"


def claims_html(judged: dict[str, list[Judgement]], note: str, more: Callable[[Judgement], str] = lambda _: "") -> str:
    """Return a table of all claims with their verdicts by source; `more` follows a finding."""
    rows = [
        (
            escape(judgements[0].claim.id),
            f"<td class=text>{escape(judgements[0].claim.sentence)}</td>",
            *(f"<td class=text>{finding_html(judgement.finding)}{more(judgement)}</td>" for judgement in judgements),
        )
        for judgements in zip(*judged.values(), strict=True)
    ]
    heads = ("Claim", "Published sentence", *(f"By {escape(label)}" for label in judged))
    return f"<p>{note}</p>" + table_html("Claims and verdicts", heads, rows)


def environment_html(source: Source) -> str:
    if source.published:
        return f"<p>{escape(source.label)}: the published table names no device, MTU, CPU or kernel.</p>"
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in source.environment.items())
    items = items or "<dd>The file has no environment block.</dd>"
    return f"<h3>{escape(source.label)} <small>{escape(source.device_text)}</small></h3><dl>{items}</dl>"


def kinds_html(sources: list[Source]) -> str:
    """Return the device of each source, for the first lines of a page."""
    return "; ".join(f"<strong>{escape(source.label)}</strong>: {escape(source.device_text)}" for source in sources)

"""What several parts of a page have in common."""

from collections.abc import Iterable, Sequence

from controlplane.core.safe_text import count
from replay.findings import Severity
from replay.report.html import Content, Html, el

VERDICT_WORDS = ("compatible", "needs preparation", "unsafe")
VERDICT_SIGNS = ("✓", "!", "✗")
"""By verdict."""


def badge(severity: Severity) -> Html:
    """How bad it is."""
    return el("span", severity.value, class_=f"badge {severity.value}")


def state(name: str | None) -> Html:
    """A state as a coloured word."""
    return el("span", name or "–", class_=f"state s-{name}" if name else "state none")


def verdict(number: int, *, words: bool = False) -> Html:
    """A verdict as a sign, or in words."""
    text = VERDICT_WORDS[number] if words else VERDICT_SIGNS[number]
    return el("span", text, class_=f"verdict v{number}", title=VERDICT_WORDS[number])


def table(heads: Sequence[Content], rows: Iterable[Sequence[Content]], class_: str = "") -> Html:
    """A table that scrolls by itself where it is too wide. Cells know their column's name."""
    names = [head if isinstance(head, str) else "" for head in heads]
    head = el("thead", el("tr", [el("th", one, scope="col") for one in heads]))
    body = el("tbody", [_row(names, row) for row in rows])
    return el("div", el("table", head, body, class_=class_ or None), class_="scroll")


def _row(names: Sequence[str], cells: Sequence[Content]) -> Html:
    pairs = zip(names, cells, strict=True)
    return el("tr", [el("td", cell, data_label=name or None) for name, cell in pairs])


def more(number: int, what: str, command: str) -> Html | None:
    """What a page leaves out, and who tells it."""
    if not number:
        return None
    return el(
        "p",
        f"… and {count(number, what)} more: ",
        el("code", command),
        " tells all.",
        class_="more",
    )


def tile(what: str, number: Content, href: str, class_: str = "") -> Html:
    """A number that leads to what it is about."""
    shown = el("strong", number), el("span", what)
    return el("a", shown, href=href, class_=f"tile {class_}".strip())

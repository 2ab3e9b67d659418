"""Elements that several sections share."""

from collections.abc import Container, Iterable, Sequence

from controlplane.core.text.safe_text import count
from controlplane.page.html import Html, HtmlContent, el
from replay.findings import Severity

VERDICT_WORDS = ("compatible", "needs preparation", "unsafe")
VERDICT_SIGNS = ("✓", "!", "✗")
"""Sign of each verdict."""


def badge(severity: Severity) -> Html:
    """Badge with the word and the colour of a severity."""
    return el("span", severity.value, class_=f"badge {severity.value}")


def state(name: str | None) -> Html:
    """State as a coloured word; a dash for None."""
    return el("span", name or "–", class_=f"state s-{name}" if name else "state none")


def verdict(number: int, *, words: bool = False) -> Html:
    """Verdict as a sign or in words."""
    text = VERDICT_WORDS[number] if words else VERDICT_SIGNS[number]
    return el("span", text, class_=f"verdict v{number}", title=VERDICT_WORDS[number])


def table(
    heads: Sequence[HtmlContent],
    rows: Iterable[Sequence[HtmlContent]],
    class_: str = "",
    numbers: Container[str] = (),
) -> Html:
    """Table that scrolls if it is too wide; cells carry their column's name.

    Columns of numbers are right-aligned.
    """
    names = [head if isinstance(head, str) else "" for head in heads]
    kinds = [(name or None, "n" if name and name in numbers else None) for name in names]
    titles = zip(heads, kinds, strict=True)
    head = el("tr", [el("th", title, scope="col", class_=kind) for title, (_, kind) in titles])
    body = el("tbody", [_row(kinds, row) for row in rows])
    whole = el("table", el("thead", head), body, class_=class_ or None)
    return el("div", whole, class_="scroll", tabindex="0")


def _row(kinds: Iterable[tuple[str | None, str | None]], cells: Iterable[HtmlContent]) -> Html:
    pairs = zip(cells, kinds, strict=True)
    return el("tr", [el("td", cell, data_label=name, class_=kind) for cell, (name, kind) in pairs])


def omitted_note(number: int, what: str, command: str) -> Html | None:
    """Number of omitted items, and the command that lists them."""
    if not number:
        return None
    return el(
        "p",
        f"… and {count(number, f'more {what}')}: ",
        el("code", command),
        " lists all.",
        class_="more",
    )


def tile(what: str, number: HtmlContent, href: str, class_: str = "") -> Html:
    """Tile with a number and its label, linked to the details at `href`."""
    shown = el("strong", number), el("span", what)
    return el("a", shown, href=href, class_=f"tile {class_}".strip())

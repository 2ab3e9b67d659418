"""Where a page shows a record: whatever names one leads there."""

from collections.abc import Sequence
from typing import NamedTuple

from replay.report.facts import Looked
from replay.report.html import Content, Html, el


class Index(NamedTuple):
    """The records of one cluster that a page shows, each with its anchor."""

    number: int
    """Of the cluster."""
    rows: dict[str, int]

    @classmethod
    def of(cls, number: int, looked: Looked) -> "Index":
        """The index of a cluster."""
        return cls(number, {one.place: row for row, one in enumerate(looked.evidence)})

    def anchor(self, place: str) -> str | None:
        """What a record is called in this page; None: it is not shown."""
        row = self.rows.get(place)
        return None if row is None else f"c{self.number}r{row}"

    def part(self, name: str) -> str:
        """What a part of the page about the cluster is called."""
        return f"c{self.number}-{name}"

    def card(self, row: int, kind: str = "") -> str:
        """What a connector's picture is called, or the records of one kind beneath it."""
        return f"c{self.number}k{row}" + (f"-{kind}" if kind else "")

    def finding(self, part: str, row: int) -> str:
        """What a finding of a part is called."""
        return f"c{self.number}-{part}-{row}"

    def change(self, goal: str, row: int | None = None) -> str:
        """What a change of release is called, or what it does to one connector."""
        name = f"c{self.number}v{goal.replace('.', '-')}"
        return name if row is None else f"{name}k{row}"

    def link(self, place: str | None, *content: Content, class_: str | None = None) -> Html:
        """Something that leads to its record, if that is shown."""
        anchor = None if place is None else self.anchor(place)
        if anchor is None:
            return el("span", content, class_=class_)
        return el("a", content, href=f"#{anchor}", class_=class_)

    def drawn(self, place: str, picture: Html) -> Html:
        """The same within a picture."""
        anchor = self.anchor(place)
        return picture if anchor is None else el("a", picture, href=f"#{anchor}")

    def chips(self, places: Sequence[str]) -> list[Html]:
        """The places themselves, each leading to its record."""
        return [self.link(place, place, class_="chip") for place in places]

    def number_of(self, number: int, place: str | None) -> Html:
        """A number that leads to the last record that it counts."""
        return self.link(place, f"{number:,}", class_="number" if number else "number zero")

"""Index of the shown records: links from every mention to the record."""

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.page.html import Html, HtmlContent, el
from replay.report.page_facts import ClusterFacts


class RecordIndex(NamedTuple):
    """Shown records of one cluster, each with its anchor."""

    number: int
    """Number of the cluster."""
    rows: dict[str, int]

    @classmethod
    def of(cls, number: int, cluster_facts: ClusterFacts) -> "RecordIndex":
        """Create the index of a cluster."""
        return cls(number, {record.place: row for row, record in enumerate(cluster_facts.evidence)})

    def anchor(self, place: str) -> str | None:
        """Anchor of a record; None if it is not shown."""
        row = self.rows.get(place)
        return None if row is None else f"c{self.number}r{row}"

    def part(self, name: str) -> str:
        """Anchor of a part of the page about the cluster."""
        return f"c{self.number}-{name}"

    def card(self, row: int, kind: str = "") -> str:
        """Anchor of a connector's card, or of its records of one kind."""
        return f"c{self.number}k{row}" + (f"-{kind}" if kind else "")

    def finding(self, part: str, row: int) -> str:
        """Anchor of a finding: the row of a part of the page."""
        return f"c{self.number}-{part}-{row}"

    def change(self, goal: str, row: int | None = None) -> str:
        """Anchor of a release change, or of its effect on one connector."""
        name = f"c{self.number}v{goal.replace('.', '-')}"
        return name if row is None else f"{name}k{row}"

    def link(self, place: str | None, *content: HtmlContent, class_: str | None = None) -> Html:
        """Content linked to a record, if the record is shown."""
        anchor = None if place is None else self.anchor(place)
        if anchor is None:
            return el("span", content, class_=class_)
        return el("a", content, href=f"#{anchor}", class_=class_)

    def linked_picture(self, place: str, picture: Html) -> Html:
        """SVG element linked to a record, if the record is shown."""
        anchor = self.anchor(place)
        return picture if anchor is None else el("a", picture, href=f"#{anchor}")

    def chips(self, places: Sequence[str]) -> list[Html]:
        """Places, each linked to its record."""
        return [self.link(place, place, class_="chip") for place in places]

    def number_of(self, number: int, place: str | None) -> Html:
        """Number linked to the last record that it counts."""
        return self.link(place, f"{number:,}", class_="number" if number else "number zero")

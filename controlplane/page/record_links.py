"""Links from charts and tables to the records that a page shows."""

from typing import Protocol

from controlplane.page.html import Html, HtmlContent


class RecordLinks(Protocol):
    """Links to records; a record that the page does not show gets no link.

    A place is a record's position as text, such as `config@57`.
    """

    def link(self, place: str | None, *content: HtmlContent, class_: str | None = None) -> Html:
        """Content linked to the record at a place."""
        ...

    def linked_picture(self, place: str, picture: Html) -> Html:
        """An SVG element linked to the record at a place."""
        ...

"""Parser and checks of report pages: a page is self-contained, and each link has a target."""

from collections import Counter
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import Any

import msgspec

VOID = {"meta"}
"""HTML elements of a report page that have no closing tag."""


class Element(msgspec.Struct):
    """Element with its content."""

    name: str
    attributes: dict[str, str | None]
    content: list[Any] = []

    @property
    def text(self) -> str:
        """All text within the element."""
        return "".join(part if isinstance(part, str) else part.text for part in self.content)

    def all(self, name: str, class_: str = "") -> Iterator["Element"]:
        """Yield the inner elements with this tag name and, if given, this class."""
        for part in self.content:
            if isinstance(part, Element):
                if part.name == name and (not class_ or class_ in part.classes):
                    yield part
                yield from part.all(name, class_)

    def every(self) -> Iterator["Element"]:
        """Yield every element within this one, in document order."""
        for part in self.content:
            if isinstance(part, Element):
                yield part
                yield from part.every()

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    def by_id(self, name: str) -> "Element":
        """Element with this id; fails unless there is exactly one."""
        (target,) = (element for element in self.every() if element.attributes.get("id") == name)
        return target


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        assert len(element.attributes) == len(attrs), f"{tag} has an attribute twice"
        self.open[-1].content.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].content.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def parsed(pieces: Iterable[str]) -> Element:
    """Root of the elements of a page; fails if one is not closed."""
    parser = _Parser()
    parser.feed("".join(pieces))
    parser.close()
    (root,) = parser.open
    return root


def read(pieces: Iterable[str]) -> Element:
    """Parse a page; fail if an element is not closed, a link has no target, or a file is loaded."""
    root = parsed(pieces)
    _check(root)
    return root


def unlinked_figures(element: Element) -> Iterator[Element]:
    """Yield numbers without a link to evidence, in tiles, tables and plots; 0 needs none.

    Sentences with a number outside of a link are yielded, too. The name of a command may replace
    the link if the page lacks the evidence.
    """
    is_number = element.name == "strong" or {"n", "number", "scale"} & set(element.classes)
    if element.name == "a" or element.attributes.get("data-label") == "partition":
        return
    if is_number and any(map(_is_figure, element.content)):
        yield element
    says = element.name == "summary" or {"more", "brief", "chips"} & set(element.classes)
    if says and any(map(_has_figure, element.content)) and not _names_a_command(element):
        yield element
    for part in element.content:
        if isinstance(part, Element):
            yield from unlinked_figures(part)


def _is_figure(content: Any) -> bool:
    return isinstance(content, str) and content.strip("0,. ").replace(",", "").isdigit()


def _has_figure(content: Any) -> bool:
    return isinstance(content, str) and any(map(str.isdigit, content))


def _names_a_command(element: Element) -> bool:
    return any(code.text.startswith("replay ") for code in element.all("code"))


def _check(page: Element) -> None:
    """Check that a page loads nothing and runs nothing, and that every link has a target."""
    every = list(page.every())
    assert not {element.name for element in every} & {
        "script",
        "iframe",
        "img",
        "link",
        "object",
        "form",
    }
    assert not [key for element in every for key in element.attributes if key.startswith("on")]
    assert not [
        element for element in every if {"src", "srcset", "style"} & element.attributes.keys()
    ]
    ids = Counter(element.attributes["id"] for element in every if "id" in element.attributes)
    assert set(ids.values()) <= {1}, [name for name, number in ids.items() if number > 1]
    links = [element.attributes["href"] for element in every if "href" in element.attributes]
    assert {link for link in links if link is None or link.removeprefix("#") not in ids} == set()
    policies = [element.attributes.get("content") or "" for element in page.all("meta")]
    assert any(policy.startswith("default-src 'none';") for policy in policies)
    (style,) = page.all("style")
    assert "url(" not in style.text
    assert "@import" not in style.text

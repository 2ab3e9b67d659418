"""HTML elements; every text is escaped.

Texts come from logs: control characters and direction marks are shown as escapes.
"""

from collections.abc import Iterable
from html import escape

from controlplane.core.text.safe_text import safe


class Html(str):
    """Text that is HTML already: `el` and `join` do not escape it again."""

    __slots__ = ()


HtmlContent = str | Iterable["HtmlContent"] | None
"""Content of an element: a text, an element, several of them, or nothing."""

_EMPTY = {"meta", "rect", "path", "line", "polyline", "circle", "wbr"}
"""Elements that may be empty; without content they have no end tag."""


def el(name: str, /, *content: HtmlContent, **attributes: str | float | bool | None) -> Html:
    """Create an element. `class_` is `class`, `view_box` is `viewBox`; None omits an attribute."""
    attribute_text = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY and not content:
        return Html(f"<{name}{attribute_text}/>")
    return Html(f"<{name}{attribute_text}>{join(content)}</{name}>")


def join(content: HtmlContent) -> Html:
    """Concatenate texts and elements; texts are escaped, None is empty."""
    if content is None:
        return Html()
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return Html(escape(safe(content)))
    return Html("".join(join(child) for child in content))


_NAMES = {"view_box": "viewBox", "preserve_aspect_ratio": "preserveAspectRatio"}


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = _NAMES.get(key, key.rstrip("_").replace("_", "-"))
    return f" {name}" if value is True else f' {name}="{escape(safe(str(value)))}"'

"""Paths of a worker's REST API."""

from urllib.parse import quote


def connector_path(name: str, *parts: str) -> str:
    """Path of a connector, or of a part of it; the name is quoted whole.

    A name of dots alone is quoted as well: an HTTP client would take it for a step upwards.

    Raises:
        UnicodeEncodeError: the name holds half of a surrogate pair, so no URL can hold it.
    """
    quoted = name.replace(".", "%2E") if not name.strip(".") else quote(name, safe="")
    return "/".join(["/connectors", quoted, *parts])

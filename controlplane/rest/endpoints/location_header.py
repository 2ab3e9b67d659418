"""`Location` header of an answer to a creation.

Releases build it by JAX-RS: `UriBuilder.fromUri("/connectors").path(name)`. That keeps slashes,
escapes and all else that a path allows, and takes braces for a template.
"""

import re
from urllib.parse import quote

from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import Failed

_BASE = "/connectors/"

_KEPT = "/:@!$&'()*+,;=-._~{}"
"""Characters beside letters and digits that JAX-RS leaves unescaped."""

_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")
_TEMPLATE = re.compile(r"\{([^{}]*)\}")


def location_of(name: str, profile: Profile) -> str:
    """Return the path of a connector, relative to the service's address.

    Raises:
        Failed: a release cannot build the address of this name; the connector exists all the same.
    """
    if not profile.rest_location_verbatim:
        return _BASE + quote(name, safe="", errors="surrogatepass")
    path = _BASE + _encoded(name)
    variable = _TEMPLATE.search(path)
    if variable is not None:
        raise Failed(f"The template variable '{variable[1].strip()}' has no value")
    if "{" in path:
        raise Failed(
            f'Invalid syntax in the template "{path}". '
            'Check if a path parameter is terminated with a "}".'
        )
    if "}" in path:
        at = path.index("}")
        raise Failed(
            f"java.net.URISyntaxException: Illegal character in path at index {at}: {path}"
        )
    return path


def _encoded(name: str) -> str:
    """Escape everything in a name that is neither allowed in a path nor an escape."""
    parts, behind = [], 0
    for escape in _ESCAPE.finditer(name):
        parts += [_quoted(name[behind : escape.start()]), escape[0]]
        behind = escape.end()
    return "".join([*parts, _quoted(name[behind:])])


def _quoted(text: str) -> str:
    return quote(text, safe=_KEPT, errors="surrogatepass")

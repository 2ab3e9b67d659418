"""Error pages for requests that the HTTP server or Jersey refuses before Connect gets them.

Releases up to 3.9 run on Jetty 9. It answers a bad request line tersely; requests that Jersey
refuses get Jetty's error page. Jetty 12, from 4.0 on, writes its page in both cases. Both write a
page only for the methods `PAGED`, except for a bad request line.
"""

from collections.abc import Mapping
from html import escape
from types import MappingProxyType

from controlplane.core.releases.bundled_libraries import ErrorPageStyle
from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import (
    BAD_REQUEST,
    HEADERS_TOO_LARGE,
    HTML,
    NO_STORE,
    NOT_FOUND,
    URI_TOO_LONG,
    Answer,
    NoSuchPath,
    RestError,
)

PAGED = ("GET", "HEAD", "POST")
"""Methods for which Jetty writes a page."""

BAD_URI = "/badURI"
BAD_MESSAGE = "/badMessage"
"""URIs on Jetty 12's pages for a refused path (`BAD_URI`) and for a bad request line."""


class ServerRefusal(RestError):
    """A request that the server of a release refuses before Connect sees it.

    `uri` is the URI on the error page; with `based` it is relative to the service's address.
    """

    status = BAD_REQUEST
    servlet = "org.glassfish.jersey.servlet.ServletContainer-0"
    """Servlet on the pages of Jetty 9; the hash after the dash has no meaning."""

    def __init__(
        self, profile: Profile, reason: str = "Bad Request", uri: str = "", *, based: bool = False
    ) -> None:
        super().__init__(reason)
        self.profile = profile
        self.uri = uri
        self.based = based

    def answer(self) -> Answer:
        """Return the answer to a `GET`."""
        return self.paged("GET", "")

    def paged(self, method: str, base: str) -> Answer:
        """Return the server's page; `base` is the address of the service."""
        if method in PAGED or self.uri == BAD_MESSAGE:
            return Answer(self.status, self._page(base), HTML, NO_STORE)
        twelve = self.profile.rest_server == "jetty 12"
        return Answer(self.status, "", None, NO_STORE if twelve else {})

    def _page(self, base: str) -> str:
        jetty = self.profile.jetty
        return _PAGES[jetty.page].format(
            status=self.status,
            reason=escape(str(self)),
            uri=escape(base * self.based + self.uri, quote=False),
            servlet=self.servlet,
            home=jetty.home,
            version=jetty.version,
        )


class UnreadableRequest(ServerRefusal):
    """Jersey on Jetty 9 cannot read the path or the media type."""

    def __init__(self, profile: Profile, path: str) -> None:
        super().__init__(profile, uri=path)


class BadTarget(ServerRefusal):
    """Jetty 12 refuses the target, mostly for its path; or Jersey cannot read the media type."""


class ServerTarget(ServerRefusal):
    """The target `*`, which addresses the whole server: no release supports it."""

    servlet = "-"

    def paged(self, method: str, base: str) -> Answer:
        """Return a page, or the server's general answer to `OPTIONS`."""
        if method != "OPTIONS":
            return super().paged(method, base)
        if self.profile.rest_server == "jetty 12":
            return Answer(NOT_FOUND, "", None, NO_STORE)
        return NoSuchPath().answer()


class BadAccept(ServerRefusal):
    """Jersey cannot read the header `Accept`, and therefore selects no type for a page."""

    def paged(self, *_: str) -> Answer:
        """Return an answer without a page."""
        return Answer(self.status, "", None, NO_STORE)


class BadMessage(ServerRefusal):
    """Jetty cannot read the request line. Jetty 9 answers any method with one line of HTML."""

    def __init__(self, profile: Profile, reason: str = "Bad Request") -> None:
        super().__init__(profile, reason, BAD_MESSAGE)

    def paged(self, method: str, base: str) -> Answer:
        """Return one line, or the page of Jetty 12."""
        if self.profile.rest_server == "jetty 12":
            return super().paged(method, base)
        page = f"<h1>Bad Message {self.status}</h1><pre>reason: {self}</pre>"
        return Answer(self.status, page, HTML)


_REASONS: Mapping[int, str] = MappingProxyType(
    {URI_TOO_LONG: "URI Too Long", HEADERS_TOO_LARGE: "Request Header Fields Too Large"}
)


class TooLongForServer(BadMessage):
    """Target or headers exceed the server's limit; it then closes the connection."""

    def __init__(self, profile: Profile, status: int, path: str) -> None:
        super().__init__(profile, _REASONS[status])
        self.status = status
        if status == HEADERS_TOO_LARGE:
            self.uri = path

    def paged(self, method: str, base: str) -> Answer:
        """Return the page, and close the connection."""
        page = super().paged(method, base)
        return page._replace(headers={**page.headers, "connection": "close"})


_HEAD = """<html>
<head>
<meta http-equiv="Content-Type" content="text/html;charset={charset}"/>
<title>Error {{status}} {{reason}}</title>
</head>
"""
_ROWS = """<h2>HTTP ERROR {status} {reason}</h2>
<table>
<tr><th>URI:</th><td>{uri}</td></tr>
<tr><th>STATUS:</th><td>{status}</td></tr>
<tr><th>MESSAGE:</th><td>{reason}</td></tr>
"""
_SERVLET = "<tr><th>SERVLET:</th><td>{servlet}</td></tr>\n"
_PROBLEM = """<h2>HTTP ERROR {status}</h2>
<p>Problem accessing {uri}. Reason:
<pre>    {reason}</pre></p>"""
_FOOT = """<a href="{home}">Powered by Jetty:// {version}</a><hr/>

</body>
</html>
"""
_OLD = _HEAD.format(charset="utf-8")
_NEW = _HEAD.format(charset="ISO-8859-1")

_PAGES: Mapping[ErrorPageStyle, str] = MappingProxyType(
    {
        "problem": f"{_OLD}<body>{_PROBLEM}<hr>{_FOOT}",
        "old table": f"{_OLD}<body>{_ROWS}{_SERVLET}</table>\n<hr>{_FOOT}",
        "table": f"{_NEW}<body>{_ROWS}{_SERVLET}</table>\n<hr/>{_FOOT}",
        "table of 12": f"{_NEW}<body>\n{_ROWS}</table>\n<hr/>{_FOOT}",
    }
)

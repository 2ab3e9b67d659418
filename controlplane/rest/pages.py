"""Pages about requests that no resource gets to see: the HTTP server or Jersey cannot read them.

Releases up to 3.9 run on Jetty 9.4, which is terse about a request line; whatever Jersey gives up
on gets its page for errors. What Jetty 12 refuses besides is `errors.BadTarget`.
"""

from html import escape

from controlplane.rest.errors import BAD_REQUEST, HTML, NOT_KEPT, Answer, RestError


class BadMessage(RestError):
    """Jetty cannot read the target."""

    status = BAD_REQUEST

    def __init__(self) -> None:
        super().__init__("Bad Request")

    def answer(self) -> Answer:
        """One line, kept by whoever wants to."""
        page = f"<h1>Bad Message {self.status}</h1><pre>reason: {self}</pre>"
        return Answer(self.status, page, HTML)


class Unreadable(RestError):
    """Jersey cannot read the path, or what the body is said to be."""

    status = BAD_REQUEST

    def __init__(self, path: str) -> None:
        super().__init__("Bad Request")
        self.path = path

    def answer(self) -> Answer:
        """Jetty's page for errors."""
        page = _PAGE.format(status=self.status, reason=self, path=escape(self.path, quote=False))
        return Answer(self.status, page, HTML, NOT_KEPT)


_PAGE = """<html>
<head>
<meta http-equiv="Content-Type" content="text/html;charset=ISO-8859-1"/>
<title>Error {status} {reason}</title>
</head>
<body><h2>HTTP ERROR {status} {reason}</h2>
<table>
<tr><th>URI:</th><td>{path}</td></tr>
<tr><th>STATUS:</th><td>{status}</td></tr>
<tr><th>MESSAGE:</th><td>{reason}</td></tr>
<tr><th>SERVLET:</th><td>org.glassfish.jersey.servlet.ServletContainer-0</td></tr>
</table>
<hr/><a href="https://jetty.org/">Powered by Jetty:// 9.4.57.v20241219</a><hr/>

</body>
</html>
"""

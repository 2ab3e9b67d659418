"""Libraries in each release: Jetty (version, error pages, refusals), Jackson (positions in errors).

Evidence: the POMs of `connect-runtime`, and answers of workers of every minor release
(`tests/rest/releases/`).
"""

from typing import Final, Literal, NamedTuple

ErrorPageStyle = Literal["problem", "old table", "table", "table of 12"]
"""Forms of Jetty's error page."""


class Jetty(NamedTuple):
    """One version of Jetty. Fields with a default are about request targets, in Jetty 9 only."""

    version: str
    page: ErrorPageStyle
    home: str
    """Address of the Jetty project in the error page."""
    takes_nul: bool = False
    """True if a path may contain `%00`."""
    path_parameters: str | None = "Ambiguous path parameters"
    """Error for a path with `/..;/`; None: such a path is accepted."""
    above_root: str = "Bad Request"
    """Error for a path that leaves the root by `..`."""
    relative: str = "Bad Request"
    """Error for a path that does not begin with a slash."""
    takes_user: bool = True
    """True if an absolute target may contain a user name."""


_HTTP: Final = "http://eclipse.org/jetty"
_ECLIPSE: Final = "https://eclipse.org/jetty"
_OWN: Final = "https://jetty.org/"


def _oldest(version: str, page: ErrorPageStyle) -> Jetty:
    """Jetty up to 9.4.24."""
    return Jetty(version, page, _HTTP, True, None, "Bad URI", "Bad URI")


def _nine(version: str, home: str = _ECLIPSE, *, takes_user: bool = True) -> Jetty:
    """Jetty 9 from 9.4.44 on."""
    return Jetty(version, "table", home, takes_user=takes_user)


_9_4_24: Final = _oldest("9.4.24.v20191120", "old table")
_9_4_33: Final = _9_4_24._replace(version="9.4.33.v20201020", home=_ECLIPSE)
_9_4_38: Final = _9_4_33._replace(
    version="9.4.38.v20210224", path_parameters="Ambiguous path parameter in URI"
)
_9_4_39: Final = _9_4_38._replace(version="9.4.39.v20210325")
_9_4_43: Final = Jetty("9.4.43.v20210629", "old table", _ECLIPSE, relative="Bad URI")
_9_4_44: Final = _nine("9.4.44.v20210927")._replace(relative="Bad URI")
_9_4_48: Final = _nine("9.4.48.v20220622")
_12: Final = Jetty("12.0.15", "table of 12", _OWN)

SERVERS: Final[tuple[tuple[str, Jetty], ...]] = (
    ("0.9.0.0", _oldest("9.2.15.v20160210", "problem")),
    ("2.3.0", _oldest("9.4.18.v20190429", "problem")),
    ("2.4.0", _oldest("9.4.20.v20190813", "problem")),
    ("2.5.0", _9_4_24),
    ("2.6.1", _9_4_33),
    ("2.6.2", _9_4_38),
    ("2.6.3", _9_4_39),
    ("2.7.0", _9_4_33),
    ("2.7.1", _9_4_38),
    ("2.7.2", _9_4_43),
    ("2.8.0", _9_4_39),
    ("2.8.1", _9_4_43),
    ("2.8.2", _9_4_48),
    ("3.0.0", _9_4_43),
    ("3.0.1", _9_4_44),
    ("3.0.2", _9_4_48),
    ("3.1.0", _9_4_43),
    ("3.1.1", _9_4_44),
    ("3.1.2", _9_4_48),
    ("3.2.0", _9_4_44),
    ("3.2.2", _9_4_48),
    ("3.4.1", _nine("9.4.51.v20230217")),
    ("3.5.2", _nine("9.4.52.v20230823")),
    ("3.6.2", _nine("9.4.53.v20231009")),
    ("3.7.1", _nine("9.4.54.v20240208")),
    ("3.7.2", _nine("9.4.56.v20240826", _OWN)),
    ("3.8.0", _nine("9.4.54.v20240208")),
    ("3.8.1", _nine("9.4.56.v20240826", _OWN)),
    ("3.9.1", _nine("9.4.57.v20241219", _OWN, takes_user=False)),
    ("4.0.0", _12),
    ("4.0.2", _12._replace(version="12.0.25")),
    ("4.1.0", _12._replace(version="12.0.22")),
    ("4.1.2", _12._replace(version="12.0.25")),
    ("4.2.0", _12._replace(version="12.0.22")),
    ("4.2.1", _12._replace(version="12.0.34")),
)
"""(first Kafka release with the server, server), oldest first."""


class Jackson(NamedTuple):
    """One version of Jackson: the positions in its errors. In current versions no field is True."""

    points_at_token: bool = False
    """True if errors within a field point at the last token that was read."""
    counts_end_again: bool = False
    """True if Jackson adds a body's length to an error's column each time it meets the end."""


JACKSONS: Final[tuple[tuple[str, Jackson], ...]] = (
    ("0.9.0.0", Jackson(points_at_token=True, counts_end_again=True)),
    ("2.5.0", Jackson(points_at_token=True)),
    ("2.6.2", Jackson()),
)
"""(first Kafka release, library), oldest first.

The three rows are Jackson up to 2.10.0, Jackson up to 2.10.2, and later versions.
"""

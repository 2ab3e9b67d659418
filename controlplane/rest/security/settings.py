"""Every setting of who is let in (`auth.`) and of how much is taken at once (`http.`)."""

from typing import Annotated, Literal

import msgspec

from controlplane.settings.kinds import REFUSED

RoleName = Literal["view", "operate", "administer"]


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How people and programs prove who they are. Nothing told: whoever reaches us is let in."""

    password_file: Annotated[str | None, REFUSED] = None
    """Lines of `name:role:$scrypt$…`; asked for by basic authentication."""

    token_file: Annotated[str | None, REFUSED] = None
    """Lines of `name:role:` and the token's SHA-256 in hex; sent as `Authorization: Bearer`."""

    proxy_header: Annotated[str | None, REFUSED] = None
    """The header in which a proxy tells whom it has let in, e. g. `X-Forwarded-User`."""

    proxy_addresses: tuple[str, ...] = ()
    """Who is believed when he sends that header: addresses or networks of proxies. From all others
    it is not looked at."""

    proxy_role: RoleName = "view"
    """Of those whom a proxy lets in; the least, as it says nothing about them."""

    proxy_role_header: str | None = None
    """The header in which the proxy tells the role, where it knows one. None: it does not."""

    anonymous_role: Literal["none", "view", "operate", "administer"] = "none"
    """What those may do who say nothing of themselves, where others have to."""

    health_open: bool = True
    """Whether `/health` can be asked by anybody: orchestrators have no name, and it tells only
    whether this works."""

    metrics_open: bool = False
    """Whether `/metrics` can: they name the connectors. Prometheus sends either kind of proof."""

    @property
    def asks(self) -> bool:
        """Whether anybody has to say who he is."""
        return bool(self.password_file or self.token_file or self.proxy_header)


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the HTTP interface: what one client, and all together, may take of us."""

    body_max_bytes: int = 16_777_216
    """Of one request: Connect reads bodies of any size, but a record of more than 1 MiB fails at
    its producer; the offsets of many partitions in one request come to some MiB."""

    body_max_values: int = 50_000
    """Of one request, counted by commas and brackets: a bound on the work that it makes. The offset
    of one partition has six of them or seven, so there is room for 7,000 partitions."""

    head_max_bytes: int = 8_192
    """Of a request's target and headers together: that of Jetty, on which Connect runs."""

    head_patience_ms: int = 30_000
    """How long a request may take until its headers are there: as long as Jetty waits."""

    body_patience_ms: int = 30_000
    """How long its body may take from then on."""

    answer_patience_ms: int = 30_000
    """How long a part of an answer may wait until the client takes it."""

    idle_ms: int = 75_000
    """How long a connection may rest between two requests: longer than a scrape interval."""

    requests_max: int = 1_000
    """Answered at once; further ones are told 503. Each may hold a body and wait for the log."""

    watches_max: int = 10_000
    """Watching at once (`GET /watch`): each costs some kB and lasts for hours."""

    connections_max: int = 12_000
    """At once, idle ones included; further ones are told 503. Each is a file descriptor."""

    verifications_max: int = 2
    """Passwords that are verified at once, at 16 MiB and some 50 ms of a core each: somebody who
    guesses is slow, and takes no more than that."""

    verifications_waiting_max: int = 50
    """Passwords that wait to be verified, a second's work and some; further ones are told 503. Who
    has been let in before, or has a token, does not wait."""

    shutdown_ms: int = 1_000
    """How long answers under way may take once the service is to end."""

"""Settings of authentication (`auth.`): credential files, a trusted proxy, open paths."""

from typing import Annotated, Literal

import msgspec

from controlplane.settings.kinds import REFUSED

RoleName = Literal["view", "operate", "administer"]


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Authentication of callers. By default there is none: every client is admitted."""

    password_file: Annotated[str | None, REFUSED] = None
    """File of `name:role:$scrypt$…` lines for basic authentication."""

    token_file: Annotated[str | None, REFUSED] = None
    """File of `name:role:` and the token's SHA-256 in hex, for `Authorization: Bearer`."""

    proxy_header: Annotated[str | None, REFUSED] = None
    """Header in which a proxy names the authenticated caller, e. g. `X-Forwarded-User`."""

    proxy_addresses: tuple[str, ...] = ()
    """Addresses or networks of the trusted proxies. The header of any other sender is ignored."""

    proxy_role: RoleName = "view"
    """Role of callers from a proxy that sends no role; the default is the lowest."""

    proxy_role_header: str | None = None
    """Header in which the proxy sends the role. None: it sends none."""

    anonymous_role: Literal["none", "view", "operate", "administer"] = "none"
    """Role of callers without credentials, if authentication is configured."""

    health_open: bool = True
    """True if `/health` needs no authentication: orchestrators have no credentials, and the answer
    only shows whether the service works."""

    metrics_open: bool = False
    """True if `/metrics` needs no authentication. The metrics name the connectors. Prometheus can
    send a password or a token."""

    @property
    def is_configured(self) -> bool:
        """True if a password file, a token file or a proxy header is set."""
        return bool(self.password_file or self.token_file or self.proxy_header)

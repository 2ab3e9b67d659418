"""Where a worker's settings tell us to listen."""

import re
from typing import NamedTuple

from controlplane.settings.kinds import BadValue
from controlplane.settings.worker import WorkerSettings

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - only for who asks for it: a listener without a host


class Address(NamedTuple):
    """What to listen on; port 0 is any that is free."""

    host: str
    port: int


_URL = re.compile(
    r"(?P<scheme>\w+)://(\[(?P<ip>[^\]]*)\]|(?P<host>[^:/\[\]]*)):(?P<port>[0-9]{1,5})/?"
)


def listening(settings: WorkerSettings) -> Address:
    """The first listener that speaks plain HTTP; without any, this machine and `rest.port`.

    Raises:
        BadValue: none of the listeners does.
    """
    if not settings.listeners:
        return Address(settings.rest_host_name or LOOPBACK, settings.rest_port)
    for listener in settings.listeners:
        found = _URL.fullmatch(listener)
        if found and found["scheme"].lower() == "http":
            return Address(found["ip"] or found["host"] or EVERYWHERE, int(found["port"]))
    told = ",".join(settings.listeners)
    raise BadValue("listeners", f"is {told!r}: use http://host:port, TLS is not spoken here")

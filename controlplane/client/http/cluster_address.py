"""Address of a cluster and credentials, from flags and the environment; prints no secret."""

import base64
import re
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import click

from controlplane.core.text.file_errors import unreadable
from controlplane.terminal.command_errors import InputRefused

CLUSTER = "CONTROLPLANE_CLUSTER"
USER = "CONTROLPLANE_USER"
TOKEN = "CONTROLPLANE_TOKEN"  # noqa: S105 - a variable's name
CA_FILE = "CONTROLPLANE_CA_FILE"

USUAL = "http://localhost:8083"
"""Default URL of a worker."""

_LOGIN = re.compile(r"(?<=://)[^/?#@]*@")
_URL = re.compile(r"https?://", re.IGNORECASE)
_NO_SCHEME = re.compile(
    r"(?P<login>[^/@\s]*@)?(?P<place>([\w.-]+|\[[0-9a-f:.]+\]):\d{1,5}(/\S*)?)",
    re.ASCII | re.IGNORECASE,
)
_ONE_LINE = re.compile(r"[\x21-\x7e]+")


class ClusterAccess(Enum):
    """Access that a command needs to a log; a worker behind a URL decides for itself."""

    READ = "read"
    FOLLOW = "follow"
    """Read it, and go on as it grows."""
    PLAN = "plan"
    """Read it, and decide what would be written."""
    WRITE = "write"
    """Write it; it has to be there."""
    CREATE = "create"
    """Write it; a log that is not there is made."""


class ClusterAddress(NamedTuple):
    """Address of a cluster, and the credentials for it."""

    where: str = USUAL
    """The URL of a worker, or a log."""
    user: str | None = None
    token: str | None = None
    ca_file: Path | None = None

    @property
    def is_url(self) -> bool:
        """True for a worker's URL, False for a log."""
        return _URL.match(self.where) is not None

    def check_scheme(self) -> None:
        """Refuse a host and a port without a scheme, unless a file is called so.

        A worker listens there or a broker, encrypted or not: nobody is asked, and no log is made.

        Raises:
            InputRefused: it says how each is named.
        """
        found = _NO_SCHEME.fullmatch(self.where)
        if found is not None and not Path(self.where).exists():
            place = found["place"]
            raise InputRefused(
                f"{place} could be a worker or a broker: say http://{place} or https://{place} "
                f"for a worker of Connect, kafka://{place.partition('/')[0]} for the topics"
            )

    @property
    def shown(self) -> str:
        """Address without credentials, for messages."""
        return _LOGIN.sub("", self.where)

    def credentials(self) -> dict[str, str]:
        """The header that says who asks; none where nobody is named.

        Raises:
            InputRefused: there are two answers, or what is given cannot be sent.
        """
        if self.user is not None and self.token is not None:
            raise InputRefused("both --user and --token say who asks: give one of them")
        if self.user is not None:
            return {"authorization": f"Basic {_basic(self.user)}"}
        if self.token is not None:
            return {"authorization": f"Bearer {_bearer(self.token)}"}
        return {}


def _basic(user: str) -> str:
    name, told, password = user.partition(":")
    if not told:
        password = click.prompt(f"password of {name}", hide_input=True, err=True)
    return base64.b64encode(f"{name}:{password}".encode()).decode()


def _bearer(token: str) -> str:
    text = _read(token[1:]) if token.startswith("@") else token
    if _ONE_LINE.fullmatch(text.strip()) is None:
        raise InputRefused("the token is none: it is one word of ASCII; give it, or @FILE with it")
    return text.strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as failure:
        raise InputRefused(unreadable(path, failure)) from None
    except UnicodeDecodeError:
        raise InputRefused(f"{path} is no text: name a file with a token in it") from None

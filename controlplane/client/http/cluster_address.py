"""Address of a cluster and its credentials, from flags and the environment."""

import base64
import os
import re
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from controlplane.core.text.file_errors import unreadable
from controlplane.logs.names import LOG_FORMS, is_cluster, path_of, without_login
from controlplane.terminal import prompts
from controlplane.terminal.command_errors import InputRefused

CLUSTER = "CONTROLPLANE_CLUSTER"
USER = "CONTROLPLANE_USER"
TOKEN = "CONTROLPLANE_TOKEN"  # noqa: S105 - a variable's name
CA_FILE = "CONTROLPLANE_CA_FILE"

DEFAULT_URL = "http://localhost:8083"
"""Default URL of a worker."""

_LOGIN = re.compile(r"(?<=://)[^/?#]*@")
_BROKEN_LOGIN = re.compile(r"[^/]*://[^/?#]*[/?#].*@", re.DOTALL)
"""Pattern of a URL whose login contains `/`, `?` or `#`: the URL parser ends the login there."""
_URL = re.compile(r"https?://", re.IGNORECASE)
_SCHEMES = frozenset({"kafka", "sqlite"})
"""Schemes of logs."""
_NO_SCHEME = re.compile(
    r"(?P<login>[^/\s]*@)?(?P<place>([\w.-]+|\[[0-9a-f:.]+\]):\d{1,5}(/\S*)?)",
    re.ASCII | re.IGNORECASE,
)
_ONE_LINE = re.compile(r"[\x21-\x7e]+")


class ClusterAccess(Enum):
    """Access that a command needs to a log; it has no effect on a worker behind a URL."""

    READ = "read"
    FOLLOW = "follow"
    """Read it, and follow it as it grows."""
    PLAN = "plan"
    """Read it, and plan a change."""
    PLAN_AS_WRITER = "plan as writer"
    """Read it, and plan a change; like `WRITE`, refuse topics in Kafka and a log in use."""
    PLAN_CREATION = "plan creation"
    """Read it, and plan a change; a missing log is planned as an empty one."""
    WRITE = "write"
    """Write it; the log must exist."""
    CREATE = "create"
    """Write it; a missing log is created."""


class ClusterAddress(NamedTuple):
    """Address of a cluster, and the credentials for it."""

    where: str = DEFAULT_URL
    """The URL of a worker, or a log."""
    user: str | None = None
    token: str | None = None
    ca_file: Path | None = None

    @property
    def is_url(self) -> bool:
        """True for a worker's URL, False for a log."""
        return _URL.match(self.where) is not None

    def check_scheme(self) -> None:
        """Refuse `host:port` without a scheme, unless a file has that name.

        Such an address may be a worker or a broker. It must not become the name of a new log.

        Raises:
            InputRefused: the message has both forms.
        """
        match = _NO_SCHEME.fullmatch(self.where)
        if match is not None and not Path(self.where).exists():
            place = match["place"]
            raise InputRefused(
                f"{place} may be a worker or a broker: write http://{place} or https://{place} "
                f"for a worker, kafka://{place.partition('/')[0]} for the topics"
            )

    def check_known_scheme(self) -> None:
        """Refuse a scheme that neither workers nor logs have, such as a misspelt `htp://`.

        Raises:
            InputRefused: the message has all forms of an address.
        """
        scheme, separator, _ = self.where.partition("://")
        if separator and os.sep not in scheme and scheme not in _SCHEMES and not self.is_url:
            raise InputRefused(
                f"{self.without_login!r} names no worker and no log: give http://host:port or "
                f"https://host:port for a worker, or {LOG_FORMS} for a log"
            )

    @property
    def without_login(self) -> str:
        """Address for messages and journals, without the credentials that a URL may have."""
        return without_login(self.where)

    def url_error(self, failure: Exception) -> str:
        """Reason why the address is no URL, without its password; `failure` is httpx's error."""
        if _BROKEN_LOGIN.match(self.where) is None:
            return str(failure)
        return "write /, ? and # in a login as %2F, %3F and %23"

    def leads_to_same(self, other: "ClusterAddress") -> bool:
        """True if both addresses are one log or one URL, perhaps in two spellings.

        Two URLs of one worker may still differ, such as `localhost` and `127.0.0.1`.
        """
        if self.is_url or other.is_url or is_cluster(self.where) or is_cluster(other.where):
            return _url_identity(self.where) == _url_identity(other.where)
        path, other_path = path_of(self.where), path_of(other.where)
        if path == other_path:
            return True
        try:
            return path.samefile(other_path)
        except OSError:
            return False  # the one that is missing is reported when it is opened

    def with_password(self) -> "ClusterAddress":
        """Return this address with its password; prompt for a missing one.

        Call this once for several workers, and before a progress bar, which would hide the prompt.
        """
        if self.user is None or self.token is not None or ":" in self.user:
            return self
        password = prompts.password(f"password of {self.user}")
        return self._replace(user=f"{self.user}:{password}")

    def credentials(self) -> dict[str, str]:
        """Header for authentication; empty without credentials.

        Raises:
            InputRefused: both --user and --token are given, or a token is invalid.
        """
        if self.user is not None and self.token is not None:
            raise InputRefused("--user and --token exclude each other: give one of them")
        if self.user is not None:
            return {"authorization": f"Basic {_basic(self.with_password().user or '')}"}
        if self.token is not None:
            return {"authorization": f"Bearer {_bearer(self.token)}"}
        return {}


def _url_identity(where: str) -> str:
    """URL without login and trailing slashes; scheme and host in lower case."""
    scheme, separator, rest = _LOGIN.sub("", where).partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host}".lower() + f"{slash}{path}".rstrip("/")


def _basic(user: str) -> str:
    try:
        return base64.b64encode(user.encode()).decode()
    except UnicodeEncodeError:
        raise InputRefused("the user or password is no UTF-8: type it again") from None


def _bearer(token: str) -> str:
    text = _read(token[1:]) if token.startswith("@") else token
    if _ONE_LINE.fullmatch(text.strip()) is None:
        raise InputRefused("this is no token: give one word of ASCII, or @FILE with such a word")
    return text.strip()


def _read(path: str) -> str:
    try:
        with prompts.ended_by_ctrl_c():  # the file may be a pipe
            return Path(path).read_text("utf-8")
    except OSError as failure:
        raise InputRefused(unreadable(path, failure)) from None
    except UnicodeDecodeError:
        raise InputRefused(f"{path} is no text: name a file with a token in it") from None

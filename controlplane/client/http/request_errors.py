"""Errors of commands about a cluster, each with its exit code.

0, 1 and 2 mean the same in every command (`terminal/exit_codes.py`): done; done, but the result
needs attention; the arguments cannot be used.
"""

from collections.abc import Iterable

import click

from controlplane.core.text.redaction import redacted_refusal
from controlplane.core.text.safe_text import short

DECLINED = 3
"""Exit code: a request was refused, and changed nothing; a retry fails as well."""

UNAVAILABLE = 4
"""Exit code: the cluster cannot be reached, or fails. The change may have been made."""

LATE = 5
"""Exit code: an accepted change had no effect in time.

`verify` ends with the same code if the answers that it compares keep changing until `--timeout`.
"""

LINES, LINE_CHARACTERS = 50, 1_000
"""Maximum lines of a refusal, and characters of a line: a refusal may repeat a whole config."""


class Declined(click.ClickException):
    """The cluster refuses, or the client knows that it would; the message has the reason."""

    exit_code = DECLINED


class Unsupported(Declined):
    """The cluster lacks an endpoint or feature. If there is another way, the message has it."""


class Unavailable(click.ClickException):
    """The cluster cannot be reached, or fails."""

    exit_code = UNAVAILABLE


class NotServing(Unavailable):
    """A worker starts, stops or is overloaded, or a proxy reaches none (502, 503, 504)."""


class WaitTimedOut(click.ClickException):
    """A wait for the effect of an accepted change has timed out, with or without `--wait`."""

    exit_code = LATE


def worst(failures: Iterable[click.ClickException]) -> int:
    """The exit code of several failures: a change that may have been made outranks a refusal."""
    return max(failure.exit_code for failure in failures)


def refusal_text(message: str) -> str:
    """Message of a refusal, without secrets and not too long."""
    lines = redacted_refusal(message).splitlines()
    return "\n".join(short(line, LINE_CHARACTERS) for line in lines[:LINES])


def no_connector(name: str) -> Declined:
    """Error about a connector that does not exist."""
    return Declined(f"there is no connector {name}: `controlplane get` lists all")

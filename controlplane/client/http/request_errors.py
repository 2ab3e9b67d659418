"""Errors of commands about a cluster, each with its exit code.

0, 1 and 2 mean the same in every command (`terminal/exit_codes.py`): done; done, but the result
needs attention; the arguments cannot be used.
"""

from collections.abc import Iterable

import click

from controlplane.core.text.redaction import redacted_refusal
from controlplane.core.text.safe_text import short

DECLINED = 3
"""Exit code: the cluster refuses. Nothing was changed; a retry fails as well."""

UNAVAILABLE = 4
"""Exit code: the cluster cannot be reached, or fails. The change may have been made."""

LATE = 5
"""Exit code: the change was accepted, but did not take effect within `--timeout`."""

LINES, LINE_CHARACTERS = 50, 1_000
"""Maximum lines of a refusal, and characters of a line: a refusal may repeat a whole config."""


class Declined(click.ClickException):
    """The cluster refuses; the message is that of the cluster."""

    exit_code = DECLINED


class Unsupported(Declined):
    """The cluster lacks an endpoint or feature. If there is another way, the message has it."""


class Unavailable(click.ClickException):
    """The cluster cannot be reached, or fails."""

    exit_code = UNAVAILABLE


class NotServing(Unavailable):
    """A worker starts, stops or is overloaded, or a proxy reaches none (502, 503, 504)."""


class WaitTimedOut(click.ClickException):
    """The change was accepted, but `--wait` has reached its time-out."""

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

"""Errors of commands about a cluster, each with its exit code.

0, 1 and 2 mean the same in every command (`terminal.errors`): done; done, but the result needs
attention; the arguments cannot be used.
"""

from collections.abc import Iterable

import click

DECLINED = 3
"""Exit code: the cluster refuses. Nothing was changed; asking again changes nothing either."""

UNAVAILABLE = 4
"""Exit code: the cluster cannot be reached or fails. Ask again; it may have been done."""

LATE = 5
"""Exit code: it was done, but what `--wait` waits for has not come in time."""


class Declined(click.ClickException):
    """The cluster refuses, in its own words."""

    exit_code = DECLINED


class Unsupported(Declined):
    """The cluster has no such thing. The message says what to do instead."""


class Unavailable(click.ClickException):
    """The cluster cannot be reached, or fails."""

    exit_code = UNAVAILABLE


class WaitTimedOut(click.ClickException):
    """`--wait` has reached its time-out."""

    exit_code = LATE


def worst(failures: Iterable[click.ClickException]) -> int:
    """The exit code of several failures: what may have been done weighs more than a refusal."""
    return max(one.exit_code for one in failures)

"""Option for changes of audit thresholds."""

from collections.abc import Callable, Sequence

import click

from controlplane.terminal.option_names import Decorated
from replay.audit.thresholds import Thresholds, thresholds


def threshold_option(listing: str) -> Callable[[Decorated], Decorated]:
    """Add `--threshold NAME=VALUE`; the command gets `changes`. `listing` shows all names."""
    return click.option(
        "--threshold",
        "changes",
        metavar="NAME=VALUE",
        multiple=True,
        help=f"Change a threshold; see {listing}. May be repeated.",
    )


def changed_thresholds(changes: Sequence[str]) -> Thresholds:
    """Default thresholds with the given changes.

    Raises:
        BadThreshold: unknown name, no number, or a value that is too small.
    """
    pairs = (text.partition("=") for text in changes)
    return thresholds({name.strip(): value.strip() for name, _, value in pairs})

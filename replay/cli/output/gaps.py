"""Output of gaps: records lost before they were archived."""

from collections.abc import Mapping, Sequence

import click

SHOWN = 5
"""Gaps printed per cluster; JSON and `replay verify` have all."""


def tell_gaps(gaps: Mapping[str, Sequence[str]]) -> None:
    """Print the gaps of each cluster to standard error."""
    for cluster, sentences in gaps.items():
        for sentence in sentences[:SHOWN]:
            click.echo(f"{cluster}: {sentence}", err=True)
        if len(sentences) > SHOWN:
            ending = f"… and {len(sentences) - SHOWN} more gaps; `replay verify -o json` has all"
            click.echo(f"{cluster}: {ending}", err=True)

"""Telling what is missing: records that had been removed before they were archived."""

from collections.abc import Mapping, Sequence

import click

SHOWN = 5
"""Gaps of a cluster that people are told of; JSON has all, as has `replay verify`."""


def tell_gaps(gaps: Mapping[str, Sequence[str]]) -> None:
    """Tell people what is missing of each cluster."""
    for cluster, sentences in gaps.items():
        for sentence in sentences[:SHOWN]:
            click.echo(f"{cluster}: {sentence}", err=True)
        if len(sentences) > SHOWN:
            more = f"… and {len(sentences) - SHOWN} more gaps; `replay verify -o json` has all"
            click.echo(f"{cluster}: {more}", err=True)

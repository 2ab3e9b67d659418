"""Check of the options that take a MOMENT of an archive."""

import click

from replay.moments import archived_moment


def checked_moment(_ctx: click.Context, _param: click.Parameter, moment: str | None) -> str | None:
    """Refuse a MOMENT of another form, before an archive is read: the callback of its options.

    Raises:
        UnknownMoment: it is too long, or neither a record, a time, a vector nor `end`.
    """
    return archived_moment(moment)

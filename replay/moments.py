"""Moments of archives as text: those of logs, and `end`."""

from controlplane.core.moments import check_form

END = "end"
"""Moment at the end of an archive. None usually means the same. In a `diff` with a second release
or cluster, None as the second moment means the first moment."""


def archived_moment(moment: str | None) -> str | None:
    """Check the form of a moment, before an archive is read. Returns None for the end.

    Raises:
        UnknownMoment: it is too long, or neither a record, a time, a vector nor `end`.
    """
    if moment is None or moment == END:
        return None
    check_form(moment)
    return moment

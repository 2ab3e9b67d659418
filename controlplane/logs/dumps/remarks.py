"""Remarks: lines that a tool prints about itself, mixed with records in one file.

Only exact matches are skipped: any other line that is no record may be a part of one. Messages
about errors do not count as remarks: after an error, records may be missing.
"""

import re
from typing import NamedTuple

_REMARKS: dict[str, re.Pattern[bytes]] = {
    "the console consumer": re.compile(
        rb"Option --[a-z.-]+ is deprecated and will be removed in a future version\."
        rb" Use --[a-z-]+ instead\.\r?"
        rb"|Processed a total of (?P<total>\d{1,18}) messages\r?"
    ),
    "kcat": re.compile(
        rb"% Reached end of topic \S+ \[\d+\] at offset \d+(: exiting)?\r?"
        rb"|% Auto-selecting [^{}]*\r?"
        rb"|% Waiting for group rebalance\r?"
        rb"|% Group \S+ rebalanced [^{}]*\r?"
    ),
}
"""By tool. The consumer's are in `ConsoleConsumerOptions` and `CommandLineUtils` (from 4.2 on, to
standard output, KIP-1147) and `ConsoleConsumer`; kcat's in `kcat.c`, to standard error."""


class Remark(NamedTuple):
    """Line that a tool printed about itself. `line` counts from 1 in the file."""

    line: int
    tool: str
    total: int = 0
    """Number of records that the tool reports; 0 if it reports none."""


def remark(number: int, line: bytes) -> Remark | None:
    """Return the remark in a line; None if the line is no known remark."""
    for tool, pattern in _REMARKS.items():
        found = pattern.fullmatch(line)
        if found:
            return Remark(number, tool, int(found.groupdict().get("total") or 0))
    return None

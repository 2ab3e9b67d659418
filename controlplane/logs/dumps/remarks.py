"""Lines that the tools print about themselves, among records where both went into one file.

Only what is such a remark to the letter is passed over: anything else that is no record may be half
of one. Remarks about errors are none of these: after an error, records may be missing.
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
    """A line that a tool printed about itself. `line` counts from 1 (of the file)."""

    line: int
    tool: str
    total: int = 0
    """How many records the tool says it has read, if it says so."""


def remark(number: int, line: bytes) -> Remark | None:
    """The remark in a line; None where it is none that is known."""
    for tool, pattern in _REMARKS.items():
        found = pattern.fullmatch(line)
        if found:
            return Remark(number, tool, int(found.groupdict().get("total") or 0))
    return None

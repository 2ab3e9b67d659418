"""Traces of failures for statuses: Python's, from the author's line on."""

import traceback

MAX_CHARACTERS = 30_000
"""Length of a trace in a status record; the middle of a longer one is left out."""


def trace_of(failure: BaseException) -> str:
    """Return the trace of a failure with its causes."""
    return "".join(traceback.format_exception(failure)).rstrip()


def shortened(text: str) -> str:
    """Return a trace without its middle if it is too long."""
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"

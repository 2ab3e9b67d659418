"""States of processes, as Linux shows them."""

from pathlib import Path


def process_state(process: int) -> str:
    """State of a process's main thread as a letter: `S` waits, `Z` or `X` has ended.

    Raises:
        FileNotFoundError, ProcessLookupError: there is no such process any more.
    """
    # The name of the program stands before the state; it may have blanks and brackets.
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]

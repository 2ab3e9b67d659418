"""Prints at the end of a run how many answers equal those of the probe."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for the equal answers, and one per reason of a difference."""
    counts: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in report.user_properties:
                counts.update(value if name == "probe" else {})
    if counts:
        equal = counts.pop("")
        terminalreporter.write_line(f"the probe: {equal} of {equal + counts.total()} are equal")
        for reason, count in counts.most_common():
            terminalreporter.write_line(f"{count:4} differ: {reason}")

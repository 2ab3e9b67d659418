"""What came of the keys of a config: values that are shared, and so never changed in place."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from controlplane.core.configdef.values import Value


class Checked(NamedTuple):
    """What came of one key."""

    name: str
    value: Value = None
    errors: tuple[str, ...] = ()
    recommended: Sequence[str] = ()
    visible: bool = True


Findings = dict[str, Checked]
"""By key. Most are those of a config that says nothing of the key: made once per definition."""


def blame(findings: Findings, name: str, *errors: str) -> None:
    """Find more errors under a key."""
    found = findings.get(name) or Checked(name)
    findings[name] = found._replace(errors=found.errors + errors)


def tell(findings: Findings, name: str, **facts: Any) -> None:
    """Say more of a key that is there."""
    findings[name] = findings[name]._replace(**facts)

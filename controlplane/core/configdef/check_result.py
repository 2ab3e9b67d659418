"""Results of checking a config, key by key. Values are shared between checks: never change them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from controlplane.core.configdef.value_parser import ConfigValue


class KeyCheck(NamedTuple):
    """Result of validating one key (Kafka's `ConfigValue`)."""

    name: str
    value: ConfigValue = None
    errors: tuple[str, ...] = ()
    recommended: Sequence[str] = ()
    visible: bool = True


KeyChecks = dict[str, KeyCheck]
"""Results by key. Most are shared: for an absent key the definition computes the result once."""


def add_errors(findings: KeyChecks, name: str, *errors: str) -> None:
    """Add errors to a key's result; an absent key gets a result."""
    result = findings.get(name) or KeyCheck(name)
    findings[name] = result._replace(errors=result.errors + errors)


def set_facts(findings: KeyChecks, name: str, **facts: Any) -> None:
    """Replace fields in the result of a key that is present."""
    findings[name] = findings[name]._replace(**facts)

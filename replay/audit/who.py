"""Who is behind a record: our own headers tell, or else an audit stream."""

from controlplane.core.entry import Entry
from replay.audit.about import About
from replay.audit.reading import Told
from replay.audit.trail.trail import Verb

COMMAND_ID, PRINCIPAL = "controlplane-command-id", "controlplane-principal"
"""The headers of what our own control plane writes; Kafka's workers write none."""


def header(entry: Entry, name: str) -> str | None:
    """A header of a record as text; None: it is not there."""
    found = [value for known, value in entry.headers if known == name and value is not None]
    return found[-1].decode("utf-8", "replace") if found else None


def who(about: About, told: Told, *verbs: Verb) -> str:
    """The end of a sentence: ` by ada (command 17)`; empty where nobody knows.

    An audit stream is asked for requests about the connector at that time that want one of these
    things. Several people may have: then it may be any of them.
    """
    principal = header(told.entry, PRINCIPAL)
    if principal:
        command = header(told.entry, COMMAND_ID)
        return f" by {principal}" + (f" (command {command})" if command else "")
    within_ms = about.thresholds.match_ms
    near = about.trail.near(told.connector, told.entry.timestamp, within_ms, frozenset(verbs))
    people = list(dict.fromkeys(request.who for request in near))
    if not people:
        return ""
    if len(people) > 1:
        return f" by one of {', '.join(people)} (the audit stream has them all at that time)"
    if near[0].connector is None:
        return f" most likely by {people[0]}, whose request at that time names no connector,"
    return f" by {people[0]}, as the audit stream has it,"

"""Author of a record, from the control plane's own headers or from an audit stream."""

from controlplane.core.entry import Entry
from replay.audit.context import AuditContext
from replay.audit.decoded_log import DecodedRecord
from replay.audit.trail.request_trail import TrailVerb

COMMAND_ID, PRINCIPAL = "controlplane-command-id", "controlplane-principal"
"""Headers that the control plane writes; Kafka's workers write none."""


def header(entry: Entry, name: str) -> str | None:
    """Value of a header as text; None if it is absent."""
    values = [value for header, value in entry.headers if header == name and value is not None]
    return values[-1].decode("utf-8", "replace") if values else None


def author(about: AuditContext, decoded: DecodedRecord, *verbs: TrailVerb) -> str:
    """Author as a phrase of a sentence: ` by ada (command 17)`; empty if unknown.

    Without headers, the audit stream is searched for requests with one of these verbs, up to
    `match_ms` from the record. A request that names no connector counts if no other matches. The
    authors of all matching requests are named.
    """
    principal = header(decoded.entry, PRINCIPAL)
    if principal:
        command = header(decoded.entry, COMMAND_ID)
        return f" by {principal}" + (f" (command {command})" if command else "")
    within_ms = about.thresholds.match_ms
    near = about.trail.near(decoded.connector, decoded.entry.timestamp, within_ms, frozenset(verbs))
    people = list(dict.fromkeys(request.who for request in near))
    if not people:
        return ""
    if len(people) > 1:
        return f" by one of {', '.join(people)} (all of them are in the audit stream at that time)"
    if near[0].connector is None:
        return f" most likely by {people[0]} (audit stream; the request names no connector)"
    return f" by {people[0]} (audit stream)"

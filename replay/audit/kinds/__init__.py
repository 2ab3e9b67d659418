"""The kinds of audits, one file each, and the kinds of findings that they report."""

from collections.abc import Callable

from replay.audit.context import Audit, AuditContext
from replay.audit.kinds.config_changes import ConfigChanges
from replay.audit.kinds.duplicate_keys import DuplicateKeys
from replay.audit.kinds.interrupted_commands import InterruptedCommands
from replay.audit.kinds.mixed_groups import MixedGroups
from replay.audit.kinds.offset_rewinds import OffsetRewinds
from replay.audit.kinds.orphaned_offsets import OrphanedOffsets
from replay.audit.kinds.partial_commits import PartialCommits
from replay.audit.kinds.restart_storms import RestartStorms
from replay.audit.kinds.secrets_in_clear import SecretsInClear
from replay.audit.kinds.stalls import SourceStalls
from replay.audit.kinds.state_flaps import StateFlaps
from replay.audit.kinds.unreadable_records import UnreadableRecords
from replay.audit.kinds.zombies import Zombies

TABLE: tuple[Callable[[AuditContext], Audit], ...] = (
    ConfigChanges,
    OffsetRewinds,
    SourceStalls,
    OrphanedOffsets,
    StateFlaps,
    RestartStorms,
    Zombies,
    MixedGroups,
    PartialCommits,
    InterruptedCommands,
    SecretsInClear,
    DuplicateKeys,
    UnreadableRecords,
)
"""Audits of a single cluster's log; audits across clusters are in `shared_topics`."""

KINDS = {
    "connector-created": "A connector was created.",
    "connector-first-seen": "A connector's first archived config; the connector may be older.",
    "connector-deleted": "A connector was deleted.",
    "config-changed": "A connector's config changed: differing settings and author.",
    "target-changed": "The target state (STARTED, PAUSED, STOPPED) changed or was removed.",
    "offsets-regressed": "A number in a source offset fell, and no other field advanced.",
    "offsets-reset": "Source offsets were removed.",
    "source-stalled": "A running source has stopped making progress.",
    "offsets-orphaned": "Source offsets of a deleted connector.",
    "offsets-inherited": "A recreated connector continues from its former offsets.",
    "status-flapping": "A connector or task fails repeatedly, or keeps changing its state.",
    "restart-storm": "A connector is restarted repeatedly.",
    "two-owners": "Two workers run the same connector or task: a zombie.",
    "two-clusters-one-topic": "Two clusters, or two groups, write one topic.",
    "stop-half-done": "A stop or resume is incomplete: the task set does not fit the target state.",
    "tasks-not-running": "A connector runs, but none of its tasks does.",
    "tasks-uncommitted": "Task configs without a commit.",
    "tasks-inconsistent": "A task commit for which some task configs are missing.",
    "command-unfinished": "A command of the control plane started and never ended.",
    "secret-in-clear": "A secret in clear text in the log.",
    "key-in-two-partitions": "The same raw key in two partitions: their order is unknown.",
    "unreadable-records": "Records that a worker cannot read: number, positions and reasons.",
}
"""Kinds of findings with a description, in the order of `replay audit --list`."""

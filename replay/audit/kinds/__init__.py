"""The kinds of audits, one file each. `TABLE` lists them all."""

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

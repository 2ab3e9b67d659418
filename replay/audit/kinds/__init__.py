"""The kinds of audits, one file each. `TABLE` lists them all."""

from collections.abc import Callable

from replay.audit.about import About, Audit
from replay.audit.kinds.changes import Changes
from replay.audit.kinds.commands import Commands
from replay.audit.kinds.flapping import Flapping
from replay.audit.kinds.groups import Groups
from replay.audit.kinds.half_done import HalfDone
from replay.audit.kinds.keys import Keys
from replay.audit.kinds.leftovers import Leftovers
from replay.audit.kinds.movements import Movements
from replay.audit.kinds.owners import Owners
from replay.audit.kinds.restarts import Restarts
from replay.audit.kinds.secrets_in_clear import SecretsInClear
from replay.audit.kinds.stalls import Stalls
from replay.audit.kinds.unreadable import Unreadable

TABLE: tuple[Callable[[About], Audit], ...] = (
    Changes,
    Movements,
    Stalls,
    Leftovers,
    Flapping,
    Restarts,
    Owners,
    Groups,
    HalfDone,
    Commands,
    SecretsInClear,
    Keys,
    Unreadable,
)
"""What looks at the log of one cluster. What needs several is in `fleet`."""

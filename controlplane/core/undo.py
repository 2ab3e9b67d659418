"""Undo: from what a connector was to the command that puts it back.

The command carries all that is to be put back, so it says the same whenever it is run, and can be
shown first, planned, performed and recovered like any other (`decide.restoring`).
"""

from controlplane.core import views
from controlplane.core.commands import OffsetChange, RestoreConnector
from controlplane.core.state import ClusterState


def restoration(
    then: ClusterState, connector: str, *, offsets: bool = False, moment: str | None = None
) -> RestoreConnector:
    """Put a connector back as a state of the past has it: config, target state, perhaps offsets.

    One that was not there then is taken away. Tasks and statuses follow from what workers do.
    """
    config = then.config.connectors.get(connector)
    kept = tuple(
        OffsetChange(found.partition, found.offset)
        for found in views.source_offsets(then, connector)
        if found.offset is not None
    )
    return RestoreConnector(
        connector,
        config,
        then.config.targets.get(connector) if config is not None else None,
        kept if offsets else None,
        moment,
    )

"""Builds the command that restores a connector from a state of the past.

The command carries everything it restores, so it means the same whenever it runs. It can be shown,
planned, executed and recovered like any other (`decide.restore_plan`).
"""

from controlplane.core import views
from controlplane.core.commands import OffsetChange, RestoreConnector
from controlplane.core.state import ClusterState


def restoration(
    then: ClusterState, connector: str, *, offsets: bool = False, moment: str | None = None
) -> RestoreConnector:
    """Build the undo: config, target state and perhaps offsets of a past state.

    A connector that did not exist then is deleted. Tasks and statuses are left to the workers.
    """
    config = then.config.connectors.get(connector)
    return RestoreConnector(
        connector,
        config,
        then.config.targets.get(connector) if config is not None else None,
        _past_offsets(then, connector) if offsets else None,
        moment,
    )


def _past_offsets(then: ClusterState, connector: str) -> tuple[OffsetChange, ...]:
    return tuple(
        OffsetChange(view.partition, view.offset)
        for view in views.source_offsets(then, connector)
        if view.offset is not None
    )

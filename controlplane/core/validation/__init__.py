"""What a worker says to the config of a connector before anything is written."""

from controlplane.core.context import Context
from controlplane.core.plan import Rejected
from controlplane.core.records import Properties


def refusal(name: str, config: Properties, context: Context) -> Rejected | None:  # noqa: ARG001
    """Why a worker does not take this config, in its order of checks; None if it is valid."""
    return None

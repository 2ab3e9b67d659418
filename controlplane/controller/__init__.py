"""command → decide → append → read back → answer: the single writer and its parts."""

from controlplane.controller.admission import CommandLimits, TooMany
from controlplane.controller.controller import Controller, NotWritten, TimedOut
from controlplane.controller.external import (
    ExternalActionFailed,
    ExternalActions,
    NoExternalSystems,
)
from controlplane.controller.writer_environment import StepListener, WriterEnvironment

__all__ = [
    "CommandLimits",
    "Controller",
    "ExternalActionFailed",
    "ExternalActions",
    "NoExternalSystems",
    "NotWritten",
    "StepListener",
    "TimedOut",
    "TooMany",
    "WriterEnvironment",
]

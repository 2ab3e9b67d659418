"""command → decide → append → read back → answer: the single writer and its parts."""

from controlplane.controller.admission import CommandLimits, TooMany
from controlplane.controller.controller import Controller, NotWritten, TimedOut
from controlplane.controller.external import Alone, ExternalActionFailed, ExternalActions
from controlplane.controller.plan_execution import StepListener, WriterEnvironment

__all__ = [
    "Alone",
    "CommandLimits",
    "Controller",
    "ExternalActionFailed",
    "ExternalActions",
    "NotWritten",
    "StepListener",
    "TimedOut",
    "TooMany",
    "WriterEnvironment",
]

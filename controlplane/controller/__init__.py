"""command → decide → perform → read back → answer: the single writer and its parts."""

from controlplane.controller.controller import Controller, NotWritten, TimedOut, World
from controlplane.controller.limits import Limits
from controlplane.controller.outside import Alone, Outside, OutsideFailed
from controlplane.controller.performing import Stepped
from controlplane.controller.turns import TooMany

__all__ = [
    "Alone",
    "Controller",
    "Limits",
    "NotWritten",
    "Outside",
    "OutsideFailed",
    "Stepped",
    "TimedOut",
    "TooMany",
    "World",
]

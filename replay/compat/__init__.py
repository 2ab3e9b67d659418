"""What a change of release does to a cluster: told from its log, before anybody dares it."""

from replay.compat.assessing import Assessed, Assessment, Verdict, assess
from replay.compat.rolls import BadRoll, Mode, Roll, roll, steps_of

__all__ = [
    "Assessed",
    "Assessment",
    "BadRoll",
    "Mode",
    "Roll",
    "Verdict",
    "assess",
    "roll",
    "steps_of",
]

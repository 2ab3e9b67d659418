"""Compatibility: the effects of a release change on a cluster, predicted from its log."""

from replay.compat.assessment import (
    ClusterAssessment,
    ConnectorAssessment,
    ReleaseVerdict,
    assess,
    assess_each,
)
from replay.compat.release_change import (
    BadReleaseChange,
    ReleaseChange,
    RolloutMode,
    check_predictable,
    roll,
    steps_of,
)

__all__ = [
    "BadReleaseChange",
    "ClusterAssessment",
    "ConnectorAssessment",
    "ReleaseChange",
    "ReleaseVerdict",
    "RolloutMode",
    "assess",
    "assess_each",
    "check_predictable",
    "roll",
    "steps_of",
]

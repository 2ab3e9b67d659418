"""Environment of a controller, and what it calls while it runs commands."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from controlplane.controller.external import ExternalActions
from controlplane.core.commands import CommandRequest, SetLoggerLevel
from controlplane.core.plan import Step
from controlplane.core.releases.profiles import Profile
from controlplane.notices import Notices

StepListener = Callable[[CommandRequest, Step], Awaitable[None]]
"""Called after each durable step; an exception ends the command there."""

LevelSetter = Callable[[SetLoggerLevel, Profile | None], None]
"""Sets the level of a logger in this process by the rules of a release.

None: the release of the controller."""


def keep_levels(_command: SetLoggerLevel, _profile: Profile | None) -> None:
    """Set no level: the default `LevelSetter`."""


class WriterEnvironment(NamedTuple):
    """Environment of a controller: clock (epoch ms), external actions, notices, listeners."""

    now_ms: Callable[[], int]
    outside: ExternalActions | None
    """None: those of the log itself (`default_actions`)."""
    notices: Notices
    stepped: StepListener | None = None
    set_level: LevelSetter = keep_levels

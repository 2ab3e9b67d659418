"""Checks and conversions of the words and options of a step."""

import re
from collections.abc import Collection, Mapping

from controlplane.core.releases.profiles import UnknownRelease, check_support, resolve
from controlplane.core.state import Topics
from controlplane.core.topic_names import ALLOWED, is_legal
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.worker_releases import EXACTLY_ONCE, Worker
from controlplane.scenario.world import World

_SECONDS = re.compile(r"([+-]?)([0-9]+)(ms|s|m)", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000}
_DIGITS_MAX = 9


class BadStep(ValueError):
    """The step is invalid. The message has the remedy; `line` counts from the step's first."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


def only(
    step: ScenarioStep, *, words: int, options: Collection[str] = (), body: bool = False
) -> None:
    """Check the number of words of a step, its options, and that it has no body unless allowed."""
    if len(step.words) != words:
        number = "one word" if words == 1 else f"{words or 'no'} words"
        raise BadStep(f"`{step.verb}` takes {number}, and {len(step.words)} are there")
    for name in step.options:
        if name not in options:
            names = ", ".join(f"{option}=" for option in options) or "none"
            raise BadStep(f"`{step.verb}` has no option {name}= (known: {names})")
    if step.body and not body:
        raise BadStep(f"`{step.verb}` takes no lines before ----", 1)


def number(step: ScenarioStep, option: str, default: int) -> int:
    """Value of an option as a whole number, not negative; `default` without the option."""
    text = step.options.get(option)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII):
        raise BadStep(f"{option}={text} is not a whole number")
    return int(text)


def choice(step: ScenarioStep, option: str, allowed: Collection[str], default: str) -> str:
    """Value of an option that allows a few words."""
    text = step.options.get(option, default)
    if text not in allowed:
        raise BadStep(f"{option}={text}: use {' or '.join(allowed)}")
    return text


def duration_ms(step: ScenarioStep, option: str) -> int:
    """A time such as `-5s`, `250ms`, `2m`, in ms; 0 where there is none."""
    text = step.options.get(option)
    return 0 if text is None else time_ms(text, f"{option}={text}")


def time_ms(text: str, shown: str) -> int:
    """Parse a time into ms; `shown` is the text for errors."""
    match = _SECONDS.fullmatch(text)
    if match is None:
        raise BadStep(f"{shown} is not a time: write it like 5s or 250ms")
    if len(match[2]) > _DIGITS_MAX:
        raise BadStep(f"{shown} is too long a time: write it with {_DIGITS_MAX} digits at most")
    return int(f"{match[1]}{match[2]}") * _UNIT_MS[match[3]]


def path(text: str) -> str:
    """The path of a request, with its query."""
    if not text.startswith("/"):
        raise BadStep(f"`{text}` is no path: it begins with a slash, as in /connectors")
    return text


def topic(step: ScenarioStep, world: World) -> str:
    """The topic that a step's first word names: `config`, `offsets`, `status`, `commands`.

    With `topic=NAME` it is a connector's own offsets topic.
    """
    short = step.words[0]
    if short not in Topics.__struct_fields__:
        raise BadStep(f"`{short}` is no topic: use {', '.join(Topics.__struct_fields__)}")
    own = step.options.get("topic")
    if own is not None and short != "offsets":
        raise BadStep("only an offsets topic can have another name")
    if own is not None and not is_legal(own):
        raise BadStep(f"topic={own} cannot be the name of a topic: take {ALLOWED}")
    usual: str = getattr(world.topics, short)
    return own or usual


def worker(name: str, release: str) -> Worker:
    """A worker of a release: `3.4`, `kip`, or `3.9+eos` with exactly-once support enabled."""
    plain = release.removesuffix(EXACTLY_ONCE)
    try:
        running = resolve(plain)
        check_support(running.profile, exactly_once=release != plain)
    except UnknownRelease as error:
        raise BadStep(str(error)) from None
    # Other commands replace an unknown release by the nearest known one, with a warning. A scenario
    # refuses it: otherwise its output would change as soon as this project knows the release.
    if running.warning:
        nearest = running.profile.release
        raise BadStep(f"release {plain} is not known here: name the nearest, {nearest}, or kip")
    return Worker(name, plain, running.profile, release != plain)


def started(world: World) -> None:
    """Check that there is a cluster."""
    if not world.cluster.workers:
        raise BadStep("there is no cluster yet: begin with `cluster w1@3.9`")


def member(workers: Mapping[str, Worker], name: str) -> Worker:
    """The worker of this name. Raises `BadStep` if there is none."""
    if name not in workers:
        raise BadStep(f"there is no worker {name} (there are: {' '.join(workers)})")
    return workers[name]

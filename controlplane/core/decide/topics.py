"""Decides the reset of active topics (KIP-558) and changes of logger levels (KIP-976)."""

from controlplane.core.commands import ResetTopics, SetLoggerLevel
from controlplane.core.context import Context
from controlplane.core.decide.steps import config_step, status_draft
from controlplane.core.java import java_library
from controlplane.core.plan import Draft, Plan, Reason, Rejected, Step
from controlplane.core.records import ActiveTopic, LoggerLevel
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState

LEVELS = frozenset({"OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL"})
"""Names of Log4j's levels, in upper case."""


def reset(state: ClusterState, command: ResetTopics, context: Context) -> Plan | Rejected:
    """Write a tombstone for each active topic; an unknown connector simply has none."""
    profile, worker = context.profile, context.worker
    if not profile.status_topics:
        return Rejected(Reason.NOT_OFFERED, None)
    if not worker.topic_tracking_enable:
        return Rejected(Reason.FORBIDDEN, "Topic tracking is disabled.")
    if not worker.topic_tracking_allow_reset:
        # KIP-558 gives the sentence without a full stop.
        text = "Topic tracking reset is disabled"
        return Rejected(Reason.FORBIDDEN, text if profile.rest_kip_topics_reset else f"{text}.")
    drafts = _tombstones(state, command.connector, context)
    if not drafts:
        return Plan(())
    if profile.writes_atomically:
        read_back = (state.topics.status,)
        return Plan((Step("topics", drafts, read_back=read_back),), commit_point="topics")
    steps = tuple(Step(f"topic-{number}", (draft,)) for number, draft in enumerate(drafts))
    return Plan(steps, commit_point=steps[-1].name)


def _tombstones(state: ClusterState, name: str, context: Context) -> tuple[Draft, ...]:
    """Tombstones, one per active topic.

    Releases build the key from the record's value, so it may differ from the key in the log.
    """
    active_topics = sorted(state.status.active_topics.get(name, {}).items())
    removals = [
        ActiveTopic(name, topic, None)
        if context.profile.writes_log_key
        else ActiveTopic(use.connector, use.topic, None)
        for topic, use in active_topics
    ]
    return tuple(status_draft(state, record, context) for record in removals)


def set_level(state: ClusterState, command: SetLoggerLevel, context: Context) -> Plan | Rejected:
    """Write a record that all workers obey, with the level spelled as requested."""
    if not context.profile.logger_levels:
        return Rejected(Reason.NOT_OFFERED, None)
    level = level_named(command.level, context.profile)
    if isinstance(level, Rejected):
        return level
    record = LoggerLevel(command.namespace, command.level)
    return Plan((config_step(state, "level", [record], context),), commit_point="level")


def level_named(text: str, profile: Profile) -> str | Rejected:
    """The level of `LEVELS` that a text names, or the refusal."""
    if profile.logger_levels_needed and not text:
        return Rejected(Reason.FAILED, "Illegal null or empty Level name.")
    level = (java_library.trim(text) if profile.logger_levels_trimmed else text).upper()
    if level not in LEVELS:
        return Rejected(Reason.NO_SUCH_LOGGER_LEVEL, f"invalid log level '{text}'.")
    return level

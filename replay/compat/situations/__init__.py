"""Table of the situations that an upgrade or downgrade can meet, each with a rule.

Reports contain the numbers of situations, so a number never changes. A rule detects its situation
from records alone. Some situations depend on facts outside the log, such as the leader or the age
of brokers. Their rules find the records that such a fact would affect.
"""

from controlplane.core.state import Aspect
from replay.compat.release_change import ReleaseChange
from replay.compat.situation import Situation
from replay.compat.situations import (
    aborted_transactions,
    hidden_offsets,
    status_records,
    target_states,
    task_sets,
    worker_group,
)

_WANTED = frozenset({Aspect.TARGET_STATE})
_TASKS = frozenset({Aspect.TASKS, Aspect.TASK_CONFIG, Aspect.INCONSISTENT})
_REPORTED = frozenset({Aspect.STATUS, Aspect.TASK_STATUS})


def _only_newer_knows_stopped(roll: ReleaseChange) -> bool:
    return roll.gains("target_state_v2")


ABORTED = 15

SITUATIONS: tuple[Situation, ...] = (
    Situation(1, "stopped", "KIP-875", _only_newer_knows_stopped, target_states.stopped, _WANTED),
    Situation(
        2, "resumed-by-older", "KIP-875", _only_newer_knows_stopped, target_states.resumed_by_older
    ),
    Situation(
        3, "paused-by-older", "KIP-875", _only_newer_knows_stopped, target_states.paused_by_older
    ),
    Situation(
        4, "naive-stop", "KIP-875", _only_newer_knows_stopped, target_states.naive_stop, _WANTED
    ),
    Situation(
        5,
        "forgotten-target",
        "KIP-52",
        lambda roll: roll.goal.target_states,
        target_states.forgotten_target,
    ),
    Situation(
        6,
        "stopped-with-new-tasks",
        "KIP-875",
        _only_newer_knows_stopped,
        target_states.stopped_with_new_tasks,
    ),
    Situation(
        7,
        "unreadable-status",
        "KIP-745, KIP-875",
        lambda roll: roll.gains("status_restarting") or roll.gains("status_stopped"),
        status_records.unreadable_status,
        _REPORTED,
    ),
    Situation(
        8,
        "disobeyed-restart",
        "KIP-745",
        lambda roll: roll.gains("restart_requests"),
        task_sets.disobeyed_restart,
    ),
    Situation(
        9, "unfenceable", "KIP-618", lambda roll: roll.gains("fencing"), task_sets.unfenceable
    ),
    Situation(
        10,
        "session-key",
        "KIP-507",
        lambda roll: roll.gains("session_keys"),
        worker_group.session_key,
    ),
    Situation(
        11,
        "active-topics",
        "KIP-558",
        lambda roll: roll.gains("status_topics"),
        status_records.active_topics,
        frozenset({Aspect.ACTIVE_TOPIC}),
    ),
    Situation(
        12,
        "older-tasks",
        "KAFKA-17719",
        lambda roll: roll.gains("commit_needs_config"),
        task_sets.older_tasks,
        _TASKS,
    ),
    Situation(
        13,
        "leftover-tasks",
        "KAFKA-8869, KAFKA-16838",
        lambda roll: roll.gains("commit_needs_config") or roll.gains("removal_drops_tasks"),
        task_sets.leftover_tasks,
        _TASKS,
    ),
    Situation(
        14,
        "own-offsets-topic",
        "KIP-618",
        lambda roll: roll.gains("own_offset_topics"),
        hidden_offsets.own_topic,
        frozenset({Aspect.SOURCE_OFFSET}),
    ),
    Situation(
        14,
        "aborted-offsets",
        "KIP-618",
        lambda roll: roll.gains("exactly_once_support"),
        hidden_offsets.aborted_offsets,
        frozenset({Aspect.SOURCE_OFFSET}),
    ),
    Situation(
        ABORTED,
        "aborted-configs",
        "KIP-618",
        lambda roll: roll.newer.exactly_once_support,
        aborted_transactions.aborted_configs,
        frozenset(Aspect) - _REPORTED,
    ),
    Situation(
        16,
        "envelopes",
        "KIP-174",
        lambda roll: roll.loses("internal_converters"),
        worker_group.envelopes,
    ),
    Situation(
        17,
        "created-in-state",
        "KIP-980",
        lambda roll: roll.gains("creates_in_state"),
        target_states.created_in_state,
        _WANTED,
    ),
    Situation(
        18,
        "plugin-version",
        "KIP-891",
        lambda roll: roll.gains("status_version"),
        status_records.plugin_version,
    ),
    Situation(
        19,
        "refused-clients",
        "KIP-896",
        lambda roll: roll.gains("clients_outlive_kip_896") and roll.newer.status_version,
        worker_group.refused_clients,
    ),
)
"""All nineteen situations by number; the fourteenth has two forms."""

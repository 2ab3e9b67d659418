"""Behaviours of each Kafka release, as data: how it reads, writes and answers.

`Profile.of("3.4.1")` is one frozen `Profile`: a row of behaviours, each named after what a worker
does, not after a release. The rest of the program reads a profile's fields (`if
profile.commit_needs_config`) and never compares version numbers.

This module documents the fields. Profiles are computed from the table `BEHAVIOURS`, which has the
releases and reasons. Releases with equal fields are in `PROFILES` once, under the first of them.
"""

import re
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from controlplane.core.releases.behaviours import BEHAVIOURS, Behaviour
from controlplane.core.releases.bundled_libraries import JACKSONS, SERVERS, Jackson, Jetty

CrossOrigin = Literal["filter", "handler", "ours"]
"""Implementation of CORS: Jetty's filter, Jetty 12's handler, or ours."""

HugeExponent = Literal["infinity_or_zero", "infinity_only", "undecodable"]
"""Value of a number with an exponent beyond 2**31."""


class UnknownRelease(ValueError):
    """The name is no known Kafka release, or the release lacks exactly-once support.

    The message tells which releases can be named.
    """


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Behaviours of one Kafka release. `BEHAVIOURS` has the reason and the spans of each field.

    The text of a field tells what holds if it is True; *elsewhere* means: if it is False.
    """

    release: str

    # --- reading JSON values (Jackson) ------------------------------------------------------
    json_empty_is_null: bool
    """An empty or blank value is null; elsewhere undecodable."""
    json_leading_zeros: bool
    """`01` is a number."""
    json_encoded_surrogates: bool
    """Surrogates encoded as UTF-8 (CESU) are text; elsewhere undecodable."""
    json_negative_zero: bool
    """`-0.0` keeps its sign; elsewhere it is 0.0."""
    json_limits: bool
    """JSON is undecodable with more than 1000 levels, 1000 digits of a number, 50 000 bytes of a
    name or 20 000 000 characters of a string."""
    json_parser_recurses: bool
    """Deep nesting overflows the stack even if the JSON is cut off later."""
    json_huge_exponent: HugeExponent
    """Value of a number such as `1e99999999999`."""

    # --- reading the config topic -----------------------------------------------------------
    target_states: bool
    """Target states exist; a connector without one is STARTED."""
    target_state_v2: bool
    """`state.v2` is preferred to `state`, and STOPPED exists."""
    removal_drops_tasks: bool
    """A connector tombstone also drops its task configs and task count."""
    removal_drops_deferred: bool
    """A connector tombstone also drops its deferred task configs."""
    commit_needs_config: bool
    """A task commit without a connector config removes the tasks. Only folds of such releases fill
    `ConfigState.applied`."""
    commit_needs_deferred: bool
    """A task commit with nothing deferred is poison (NullPointerException)."""
    connector_properties_required: bool
    """A connector config without `properties` is poison (NullPointerException)."""
    task_properties_required: bool
    """A task config without `properties` is poison (NullPointerException)."""
    negative_count_throws: bool
    """A negative task count makes every read of the connector's tasks fail."""
    fencing: bool
    """Task-count records are read; generations and pending fencing are kept."""
    session_keys: bool
    """Session keys are read; elsewhere their records are unknown."""
    session_key_fields_required: bool
    """A session key that lacks a field is poison (NullPointerException)."""
    restart_requests: bool
    """Restart requests are passed to the listener."""
    logger_levels: bool
    """Cluster logger levels are passed to the listener."""

    config_partition_required: bool
    """A worker refuses to start on a config topic of several partitions."""

    # --- calling the listener ---------------------------------------------------------------
    announces_unchanged_target: bool
    """The listener gets every target-state record, even without a change."""
    announces_target_of_unknown: bool
    """The listener gets target states of connectors without a config."""
    announces_all_task_ids: bool
    """A commit announces all known task ids, not only those just committed."""

    # --- failing ----------------------------------------------------------------------------
    log_thread_survives: bool
    """A poison record costs a running worker the rest of the batch, not its log thread."""
    tolerates_malformed: bool
    """No record throws: only the malformed record itself is ignored."""

    # --- reading the status topic -----------------------------------------------------------
    statuses: bool
    """Workers have a status topic."""
    status_restarting: bool
    """RESTARTING is a valid state."""
    status_stopped: bool
    """STOPPED is a valid state."""
    status_topics: bool
    """Active topics are read."""
    status_version: bool
    """Statuses carry the version of the plugin."""
    stale_unassigned_ignored: bool
    """A task's UNASSIGNED does not replace a RUNNING of the same or a later generation."""

    # --- transactions -----------------------------------------------------------------------
    exactly_once_support: bool
    """Workers may run with exactly-once support, which hides aborted configs and offsets."""

    # --- reading the offsets topics ---------------------------------------------------------
    offset_tombstone_removes: bool
    """A tombstone removes the entry; elsewhere the entry stays, as null."""
    offset_partitions: bool
    """Keys are parsed to list the partitions of each connector."""
    offset_key_loses_batch: bool
    """A key that is not JSON loses the rest of its poll batch."""
    offset_null_partition_warns: bool
    """A key `["c",null]` causes a warning."""
    own_offset_topics: bool
    """A source connector may have an offsets topic of its own."""
    own_offsets_fall_back: bool
    """A partition missing in the connector's own topic is looked up in the worker's topic."""
    offsets_by_log_key: bool
    """Offsets are looked up by the key bytes of the log; elsewhere by re-serialised ones."""

    # --- answering read requests ------------------------------------------------------------
    rest_type: bool
    """Info and status carry `type`."""
    rest_cluster_id: bool
    """`GET /` carries `kafka_cluster_id`."""
    rest_expand: bool
    """`GET /connectors?expand=` exists."""
    rest_topics: bool
    """`GET /connectors/{c}/topics` exists."""
    rest_tasks_config: bool
    """`GET /connectors/{c}/tasks-config` exists."""
    rest_offsets: bool
    """`GET /connectors/{c}/offsets` exists."""
    rest_all_plugins: bool
    """Plugins other than connectors are listed, and each has an endpoint for its keys."""
    rest_framework_keys: bool
    """The keys of a connector plugin include Connect's own keys for every connector."""
    rest_kinds_by_class: bool
    """A plugin has one kind: a header converter that is also a converter counts as converter."""
    rest_order_in_group: bool
    """Answers about keys have `order_in_group`, right after `group`, instead of `order`."""
    rest_failure_wrapped: bool
    """A failed validation is a failure of the worker, and its error names the Java exception."""
    rest_loggers: bool
    """`/admin/loggers` exists."""
    rest_logger_times: bool
    """A logger shows the time of its last change; setting its present level is no change."""
    rest_unset_loggers: bool
    """Loggers without a level of their own are listed. The answer to a change of level has only the
    loggers that changed."""
    rest_health: bool
    """`GET /health` exists."""
    rest_internal_any_type: bool
    """Requests between workers may have any `Content-Type`."""
    rest_timeouts_name_stage: bool
    """A time-out error names the stage that the worker is in."""
    rest_server: Literal["jetty 9", "jetty 12", "ours"]
    """HTTP server: it refuses some requests before Connect gets them. Jetty 12 refuses encoded
    slashes, percent signs and control characters in a path."""
    rest_cross_origin: CrossOrigin
    """Implementation of CORS: Jetty's filter, its handler (Jetty 12), or ours."""
    rest_location_verbatim: bool
    """`Location` escapes only characters that are illegal in a path. Braces in a name are parsed as
    a template, so the answer fails."""
    rest_kip_offsets: bool
    """Answers and requests have offsets in the representation of KIP-875."""
    rest_kip_topics_reset: bool
    """A reset of active topics answers 200, as in KIP-558; elsewhere 202 (accepted)."""

    # --- reading request bodies (Jackson) ---------------------------------------------------
    rest_bad_body_is_client_error: bool
    """An unreadable body is the client's fault; elsewhere a failure of the worker."""
    rest_body_read_to_end: bool
    """Text after the JSON value of a body is read and refused."""
    rest_body_source_hidden: bool
    """Errors about bodies hide the source: the Java class of the stream, or the text."""
    rest_body_error_placed_before: bool
    """Errors point at the offending character; elsewhere after it."""
    rest_body_word_placed_before: bool
    """Errors about an unknown word point at its beginning; elsewhere at its end."""
    rest_body_switches: bool
    """Errors name the switches (Jackson 2.14) that would allow `+1` or `-.5`."""
    rest_body_out_of_token: bool
    """Type errors say "out of START_ARRAY token" (Jackson 2.10); later "from Array value"."""
    rest_body_extra_end_known: bool
    """A closing bracket without an opening one gets the error "no open Array to close". Elsewhere
    it gets the error about the wrong kind of bracket: "expected '}'"."""
    rest_body_stray_bracket: bool
    """In the error about an unknown field, the list of known ones ends in an unmatched bracket."""

    # --- writing ----------------------------------------------------------------------------
    writes_empty_commit: bool
    """An empty task set is committed (`{"tasks":0}`)."""
    writes_log_key: bool
    """Altered and removed offsets reuse the key bytes of the log."""
    writes_offsets_in_hash_order: bool
    """Several offsets are written in the order of Java's maps; elsewhere as requested."""
    writes_removals_first: bool
    """A removal goes to the worker's offsets topic before it goes to a connector's own."""
    reads_back_offsets: bool
    """Changed offsets are read back before the command succeeds."""
    writes_tasks_when_reconfigured: bool
    """A new config also commits the tasks of a connector that does not run."""
    writes_atomically: bool
    """Records that belong together are one transaction, even without exactly-once support."""
    inherits_target_state: bool
    """A new connector inherits the target state that an earlier one of its name left."""

    # --- commands ---------------------------------------------------------------------------
    stops: bool
    """Connectors can be stopped, and their offsets read."""
    alters_offsets: bool
    """Offsets of stopped connectors can be altered and reset."""
    creates_in_state: bool
    """A connector can be created paused or stopped."""
    creates_with_offsets: bool
    """A connector can be created with initial offsets."""
    patches_configs: bool
    """Configs can be patched by key."""
    updates_offsets: bool
    """Source tasks are asked for further offsets before a commit."""
    pause_starts_stopped: bool
    """A pause of a stopped connector starts it first, so that it has tasks; elsewhere it has none.
    """
    tasks_max_enforced: bool
    """A connector fails if it has more tasks than `tasks.max`; elsewhere they all run."""
    records_bounded: bool
    """A record of more than 1 MiB is not sent, and the request fails."""
    names_lose_surrogates: bool
    """Half a surrogate pair in a connector's name becomes a question mark; elsewhere refused."""
    own_offsets_anywhere: bool
    """A connector may name any offsets topic, even the config topic or an illegal name.
    """
    patch_may_rename: bool
    """A patch may change `name` to another than the connector's."""
    restarts: bool
    """Connectors and tasks can be restarted."""
    restarts_concurrently: bool
    """A restart is accepted while the same instance is being restarted."""
    restart_writes_first: bool
    """A restart request of a connector without status is written, then refused."""
    restart_knows_old_tasks: bool
    """A restart of a task beyond the committed count is a conflict: the task has no owner.
    Elsewhere the task is unknown."""
    logger_levels_trimmed: bool
    """White space around a logger level is ignored."""
    logger_levels_needed: bool
    """A worker fails at an empty logger level; elsewhere it is an unknown level."""
    any_worker_writes: bool
    """The worker that gets a pause, resume, topic reset or level writes it; elsewhere the leader.
    """
    forwards_null_state: bool
    """A creation without initial state is forwarded to the leader with the state null."""

    # --- validating configs -----------------------------------------------------------------
    refuses_nulls: bool
    """A config with a null value is refused."""
    plugins_take_nulls: bool
    """Validation accepts null under a key that the plugin defines; the start then fails."""
    missing_class_is_client_error: bool
    """A missing connector class is the client's fault; elsewhere a failure of the worker."""
    missing_type_counts_twice: bool
    """A missing or unknown class of a transformation or predicate counts as two errors."""
    sink_errors_listed: bool
    """Errors of rules for sinks are listed; elsewhere the worker fails at the first one."""
    converters_validated: bool
    """Configs of converters are validated."""
    overrides_validated: bool
    """Client overrides need the policy's consent."""
    overrides_allowed: bool
    """The default override policy is All; elsewhere None."""
    overrides_by_client: bool
    """Overrides are validated by the definition of each kind of client that the connector uses."""
    names_validate_endpoint: bool
    """Refusals of configs show the whole path of the validation endpoint."""
    versioned_plugins: bool
    """A config may request versions of plugins, and answers recommend the present ones."""
    plugins_instantiated: bool
    """Only plugins that can be instantiated are listed; elsewhere this holds for connectors only.
    """

    # --- changes of release -----------------------------------------------------------------
    internal_converters: bool
    """Internal topics may use other converters, or schemas."""
    clients_outlive_kip_896: bool
    """Clients of the release speak protocol versions that brokers from 4.0 on still accept."""

    def __repr__(self) -> str:
        return f"Profile.of({self.release!r})"

    @property
    def kafka_release(self) -> str:
        """Kafka release whose plugins the profile has; for `kip` the newest."""
        return NEWEST if self.release == KIP else self.release

    @property
    def jetty(self) -> Jetty:
        """HTTP server of the release; for `kip` that of the newest."""
        return _bundled(SERVERS, self.kafka_release)

    @property
    def jackson(self) -> Jackson:
        """JSON library of the release."""
        return _bundled(JACKSONS, self.kafka_release)

    def within(self, since: str | None, until: str | None) -> bool:
        """True if the release is at least `since` and before `until`; None: no such bound."""
        at = _number(self.kafka_release)
        begun = since is None or _number(since) <= at
        return begun and (until is None or at < _number(until))

    @staticmethod
    def of(name: str) -> "Profile":
        """Profile of a release (`"3.4.1"`), a line (`"3.4"`: its last patch) or `"kip"`.

        Raises:
            UnknownRelease: no such release is known.
        """
        return resolve(name).profile


_LINES = (
    "0.9.0:0-1 0.10.0:0-1 0.10.1:0-1 0.10.2:0-2 0.11.0:0-3 1.0:0-2 1.1:0-1 2.0:0-1 2.1:0-1 "
    "2.2:0-2 2.3:0-1 2.4:0-1 2.5:0-1 2.6:0-3 2.7:0-2 2.8:0-2 3.0:0-2 3.1:0-2 3.2:0-3 3.3:0-2 "
    "3.4:0-1 3.5:0-2 3.6:0-2 3.7:0-2 3.8:0-1 3.9:0-2 4.0:0-2 4.1:0-2 4.2:0-1 4.3:0-0"
)
"""Every release line, oldest first, as `line:first patch-last patch`."""

KIP = "kip"
"""Name of our own profile: reads like the newest release, with known defects corrected."""


def _releases() -> tuple[str, ...]:
    names: list[str] = []
    for line in _LINES.split():
        stem, _, patches = line.partition(":")
        first, _, last = patches.partition("-")
        names += [f"{stem}.{patch}" for patch in range(int(first), int(last) + 1)]
    return tuple(names)


RELEASES = _releases()
"""All known releases, oldest first."""

NEWEST = RELEASES[-1]
"""Newest known release."""

_NUMBERS_KEPT = 512
"""Greatest number of cached releases: all known ones, and some that clients invent."""


@lru_cache(_NUMBERS_KEPT)
def _number(release: str) -> tuple[int, ...]:
    """Numbers of a release's name; they compare in the order of releases."""
    return tuple(int(part) for part in release.split("."))


def _value_in(behaviour: Behaviour, release: str) -> Any:
    at = _number(release)
    for first, end, value in behaviour.spans:
        if _number(first) <= at and (end is None or at < _number(end)):
            return value
    return behaviour.other


@cache
def _profile(release: str) -> Profile:
    if release != KIP:
        row = {behaviour.field: _value_in(behaviour, release) for behaviour in BEHAVIOURS}
        return Profile(release=release, **row)
    newest = _profile(NEWEST)
    ours = {row.field: row.kip for row in BEHAVIOURS if row.kip is not None}
    return msgspec.structs.replace(newest, release=KIP, **ours)


_Library = TypeVar("_Library")


def _bundled(table: tuple[tuple[str, _Library], ...], release: str) -> _Library:
    """Row of a library table that holds for a release."""
    at = _number(release)
    return next(library for first, library in reversed(table) if _number(first) <= at)


class ResolvedProfile(NamedTuple):
    """A profile, and a warning if its name was only approximately known."""

    profile: Profile
    warning: str | None = None


def resolve(name: str) -> ResolvedProfile:
    """Find the profile for a name that a person gives.

    A line means its last patch. An unknown patch of a known line means the last known one of that
    line. A line newer than all known ones means `NEWEST`. Both give a warning.

    Raises:
        UnknownRelease: any other name.
    """
    text = name.strip().lower()
    if text == KIP:
        return ResolvedProfile(_profile(KIP))
    if text in RELEASES:
        return ResolvedProfile(_profile(text))
    if not _RELEASE.fullmatch(text):
        raise UnknownRelease(_unknown_release(name))
    line = [release for release in RELEASES if release.startswith(text + ".")]
    if line:
        return ResolvedProfile(_profile(line[-1]))
    if _number(text) > _number(NEWEST):
        return ResolvedProfile(_profile(NEWEST), f"release {name} is not known; read as {NEWEST}")
    stem = release_line(text)
    patches = [release for release in RELEASES if release_line(release) == stem]
    if patches:
        last = patches[-1]
        return ResolvedProfile(_profile(last), f"release {name} is not known; read as {last}")
    raise UnknownRelease(_unknown_release(name))


def release_line(release: str) -> str:
    """Line of a release: `3.4` for `3.4.1`."""
    return release.rpartition(".")[0]


def check_support(profile: Profile, *, exactly_once: bool) -> None:
    """Check that the release has exactly-once support, if requested.

    Raises:
        UnknownRelease: it has none.
    """
    if exactly_once and not profile.exactly_once_support:
        raise UnknownRelease(
            f"{profile.release} has no exactly-once support, which came with KIP-618: "
            f"name a release from {since('exactly_once_support')} on, or read without that support"
        )


def since(field: str) -> str:
    """First release with a behaviour; `field` is the name of a `Profile` field."""
    return next(release for release in RELEASES if getattr(_profile(release), field))


NAME_DIGITS = 6
"""Most digits of each number in a release's name."""

NAME_SHOWN = 40
"""Most characters of a name that a message quotes."""

_RELEASE = re.compile(rf"\d{{1,{NAME_DIGITS}}}(\.\d{{1,{NAME_DIGITS}}}){{1,3}}", re.ASCII)


def _unknown_release(name: str) -> str:
    quoted = name if len(name) <= NAME_SHOWN else name[: NAME_SHOWN - 1] + "…"
    return f"unknown release {quoted!r}: use {RELEASES[0]} to {NEWEST}, a line such as 3.9, or kip"


def _distinct() -> tuple[Profile, ...]:
    """Profiles that differ in more than their release, and `kip`."""
    first: dict[Profile, Profile] = {}
    for release in RELEASES:
        profile = _profile(release)
        first.setdefault(msgspec.structs.replace(profile, release=""), profile)
    return (*first.values(), _profile(KIP))


PROFILES = _distinct()
"""Each distinct profile once, under its first release, oldest first; then `kip`."""

_FIRST_BY_BEHAVIOURS = {
    msgspec.structs.replace(profile, release=""): profile for profile in reversed(PROFILES)
}


def first_alike(profile: Profile) -> Profile:
    """The profile in `PROFILES` that has the same behaviours."""
    if profile in PROFILES:
        return profile
    return _FIRST_BY_BEHAVIOURS[msgspec.structs.replace(profile, release="")]

"""How each Kafka release reads and writes the three topics, as data.

`Profile.of("3.4.1")` answers one frozen `Profile`: a row of behaviours, each named after what a
worker does and not after the release that began it. The rest of the program asks a profile
(`if profile.commit_needs_config`) and never compares version numbers.

What each field means stands here; when it holds, and why, in one table (`behaviours`). Profiles are
computed from it, so that two releases with the same row are the same profile (`PROFILES` lists each
once, under its first release).
"""

import re
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from controlplane.core.behaviours import BEHAVIOURS, Behaviour
from controlplane.core.bundled import JACKSONS, SERVERS, Jackson, Jetty

CrossOrigin = Literal["filter", "handler", "ours"]
HugeExponent = Literal["infinity_or_zero", "infinity_only", "undecodable"]
"""What a number with an exponent beyond 2**31 becomes."""


class UnknownRelease(ValueError):
    """Not the name of a Kafka release that we know or can place. The message says which we know."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Behaviour of one Kafka release. Each field's ground and span stand in `BEHAVIOURS`."""

    release: str

    # --- reading JSON values (Jackson) ------------------------------------------------------
    json_empty_is_null: bool
    """An empty or white-space-only value is null (elsewhere: undecodable)."""
    json_leading_zeros: bool
    """`01` is a number."""
    json_encoded_surrogates: bool
    """Surrogates encoded as UTF-8 (CESU) are text; else undecodable."""
    json_negative_zero: bool
    """`-0.0` keeps its sign."""
    json_limits: bool
    """Over 1000 levels, 1000 digits or 50 000 bytes of a name: undecodable."""
    json_parser_recurses: bool
    """Deep nesting overflows the stack even in JSON that breaks off later."""
    json_huge_exponent: HugeExponent
    """Fate of `1e99999999999`."""

    # --- reading the config topic -----------------------------------------------------------
    target_states: bool
    """Target states exist; a connector without one is STARTED."""
    target_state_v2: bool
    """`state.v2` is preferred to `state`, and STOPPED exists."""
    removal_drops_tasks: bool
    """A connector tombstone also drops its task configs and task count."""
    removal_drops_deferred: bool
    """... and its deferred task configs."""
    commit_needs_config: bool
    """A task commit without a connector config wipes the tasks; applied configs are remembered."""
    commit_needs_deferred: bool
    """Any task commit with nothing deferred is poison (NullPointerException)."""
    connector_properties_required: bool
    """A connector config without `properties` is poison (NullPointerException)."""
    task_properties_required: bool
    """A task config without `properties` is poison (NullPointerException)."""
    negative_count_throws: bool
    """A negative task count makes every read of the connector's tasks fail."""
    fencing: bool
    """Task-count records are read; generations and pending fencing are kept."""
    session_keys: bool
    """Session keys are read."""
    session_key_fields_required: bool
    """A session key that lacks a field is poison (NullPointerException)."""
    restart_requests: bool
    """Restart requests are events."""
    logger_levels: bool
    """Cluster logger levels are events."""

    config_partition_required: bool
    """A config topic of more than one partition keeps a worker from starting."""

    # --- calling the listener ---------------------------------------------------------------
    announces_unchanged_target: bool
    """The listener hears of every target-state record, also of one that changes nothing."""
    announces_target_of_unknown: bool
    """The listener hears of target states of connectors that have no config."""
    announces_all_task_ids: bool
    """A commit announces every task id known, not only those just committed."""

    # --- failing ----------------------------------------------------------------------------
    log_thread_survives: bool
    """A poison record costs a running worker the rest of the batch, not its log thread."""
    tolerates_malformed: bool
    """No record ever throws: what is malformed is ignored, it alone."""

    # --- reading the status topic -----------------------------------------------------------
    statuses: bool
    """There is a status topic."""
    status_restarting: bool
    """RESTARTING is a state."""
    status_stopped: bool
    """STOPPED is a state."""
    status_topics: bool
    """Active topics are read."""
    status_version: bool
    """Statuses carry the version of the plugin."""
    stale_unassigned_ignored: bool
    """A task's UNASSIGNED does not replace a RUNNING of the same or a later generation."""

    # --- transactions -----------------------------------------------------------------------
    exactly_once_support: bool
    """Workers may run with exactly-once support, and then read no aborted records."""

    # --- reading the offsets topics ---------------------------------------------------------
    offset_tombstone_removes: bool
    """A tombstone takes the entry away (else it stays, as null)."""
    offset_partitions: bool
    """Keys are parsed to know the partitions of each connector."""
    offset_key_loses_batch: bool
    """A key that is not JSON loses the rest of its poll batch."""
    offset_null_partition_warns: bool
    """A key `["c",null]` is worth a warning."""
    own_offset_topics: bool
    """A source connector may have an offsets topic of its own."""
    own_offsets_fall_back: bool
    """A partition that the connector's own topic lacks is looked for in the worker's topic."""
    offsets_by_log_key: bool
    """An offset is found under the key bytes of the log (else under re-serialised ones)."""

    # --- answering read requests ------------------------------------------------------------
    rest_type: bool
    """Info and status carry `type`."""
    rest_cluster_id: bool
    """`GET /` carries `kafka_cluster_id`."""
    rest_expand: bool
    """`GET /connectors?expand=`."""
    rest_topics: bool
    """`GET /connectors/{c}/topics`."""
    rest_tasks_config: bool
    """`GET /connectors/{c}/tasks-config`."""
    rest_offsets: bool
    """`GET /connectors/{c}/offsets`."""
    rest_all_plugins: bool
    """Plugins that are no connectors are listed, too, and each tells the keys that it defines."""
    rest_framework_keys: bool
    """Beside the keys that a connector defines, it tells those of Connect's own."""
    rest_kinds_by_class: bool
    """A plugin is of one kind: a converter of headers that is a converter, too, is called that."""
    rest_order_in_group: bool
    """A key's place in its group is told beside the group, and is called so."""
    rest_failure_wrapped: bool
    """What a validation fails at is told with its Java class, as a failure of the worker."""
    rest_loggers: bool
    """`/admin/loggers`."""
    rest_logger_times: bool
    """A logger tells when it was changed; to set the level that it has already is no change."""
    rest_unset_loggers: bool
    """Loggers without a level of their own are listed, too; a change answers what it changed."""
    rest_health: bool
    """`GET /health`."""
    rest_internal_any_type: bool
    """What workers ask each other for may come with any `Content-Type`."""
    rest_stages_told: bool
    """Who was kept waiting for too long is told what the worker does meanwhile."""
    rest_server: Literal["jetty 9", "jetty 12", "ours"]
    """Whose HTTP server it is, by what it refuses before Connect sees it: Jetty 12 takes no encoded
    slash, percent sign or control character in a path."""
    rest_cross_origin: CrossOrigin
    """How browsers are let in from elsewhere: by Jetty's filter, by its handler (Jetty 12)."""
    rest_location_verbatim: bool
    """A `Location` escapes only what may not stand in a path; braces are a template."""
    rest_kip_offsets: bool
    """Offsets are answered, and may be asked for, in the representation of KIP-875."""
    rest_kip_topics_reset: bool
    """Resetting active topics is answered as done, as KIP-558 has it; elsewhere as accepted."""

    # --- reading request bodies (Jackson) ---------------------------------------------------
    rest_bad_body_is_askers: bool
    """A body that cannot be read is the asker's fault; elsewhere the worker fails at it."""
    rest_body_read_to_end: bool
    """Text behind the JSON value of a body is looked at, and refused."""
    rest_body_source_hidden: bool
    """Messages about bodies do not tell the Java class that was read from."""
    rest_body_error_placed_before: bool
    """Messages point at the character that is wrong; elsewhere behind it."""
    rest_body_word_placed_before: bool
    """Messages point at the beginning of a word that is none of JSON's; elsewhere at its end."""
    rest_body_switches: bool
    """Messages know of switches (Jackson 2.14) that would allow `+1` or `-.5`."""
    rest_body_out_of_token: bool
    """Jackson 2.10 says of another shape: "out of START_ARRAY token"; later "from Array value"."""
    rest_body_extra_end_known: bool
    """A bracket that closes nothing is called so; elsewhere it is a wrong one."""
    rest_body_stray_bracket: bool
    """The list of known fields ends in a bracket that nothing opens."""

    # --- writing ----------------------------------------------------------------------------
    writes_empty_commit: bool
    """An empty task set is committed (`{"tasks":0}`)."""
    writes_log_key: bool
    """Altered and removed offsets re-use the key bytes of the log."""
    writes_offsets_in_hash_order: bool
    """Several offsets are written in the order of Java's maps (else as they were asked for)."""
    writes_removals_first: bool
    """A removal goes to the worker's offsets topic before it goes to a connector's own."""
    reads_back_offsets: bool
    """Changed offsets are read back before anybody is told of success."""
    writes_tasks_when_reconfigured: bool
    """The tasks of a connector that does not run are committed again with each new config."""
    writes_atomically: bool
    """Records that belong together are one transaction, with exactly-once support or without."""
    inherits_target_state: bool
    """A target state that outlived its connector is taken over by the next of that name."""

    # --- commands ---------------------------------------------------------------------------
    stops: bool
    """Connectors can be stopped, and their offsets read."""
    alters_offsets: bool
    """Offsets of stopped connectors can be altered and reset."""
    creates_in_state: bool
    """A connector can be created paused or stopped."""
    creates_with_offsets: bool
    """A connector can be created with its first offsets."""
    patches_configs: bool
    """Some keys of a config can be changed."""
    records_bounded: bool
    """A record of more than 1 MiB is not sent: whoever asked for it is told that it failed."""
    names_lose_surrogates: bool
    """Half a surrogate in a connector's name is a question mark in its keys; else it is refused."""
    own_offsets_anywhere: bool
    """A connector's own offsets topic may be any: one of the cluster's others, or none at all."""
    patch_may_rename: bool
    """A patch may give a connector's config another `name` than the connector has."""
    restarts: bool
    """Connectors and tasks can be restarted."""
    restarts_concurrently: bool
    """A restart is accepted while the same instance is being restarted."""
    restart_writes_first: bool
    """A restart request of a connector without status is written, and refused then."""
    restart_knows_old_tasks: bool
    """Restarting a task beyond the committed count is a conflict: known, though nobody runs it."""
    logger_levels_trimmed: bool
    """White space around a logger level is ignored."""
    logger_levels_needed: bool
    """A worker fails at an empty logger level; elsewhere it is a level that there is not."""
    any_worker_writes: bool
    """Whoever is asked to pause, resume, reset topics or set a level writes it; else the leader."""
    forwards_null_state: bool
    """A creation without initial state is passed on to the leader with the state null."""

    # --- validating configs -----------------------------------------------------------------
    refuses_nulls: bool
    """A config may not hold null."""
    plugins_take_nulls: bool
    """... but under a key that the plugin defines it passes, and fails at start."""
    missing_class_is_askers: bool
    """A connector class that is not there is the asker's fault; else the worker fails at it."""
    missing_type_told_twice: bool
    """A transformation or predicate without a class of its kind is two errors."""
    sink_errors_listed: bool
    """A sink's own errors stand among the others; elsewhere the worker fails at the first."""
    converters_validated: bool
    """What is configured for a converter is looked at."""
    overrides_validated: bool
    """Settings for clients need a policy's consent."""
    overrides_allowed: bool
    """That policy is All where the worker's file names none; elsewhere None."""
    overrides_by_client: bool
    """Each kind of client is looked at by its own definition, and where it is used."""
    names_validate_endpoint: bool
    """The whole path of the endpoint is told that lists the errors."""
    versioned_plugins: bool
    """A config may ask for versions of its plugins, and is told which plugins there are."""
    plugins_instantiated: bool
    """A worker lists only plugins that it can make; elsewhere this holds for connectors alone."""

    # --- changes of release -----------------------------------------------------------------
    internal_converters: bool
    """Workers may be told to write the internal topics with other converters, or with schemas."""
    clients_outlive_kip_896: bool
    """Brokers from 4.0 on still speak the versions of the protocol that its clients need."""

    def __repr__(self) -> str:
        return f"Profile.of({self.release!r})"

    @property
    def kafka_release(self) -> str:
        """The release of Kafka whose plugins it has: for `kip` the newest."""
        return NEWEST if self.release == KIP else self.release

    @property
    def jetty(self) -> Jetty:
        """The HTTP server of the release; for `kip` that of the newest."""
        return _bundled(SERVERS, self.kafka_release)

    @property
    def jackson(self) -> Jackson:
        """The library that reads bodies in the release."""
        return _bundled(JACKSONS, self.kafka_release)

    def within(self, since: str | None, until: str | None) -> bool:
        """Whether the release lies in a span; None: the span has no such end."""
        at = _number(self.kafka_release)
        begun = since is None or _number(since) <= at
        return begun and (until is None or at < _number(until))

    @staticmethod
    def of(name: str) -> "Profile":
        """The profile of a release (`"3.4.1"`), a line (`"3.4"`: its last patch) or `"kip"`.

        Raises:
            UnknownRelease: the name means nothing.
        """
        return resolve(name).profile


_LINES = (
    "0.9.0:0-1 0.10.0:0-1 0.10.1:0-1 0.10.2:0-2 0.11.0:0-3 1.0:0-2 1.1:0-1 2.0:0-1 2.1:0-1 "
    "2.2:0-2 2.3:0-1 2.4:0-1 2.5:0-1 2.6:0-3 2.7:0-2 2.8:0-2 3.0:0-2 3.1:0-2 3.2:0-3 3.3:0-2 "
    "3.4:0-1 3.5:0-2 3.6:0-2 3.7:0-2 3.8:0-1 3.9:0-2 4.0:0-2 4.1:0-2 4.2:0-1 4.3:0-0"
)
"""Every release line with its patches, oldest first."""

KIP = "kip"
"""The name of our own profile: reads as the newest release, minus its defects."""


def _releases() -> tuple[str, ...]:
    names: list[str] = []
    for line in _LINES.split():
        stem, _, patches = line.partition(":")
        first, _, last = patches.partition("-")
        names += [f"{stem}.{patch}" for patch in range(int(first), int(last) + 1)]
    return tuple(names)


RELEASES = _releases()
"""Every release known here, oldest first."""

NEWEST = RELEASES[-1]

_NUMBERS_KEPT = 512
"""Release names whose numbers are kept: all that there are, and some that people make up."""


@lru_cache(_NUMBERS_KEPT)
def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _value(behaviour: Behaviour, release: str) -> Any:
    at = _number(release)
    for first, end, value in behaviour.spans:
        if _number(first) <= at and (end is None or at < _number(end)):
            return value
    return behaviour.other


@cache
def _profile(release: str) -> Profile:
    if release != KIP:
        row = {behaviour.field: _value(behaviour, release) for behaviour in BEHAVIOURS}
        return Profile(release=release, **row)
    newest = _profile(NEWEST)
    ours = {row.field: row.kip for row in BEHAVIOURS if row.kip is not None}
    return msgspec.structs.replace(newest, release=KIP, **ours)


_Library = TypeVar("_Library")


def _bundled(table: tuple[tuple[str, _Library], ...], release: str) -> _Library:
    """The row of a table of libraries that holds for a release."""
    at = _number(release)
    return next(library for first, library in reversed(table) if _number(first) <= at)


class Resolved(NamedTuple):
    """A profile, and what a person should be told about how its name was understood."""

    profile: Profile
    warning: str | None = None


def resolve(name: str) -> Resolved:
    """The profile a person means by `name`.

    A line means its last patch. A patch or line newer than all known means the newest known of it,
    with a warning. Raises `UnknownRelease` for anything else.
    """
    text = name.strip().lower()
    if text == KIP:
        return Resolved(_profile(KIP))
    if text in RELEASES:
        return Resolved(_profile(text))
    if not _RELEASE.fullmatch(text):
        raise UnknownRelease(_unknown(name))
    line = [release for release in RELEASES if release.startswith(text + ".")]
    if line:
        return Resolved(_profile(line[-1]))
    if _number(text) > _number(NEWEST):
        return Resolved(_profile(NEWEST), f"release {name} is not known; read as {NEWEST}")
    stem = text.rpartition(".")[0]
    patches = [release for release in RELEASES if release.rpartition(".")[0] == stem]
    if patches:
        last = patches[-1]
        return Resolved(_profile(last), f"release {name} is not known; read as {last}")
    raise UnknownRelease(_unknown(name))


def check_support(profile: Profile, *, exactly_once: bool) -> None:
    """Raise `UnknownRelease` where workers are to run with a support that their release lacks."""
    if exactly_once and not profile.exactly_once_support:
        raise UnknownRelease(
            f"{profile.release} has no exactly-once support, which came with KIP-618: "
            f"name a release from {since('exactly_once_support')} on, or read without that support"
        )


def since(field: str) -> str:
    """The first release that has a behaviour, given by its field of `Profile`."""
    return next(release for release in RELEASES if getattr(_profile(release), field))


NAME_DIGITS = 6
"""Digits of each number in a release's name: no release has as many, and no flood is read."""

NAME_SHOWN = 40
"""Characters of a name that a message repeats."""

_RELEASE = re.compile(rf"\d{{1,{NAME_DIGITS}}}(\.\d{{1,{NAME_DIGITS}}}){{1,3}}", re.ASCII)


def _unknown(name: str) -> str:
    told = name if len(name) <= NAME_SHOWN else name[: NAME_SHOWN - 1] + "…"
    return f"unknown release {told!r}: use {RELEASES[0]} to {NEWEST}, a line such as 3.9, or kip"


def _distinct() -> tuple[Profile, ...]:
    seen: dict[Profile, Profile] = {}
    for release in RELEASES:
        profile = _profile(release)
        seen.setdefault(msgspec.structs.replace(profile, release=""), profile)
    return (*seen.values(), _profile(KIP))


PROFILES = _distinct()
"""Each distinct profile once, under the first release that has it, oldest first; then `kip`."""

_FIRST = {msgspec.structs.replace(one, release=""): one for one in reversed(PROFILES)}


def first_alike(profile: Profile) -> Profile:
    """The one of `PROFILES` that reads and writes as this one does."""
    return profile if profile in PROFILES else _FIRST[msgspec.structs.replace(profile, release="")]

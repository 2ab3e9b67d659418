"""Edge cases of the status topic, the offsets topics and bytes, as questions to Kafka."""

from tests.oracle.edges_of_classes import FALLBACK, ISOLATION, SAFELY
from tests.oracle.probe import (
    Edge,
    Probe,
    at,
    both,
    commit,
    config,
    fate,
    holds,
    named,
    offsets,
    offsets_polled,
    report,
    status,
    task,
)

STATE = named("state", at("status.tasks", "a", "0", "state"))
LISTED = named("listed:", lambda answer: _listed(answer["offsets.partitions"]))
KEPT = named("raw records:", lambda answer: str(len(answer["offsets.data"])))
FOUND = named("answer:", lambda answer: _answered(answer["offsets.offsets"]))
PROPERTIES = at("config.connectorConfigs", "a")

ONE_TOPIC = '{"topic":{"name":"x","connector":"y","task":0,"discoverTimestamp":1}}'


def _listed(partitions: dict[str, list[str]]) -> str:
    rows = (f"`{name}` {partition}" for name, all_ in partitions.items() for partition in all_)
    return ", ".join(rows) or "nothing"


def _answered(offsets: dict[str, list[str]]) -> str:
    all_offsets = [offset for all_ in offsets.values() for offset in all_]
    if not all_offsets:
        return "nothing"
    return "null" if all_offsets[0].endswith(", null]") else "the offset"


def _value(raw: bytes, says: str) -> Probe:
    case = config(("connector-a", b'{"properties":{"k":' + raw + b"}}"))
    return Probe(says, case, both(fate(0), PROPERTIES))


def _number(text: str) -> Probe:
    return _value(text.encode(), f"`{text}`")


def _offset_key(key: str) -> Probe:
    return Probe(f"offset key `{key}`", offsets((key, "{}")), both(fate(0), KEPT, LISTED))


def _offset_lookup(key: str) -> Probe:
    return Probe(f"offset of key `{key}`, looked up", offsets((key, "{}")), FOUND)


def _state(state: str) -> Probe:
    case = status(report(1), report(2, state))
    return Probe(f"task RUNNING, then {state}", case, both(fate(1), STATE))


OTHER_EDGES = (
    Edge(
        20,
        "A tombstone of a connector's status removes the task statuses read before it.",
        (
            Probe(
                "task status, then the connector's tombstone",
                status(report(1), ("status-connector-a", None)),
                named("connectors with task statuses:", holds("status.tasks")),
            ),
            Probe(
                "the connector's tombstone, then task status",
                status(("status-connector-a", None), report(1)),
                named("connectors with task statuses:", holds("status.tasks")),
            ),
        ),
    ),
    Edge(
        21,
        "From 3.6 on, readers ignore a stale UNASSIGNED of a task.",
        tuple(
            Probe(
                f"RUNNING of generation 2, UNASSIGNED of {generation}",
                status(report(2), report(generation, "UNASSIGNED")),
                STATE,
            )
            for generation in (1, 2, 3)
        ),
    ),
    Edge(
        22,
        "A status with an unknown state leaves the previous status in place.",
        tuple(map(_state, ("RESTARTING", "STOPPED", "DESTROYED", "SLEEPING"))),
    ),
    Edge(
        23,
        "The key `status-topic-T:connector-C` identifies an active topic, and the value names it; "
        "any ten characters may replace `connector-`.",
        (
            Probe(
                "key `status-topic-t:ZZZZZZZZZZc`, value of topic `x`",
                status(("status-topic-t:ZZZZZZZZZZc", ONE_TOPIC)),
                at("status.topics", "c", "t", "topic"),
            ),
            Probe(
                "key `status-topic-t:connecto😀b`: colon and ten UTF-16 units, then `b`",
                status(("status-topic-t:connecto😀b", ONE_TOPIC)),
                at("status.topics", "b", "t", "topic"),
            ),
        ),
        "A reset uses the names in the value: `AbstractHerder#resetConnectorActiveTopics`.",
    ),
    Edge(
        24,
        "The raw key identifies an offset; lists show the parsed keys.",
        (
            Probe(
                '`["a",{"p":1}]` and `["a", {"p":1}]`',
                offsets(('["a",{"p":1}]', "{}"), ('["a", {"p":1}]', "{}")),
                both(KEPT, LISTED),
            ),
            Probe(
                "... and a tombstone of the second",
                offsets(
                    ('["a",{"p":1}]', "{}"), ('["a", {"p":1}]', "{}"), ('["a", {"p":1}]', None)
                ),
                both(KEPT, LISTED),
            ),
            Probe("offset, then its tombstone", offsets(("k", "{}"), ("k", None)), KEPT),
            _offset_lookup('["a",{"db":"d","table":"t","schema":"s"}]'),
            _offset_lookup('["a",{"schema":"s","db":"d","table":"t"}]'),
            _offset_lookup('["a",{"p":[1]}]'),
        ),
        "`OffsetStorageReaderImpl` looks up an offset, as for `GET /connectors/a/offsets` "
        "(from 3.5). *Nothing*: the answer omits the partition. *null*: the answer has the "
        "partition without an offset.",
    ),
    Edge(
        25,
        "Java writes JSON in its own way: `\\uD83D\\uDE00`, `1.0E10`, `\\u001F`.",
        tuple(
            map(
                _offset_lookup,
                (
                    r'["a",{"c":"\u001F","d":1.0E10,"e":"\uD83D\uDE00"}]',
                    r'["a",{"c":"\u001f"}]',
                    '["a",{"d":1e10}]',
                    '["a",{"e":"😀"}]',
                    '["a",{"é":"/"}]',
                ),
            )
        ),
        "A worker finds an offset only if it writes the key with the same bytes. The recorded "
        "histories hold more keys that workers of 2.8, 3.4, 3.9 and 4.3 wrote.",
    ),
    Edge(
        26,
        "Workers choose partitions by murmur2.",
        note="The stores do not choose partitions. In the recorded histories, every record is in "
        "the partition that murmur2 computes.",
    ),
    Edge(
        27,
        "A connector's own offsets topic never falls back to the worker's.",
        note="`KafkaOffsetBackingStore#get` returns null for an offset that the connector's own "
        "topic lacks. This null replaces the value of the worker's topic. Connectors can have "
        "their own offsets topics from 3.3.0 on.",
        questions=FALLBACK,
    ),
    Edge(
        28,
        "`read_committed` needs exactly-once support, and never holds for statuses.",
        note="Exactly-once support exists from 3.3.0 on. Releases before 3.4 contact a broker "
        "before they set up the consumer, so this test omits them. The history "
        "`aborted-3.9` shows the effect on configs and offsets. "
        "`tests/kafka/test_aborted_statuses.py` asks real workers.",
        questions=ISOLATION,
    ),
    Edge(
        29,
        "In 3.5.0, 3.5.1 and 3.6.0, an offset key that is not JSON loses its batch.",
        (
            *map(_offset_key, ("{", '["a",null]', '["a"]', "[1,{}]", '["a",{"p":01}]')),
            Probe(
                "batch of a good key, `{`, a good key; then a good key",
                offsets_polled(*((key, "{}") for key in ("[1]", "{", "[2]", "[3]"))),
                KEPT,
            ),
        ),
        "3.5.1, which is not tested, reads these keys as 3.5.0 does (KAFKA-15800).",
    ),
    Edge(
        30,
        "`putSafe` of 0.10.0 refuses to write if nothing is cached.",
        note="The writer has this rule (`canWrite`, later `canWriteSafely`), so no record shows "
        "it. Releases from 0.10.1.0 on allow the write; this list omits 0.10.1 and 0.10.2.",
        questions=SAFELY,
    ),
    Edge(
        31,
        "Generations and pending fencing depend on what compaction has left.",
        tuple(
            Probe(
                says,
                config(*log),
                both(
                    named("generation", at("config.connectorTaskConfigGenerations", "a")),
                    named("pending:", at("config.connectorsPendingFencing")),
                ),
            )
            for says, log in (
                (
                    "task 0, commit 1, twice",
                    (("connector-a", '{"properties":{}}'), task(0), commit(1), task(0), commit(1)),
                ),
                (
                    "the same after compaction",
                    (("connector-a", '{"properties":{}}'), task(0), commit(1)),
                ),
            )
        ),
        note="Applied connector configs (`appliedConnectorConfigs`) depend on compaction, too. "
        "Random logs test them (`tests/oracle/`).",
    ),
    Edge(
        32,
        "Java and Python differ in how they replace bytes of keys that are not UTF-8.",
        tuple(
            Probe(
                f"key `connector-` and {raw.hex(' ').upper()}",
                config((b"connector-" + raw, '{"properties":{}}')),
                named("name", lambda answer: ascii(*(answer["config.connectorConfigs"] or ("",)))),
            )
            for raw in (b"\xed\xa0\x80", b"\xed\xa0", b"\xff", b"\xe2\x82", b"\xc0\x80")
        ),
    ),
    Edge(
        33,
        "Jackson accepts some invalid UTF-8 in values.",
        tuple(
            _value(b'"' + raw + b'"', f"a string of {raw.hex(' ').upper()}")
            for raw in (
                b"\xc0\x80",
                b"\xf4\x90\x80\x80",
                b"\xed\xa0\x80",
                b"\xed\xa0\xbd\xed\xb8\x80",
                b"\xff",
                b"\xe2\x82",
            )
        ),
    ),
    Edge(
        34,
        "Integers wrap at 64 bits, fractions lose signs or become infinite, and 3.7 added limits.",
        (
            *map(_number, ("9223372036854775808", "18446744073709551617", "-0.0", "1e400", "01")),
            *map(_number, ("1e99999999999", "1e-99999999999", "-0e99999999999")),
            _value(b"7" * 1001, "an integer of 1001 digits"),
            _value(b'0},"n":' + b"[" * 998 + b"]" * 998 + b',"m":{"x":0', "a value of 999 levels"),
            _value(
                b'0},"n":' + b"[" * 1000 + b"]" * 1000 + b',"m":{"x":0', "a value of 1001 levels"
            ),
            _value(b'0},"' + b"n" * 50_001 + b'":{"x":0', "a name of 50 001 bytes"),
        ),
    ),
)

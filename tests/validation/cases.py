"""Configs, valid and invalid, that workers of many releases have validated."""

from collections.abc import Iterator, Mapping

ConfigBody = dict[str, str | None]
Value = str | None

APACHE = "org.apache.kafka.connect."
TRANSFORM = f"{APACHE}transforms."
JSON = f"{APACHE}json.JsonConverter"

SOURCE: ConfigBody = {
    "name": "x",
    "connector.class": "FileStreamSource",
    "topic": "t",
    "file": "/tmp/in",
}
SINK: ConfigBody = {
    "name": "x",
    "connector.class": "FileStreamSink",
    "topics": "a",
    "file": "/tmp/out",
}
MIRROR: ConfigBody = {
    "name": "x",
    "connector.class": f"{APACHE}mirror.MirrorSourceConnector",
    "source.cluster.alias": "west",
    "target.cluster.alias": "east",
}
CHECKPOINT = MIRROR | {"connector.class": f"{APACHE}mirror.MirrorCheckpointConnector"}
HEARTBEAT = MIRROR | {"connector.class": f"{APACHE}mirror.MirrorHeartbeatConnector"}

CLASSES: tuple[Value, ...] = (
    *(None, "", " FileStreamSource", "filestreamsource", "FileStreamSourceConnector"),
    *("FileStreamSource", "FileStreamSink", "no.such.Class", "java.lang.String", JSON),
    f"{APACHE}source.SourceConnector",
)

ONE_KEY: Mapping[str, tuple[Value, ...]] = {
    "name": ("", "a\x01b", "x\x85y", " pad "),
    "topic": ("", None),
    "batch.size": ("x", "-1", None),
    "file": (None,),
    "unknown": (None, "x"),
    "tasks.max": ("0", "-1", "zero", "", None, "1.5", " 2 ", "2147483648", "+3", "\u0661"),
    "tasks.max.enforce": ("x",),
    "config.action.reload": ("maybe", None, "RESTART"),
    "errors.tolerance": ("some", "ALL", None),
    "errors.log.enable": ("yes", "TRUE", None),
    "errors.retry.timeout": ("x", "-5"),
    "errors.retry.delay.max.ms": ("9223372036854775808",),
    "errors.log.include.messages": ("",),
    "key.converter": ("no.such", "", None, "JsonConverter", "Json"),
    "value.converter": (f"{APACHE}file.FileStreamSourceConnector",),
    "header.converter": (
        f"{APACHE}storage.SimpleHeaderConverter",
        "x",
        f"{TRANSFORM}RegexRouter",
    ),
    "transforms": ("t", "t,t", "", None, "a,,b", " a , b "),
    "predicates": ("p", "p,p"),
    "topic.creation.groups": ("a,a", None),
    "exactly.once.support": ("required", "maybe", " Required ", None),
    "transaction.boundary": ("connector", "sometimes"),
    "transaction.boundary.interval.ms": ("x", None),
    "offsets.storage.topic": ("", " "),
    "producer.override.linger.ms": ("x",),
    "producer.override.acks": (None,),
    "producer.override.": ("x",),
    "consumer.override.max.poll.records": ("x",),
    "admin.override.retries": ("x",),
    "connector.plugin.version": ("1.0", "latest", "[1.0,"),
    "key.converter.plugin.version": ("1.0",),
}
"""Values of one key, added to a valid source config."""

SINKS_KEY: Mapping[str, tuple[Value, ...]] = {
    "name": ("cluster",),
    "topics": ("", None, "a,,b", "a,a", " a , b "),
    "topics.regex": ("a",),
    "errors.deadletterqueue.topic.name": ("a", None),
    "errors.deadletterqueue.topic.replication.factor": ("x", "32768"),
    "errors.deadletterqueue.context.headers.enable": ("x",),
    "producer.override.linger.ms": ("x",),
    "consumer.override.max.poll.records": ("x",),
    "consumer.override.linger.ms": ("x",),
    "consumer.override.group.id": ("connect-cluster", "other", None),
}
"""Values of one key, added to a valid sink config."""

MIRRORS_KEY: Mapping[str, tuple[Value, ...]] = {
    "name": (None,),
    "exactly.once.support": ("required",),
    "offset-syncs.topic.location": ("moon",),
    "tasks.max": ("0", None),
    "use.incremental.alter.configs": ("perhaps",),
    "security.protocol": ("nope",),
    "replication.policy.class": ("no.such.Policy",),
    "key.converter": ("no.such",),
    "transforms": ("t",),
    "metric.names.formats": ("old",),
}

TRANSFORMED: tuple[tuple[str | None, ConfigBody], ...] = (
    ("no.such", {}),
    (None, {}),
    ("", {}),
    ("RegexRouter", {}),
    (f"{TRANSFORM}RegexRouter", {"regex": "(", "replacement": "x"}),
    (f"{TRANSFORM}RegexRouter", {"regex": "a*", "replacement": "x", "negate": "true"}),
    (f"{TRANSFORM}InsertField", {}),
    (f"{TRANSFORM}InsertField$Value", {"static.field": "a"}),
    (JSON, {}),
    (f"{TRANSFORM}predicates.RecordIsTombstone", {}),
    (f"{TRANSFORM}Cast$Value", {}),
    (f"{TRANSFORM}Cast$Value", {"spec": ""}),
    (f"{TRANSFORM}Cast$Value", {"spec": "a:b:c"}),
    (f"{TRANSFORM}Cast$Value", {"spec": "a:nope"}),
    (f"{TRANSFORM}Cast$Value", {"spec": "a:bytes"}),
    (f"{TRANSFORM}Cast$Value", {"spec": "string,int8"}),
    (f"{TRANSFORM}ReplaceField$Value", {"renames": "a"}),
    (f"{TRANSFORM}ReplaceField$Value", {"renames": "a:b", "replace.null.with.default": "x"}),
    (f"{TRANSFORM}HeaderFrom$Value", {"fields": "", "headers": "h", "operation": "steal"}),
    (f"{TRANSFORM}InsertHeader", {}),
    (f"{TRANSFORM}MaskField$Value", {"fields": "a", "replacement": ""}),
    (f"{TRANSFORM}TimestampConverter$Value", {"target.type": "x", "unix.precision": "y"}),
    (f"{TRANSFORM}ValueToKey", {"fields": ""}),
    (f"{TRANSFORM}ExtractField$Key", {"field.syntax.version": "v9"}),
    (f"{TRANSFORM}Filter", {}),
    (f"{TRANSFORM}DropHeaders", {"headers": ""}),
    (f"{TRANSFORM}Flatten$Value", {}),
    (f"{TRANSFORM}SetSchemaMetadata$Value", {"schema.version": "x"}),
    (f"{TRANSFORM}ReplaceField$Value", {"renames": None, "include": None}),
    (f"{TRANSFORM}RegexRouter", {"regex": None, "replacement": None}),
    (f"{TRANSFORM}Cast$Value", {"spec": None}),
    (f"{TRANSFORM}HeaderFrom$Key", {"fields": None, "headers": None, "operation": None}),
    (f"{TRANSFORM}TimestampConverter$Value", {"target.type": None, "unix.precision": None}),
    (f"{TRANSFORM}ValueToKey", {"fields": None}),
    (f"{TRANSFORM}SetSchemaMetadata$Value", {"schema.version": None, "schema.name": None}),
)
"""Types of a transformation, with its config."""

PREDICATED: tuple[tuple[str, ConfigBody], ...] = (
    (f"{TRANSFORM}predicates.TopicNameMatches", {}),
    ("TopicNameMatches", {"pattern": "["}),
    (f"{TRANSFORM}predicates.HasHeaderKey", {"name": ""}),
    (f"{TRANSFORM}RegexRouter", {}),
)

TOGETHER: tuple[ConfigBody, ...] = (
    {},
    {"name": "x"},
    {"name": "x", "a": None, "b": "c"},
    SOURCE | {"unknown": None, "other": None, "more.keys": None},
    SOURCE
    | {
        "key.converter": JSON,
        "key.converter.schemas.enable": "maybe",
        "key.converter.schemas.cache.size": "-1",
    },
    SOURCE
    | {
        "value.converter": JSON,
        "value.converter.decimal.format": "nope",
        "value.converter.converter.type": "nope",
    },
    SOURCE | {"header.converter": JSON, "header.converter.schemas.enable": "x"},
    SOURCE | {"key.converter": "JsonConverter", "key.converter.plugin.version": "[1,)"},
    SOURCE
    | {
        "key.converter": f"{APACHE}storage.StringConverter",
        "key.converter.converter.encoding": None,
    },
    SOURCE
    | {
        "transforms": "t",
        "transforms.t.type": f"{TRANSFORM}RegexRouter",
        "transforms.t.regex": "a*",
        "transforms.t.replacement": "x",
        "transforms.t.negate": "maybe",
        "transforms.t.predicate": "p",
        "predicates": "p",
        "predicates.p.type": f"{TRANSFORM}predicates.RecordIsTombstone",
    },
    SOURCE
    | {"topic.creation.default.partitions": "x", "topic.creation.default.replication.factor": "0"},
    SOURCE | {"transaction.boundary": "INTERVAL", "transaction.boundary.interval.ms": "-5"},
    SOURCE | {"offsets.storage.topic": "own", "consumer.override.max.poll.records": "x"},
    SOURCE | {"offsets.storage.topic": "own", "admin.override.retries": "x"},
    SOURCE
    | {
        "producer.override.acks": "some",
        "producer.override.batch.size": "5",
        "producer.override.made.up": "1",
    },
    SOURCE | {"topic.creation.groups": "a", "admin.override.retries": "x"},
    SOURCE
    | {
        "producer.override.ssl.keystore.password": "secret",
        "producer.override.compression.type": "zip",
    },
    SINK | {"topics": "b,a", "errors.deadletterqueue.topic.name": " a "},
    SINK | {"errors.deadletterqueue.topic.name": "d", "producer.override.linger.ms": "x"},
    SINK | {"errors.deadletterqueue.topic.name": "d", "admin.override.retries": "x"},
    SINK | {"name": "cluster", "consumer.override.group.id": "other"},
    SINK | {"exactly.once.support": "required", "tasks.max": "0"},
    SINK
    | {
        "tasks.max": "z",
        "transforms": "r",
        "transforms.r.type": "RegexRouter",
        "predicates": "p",
        "predicates.p.type": "TopicNameMatches",
        "predicates.p.pattern": "(",
    },
    MIRROR,
    CHECKPOINT,
    HEARTBEAT,
    MIRROR | {"exactly.once.support": "required", "consumer.isolation.level": "read_committed"},
    MIRROR
    | {"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"},
    MIRROR | {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"},
    MIRROR | {"refresh.topics.enabled": "maybe", "refresh.topics.interval.seconds": "x"},
    CHECKPOINT | {"emit.checkpoints.enabled": "false"},
    CHECKPOINT | {"emit.checkpoints.enabled": "false", "emit.offset-syncs.enabled": "false"},
    CHECKPOINT | {"enabled": "false", "emit.checkpoints.enabled": "false"},
)

BY_REGEX: tuple[ConfigBody, ...] = (
    {},
    {"topics.regex": "("},
    {"topics.regex": "a.*"},
    {"topics.regex": ""},
    {"topics.regex": "*a"},
    {"topics.regex": "a.*", "errors.deadletterqueue.topic.name": "ab"},
    {"topics.regex": "(", "errors.deadletterqueue.topic.name": "ab"},
)
"""Keys to add to a sink config without topics."""


def cases() -> Iterator[ConfigBody]:
    """Yield every config to validate, each once."""
    yield from TOGETHER
    yield from ({"name": "x", "connector.class": name} for name in CLASSES)
    for config, keys in ((SOURCE, ONE_KEY), (SINK, SINKS_KEY), (MIRROR, MIRRORS_KEY)):
        yield from (config | {key: value} for key, values in keys.items() for value in values)
    yield from (without(SINK, "topics") | change for change in BY_REGEX)
    yield without(SOURCE, "name")
    yield without(SOURCE, "file") | {"exactly.once.support": "required"}
    yield without(MIRROR, "source.cluster.alias")
    yield without(HEARTBEAT, "target.cluster.alias")
    yield from (_aliased("transforms", "t", *transformation) for transformation in TRANSFORMED)
    yield from (_aliased("predicates", "p", *predicate) for predicate in PREDICATED)


def without(config: ConfigBody, key: str) -> ConfigBody:
    """A config that lacks a key."""
    return {name: value for name, value in config.items() if name != key}


def _aliased(listed: str, alias: str, kind: Value, own: ConfigBody) -> ConfigBody:
    prefix = f"{listed}.{alias}."
    configured = {prefix + key: value for key, value in own.items()}
    return SOURCE | {listed: alias, f"{prefix}type": kind} | configured

"""Request bodies: bytes to values, or an error in the words of a release.

Connect reads bodies with a stock Jackson. If that fails, it answers 500 with Jackson's message,
which names tokens, Java classes and columns. Clients of each release get that message verbatim
(`body_tokens`, `binding`). The profile `kip` is this project's own: the newest release, with known
defects corrected. It answers such a body with 400, and its error names the field.
"""

from contextlib import suppress
from typing import Any, NamedTuple

from controlplane.core.java.jackson_tokens import Token, TokenKind
from controlplane.core.releases.profiles import Profile
from controlplane.rest.bodies import fast_json
from controlplane.rest.bodies.binding import (
    MAP,
    TEXT,
    Bean,
    BodyReader,
    Shape,
    choice,
    list_of,
    map_of,
    text,
    texts,
    values,
)
from controlplane.rest.bodies.body_errors import ENTITIES, Fault, source
from controlplane.rest.bodies.body_tokens import BodyTokens
from controlplane.rest.errors import BadRequest, BodyTooLarge, RequestFailed, RestError

RequestConfig = dict[str, str | None]


class Creation(NamedTuple):
    """Parsed body of `POST /connectors`; an optional field that is missing or null is None."""

    name: str | None
    config: RequestConfig
    initial_state: str | None = None
    initial_offsets: list["Offset"] | None = None


class Offset(NamedTuple):
    """A requested offset. `kind` is the connector type that the client gives, if any."""

    partition: dict[str, Any] | None
    offset: dict[str, Any] | None
    kind: str | None = None


def create(body: bytes | None, profile: Profile) -> Creation:
    """Parse the body of `POST /connectors`. All parsers in this module raise `RestError`."""
    fields = _read(body, _create_bean(profile), profile, fast_json.bean(_PLAIN_CREATE))
    if fields is None:
        method = f"{ENTITIES}.CreateConnectorRequest.name()"
        raise _missing(profile, _null("createRequest", method))
    if fields.get("config") is None:
        raise _missing(profile, _null("connectorConfig", _GET), "field config")
    _check_aliases(fields["config"])
    offsets = fields.get("initial_offsets")
    return Creation(
        fields.get("name"),
        fields["config"],
        fields.get("initial_state"),
        None if offsets is None else _listed(offsets, profile),
    )


def config(body: bytes | None, profile: Profile) -> RequestConfig:
    """Parse the body of `PUT /connectors/{c}/config`."""
    settings: RequestConfig | None = _read(body, texts, profile, fast_json.texts)
    if settings is None:
        raise _missing(profile, _null("connectorConfig", _GET))
    _check_aliases(settings)
    return settings


def patch(body: bytes | None, profile: Profile) -> RequestConfig | None:
    """Parse the body of `PATCH /connectors/{c}/config`; None for null (see `null_patch`)."""
    changes: RequestConfig | None = _read(body, texts, profile, fast_json.texts)
    _check_aliases(changes or {})
    return changes


ALIASES_MAX = 1_000
"""Maximum transformations and predicates of a config. The validation of each costs as much as that
of 200 keys."""


def _check_aliases(config: RequestConfig) -> None:
    lists = (config.get(key) for key in ("transforms", "predicates"))
    if sum(aliases.count(",") + 1 for aliases in lists if aliases) > ALIASES_MAX:
        raise BodyTooLarge(f"The config has more than {ALIASES_MAX} transforms and predicates")


def null_patch(profile: Profile) -> RestError:
    """Return the refusal of a null patch; a worker sends it once it has found the connector."""
    method = "java.util.Map.forEach(java.util.function.BiConsumer)"
    return _missing(profile, _null("patch", method))


def alteration(body: bytes | None, profile: Profile) -> list[Offset]:
    """Parse the body of `PATCH /connectors/{c}/offsets`."""
    bean = Bean("ConnectorOffsets", {"offsets": _offsets(profile)})
    fields = _read(body, bean, profile, fast_json.bean({"offsets": fast_json.offsets}))
    if fields is None:
        raise _missing(profile, _null("offsets", f"{ENTITIES}.ConnectorOffsets.offsets()"))
    return _listed(fields.get("offsets") or [], profile)


def level(body: bytes | None, profile: Profile) -> str:
    """Parse the body of `PUT /admin/loggers/{l}`."""
    fields: RequestConfig | None = _read(body, texts, profile, fast_json.texts)
    if fields is None:
        raise _missing(profile, _null("levelMap", _GET))
    named_level = fields.get("level")
    if named_level is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    return named_level


def task_configs(body: bytes | None, profile: Profile) -> list[RequestConfig | None]:
    """Parse the body of the internal `POST /connectors/{c}/tasks`. A null body is an empty list."""
    shape = list_of(texts, f"java.util.Map<{TEXT},{TEXT}>")
    read_plain = fast_json.list_of(fast_json.texts)
    if not profile.session_keys:  # releases without signatures read this body as any other
        return _read(body, shape, profile, read_plain) or []
    body = body or b""
    source_name = source(profile, body)
    if not body.strip():
        column = "" if profile.rest_body_source_hidden else ", column: 0"
        where = f"[Source: {source_name}; line: 1{column}]"
        raise _missing(profile, f"No content to map due to end-of-input\n at {where}")
    return _read(body, shape, profile, read_plain, source_name) or []


_GET = "java.util.Map.get(Object)"


_PLAIN_CREATE = {"name": fast_json.text, "config": fast_json.texts}
"""Fields of a creation that every release has. A body with other fields is read token by token."""


def _create_bean(profile: Profile) -> Bean:
    fields: dict[str, Shape] = {"config": texts, "name": text}
    if profile.creates_in_state:
        states = ("RUNNING", "PAUSED", "STOPPED")
        fields["initial_state"] = choice("CreateConnectorRequest$InitialState", states)
    if profile.creates_with_offsets:
        fields["initial_offsets"] = _offsets(profile)
    return Bean("CreateConnectorRequest", fields)


# --- offsets ------------------------------------------------------------------------------------

_OFFSET = Bean("ConnectorOffset", {"partition": values, "offset": values})
_LIST = list_of(_OFFSET, f"{ENTITIES}.ConnectorOffset")
_BY_KIND = map_of(_LIST, MAP)

_KINDS = ("source", "sink")
_LONG_KEYS = {"topic": "kafka_topic", "partition": "kafka_partition", "offset": "kafka_offset"}
"""Keys of sink offsets: KIP-875's name to Kafka's."""


def _offsets(profile: Profile) -> Shape:
    """Return the shape of a list of offsets; `kip` also admits the object `{"sink": [...]}`."""
    return _list_or_kip_form if profile.rest_kip_offsets else _LIST


def _list_or_kip_form(reader: BodyReader, token: Token) -> Any:
    return (_BY_KIND if token.kind is TokenKind.OBJECT else _LIST)(reader, token)


def _listed(value: Any, profile: Profile) -> list[Offset]:
    """Return the offsets of either form; at least one is required."""
    kind, listed = None, value
    if isinstance(value, dict):
        kind, listed = next(iter(value.items()), (None, []))
        if value and (len(value) > 1 or kind not in _KINDS):
            raise BadRequest('The field offsets has to be a list, {"source": []} or {"sink": []}')
    if not listed:
        raise BadRequest(
            "Partitions / offsets need to be provided for an alter offsets request",
        )
    return [_offset(item, kind, profile) for item in listed]


def _offset(item: dict[str, Any] | None, kind: str | None, profile: Profile) -> Offset:
    if item is None:
        method = f"{ENTITIES}.ConnectorOffset.partition()"
        raise _missing(profile, _null("offset", method), "element of offsets")
    partition, offset = item.get("partition"), item.get("offset")
    if kind == "sink":
        partition, offset = _with_long_keys(partition), _with_long_keys(offset)
    return Offset(partition, offset, kind)


def _with_long_keys(fields: dict[str, Any] | None) -> dict[str, Any] | None:
    if fields is None:
        return None
    return {_LONG_KEYS.get(name, name): value for name, value in fields.items()}


# --- reading and refusing -----------------------------------------------------------------------


def _read(
    body: bytes | None,
    shape: Shape,
    profile: Profile,
    read_plain: fast_json.PlainReader,
    source_name: str | None = None,
) -> Any:
    """Return the value of a body; None if it is empty. `read_plain` is the fast reader.

    `source_name`: name of the source in errors, if Connect passes bytes to Jackson instead of a
    stream. Jackson then allows data after the value.

    Raises:
        RestError: the body is invalid.
        LargeBodyNotPlain: the body is a `LargeBody`, and must be read token by token.
    """
    with suppress(fast_json.NotPlain):
        return fast_json.read(body or b"", read_plain)
    if isinstance(body, fast_json.LargeBody):
        raise fast_json.LargeBodyNotPlain
    origin = source_name or source(profile)
    units = ""
    try:
        tokens = BodyTokens(body or b"", profile, origin)
        units = tokens.units
        first = tokens.next()
        if first is None:
            return None
        value = shape(BodyReader(tokens, profile), first)
        if source_name is None and profile.rest_body_read_to_end:
            _check_end(tokens, shape)
    except Fault as fault:
        raise _refused(fault, units, profile, origin) from None
    return value


def _check_end(tokens: BodyTokens, shape: Shape) -> None:
    token = tokens.next()
    if token is None:
        return
    bound = shape.class_name if isinstance(shape, Bean) else "java.util.Map"
    raise Fault(
        f"Trailing token (of type {token.kind.value[0]}) found after value (bound as `{bound}`): "
        "not allowed as per `DeserializationFeature.FAIL_ON_TRAILING_TOKENS`",
        token.at,
    )


def _refused(fault: Fault, units: str, profile: Profile, origin: str) -> RestError:
    """Return the error that answers a fault."""
    if profile.rest_bad_body_is_client_error:
        return BadRequest(f"{fault.text}. Look at {_field(fault)}{_at(fault, units)}.")
    text = fault.text
    if (where := fault.place(units)) is not None:
        shown = f"line: {where.line}, column: {where.column}"
        text += f"\n at [Source: {origin}; {shown}]"
    if fault.chain:
        text += f" (through reference chain: {'->'.join(map(str, fault.chain))})"
    return RequestFailed(text)


def _field(fault: Fault) -> str:
    """Return the path of the faulty field, as in `offsets[0].partition`."""
    path = "".join(
        f".{link.field}" if isinstance(link.field, str) else f"[{link.field}]"
        for link in fault.chain
    )
    return path.removeprefix(".") or "the body"


def _at(fault: Fault, units: str) -> str:
    where = fault.place(units)
    return "" if where is None else f", line {where.line}, column {where.column}"


def _missing(profile: Profile, java_message: str, noun: str = "body of the request") -> RestError:
    """Return the error for a missing or null value.

    Kafka does not check for such a value. It fails when it uses the value, with `java_message`.
    """
    if profile.rest_bad_body_is_client_error:
        return BadRequest(f"The {noun} is missing")
    return RequestFailed(java_message)


def _null(variable: str, method: str) -> str:
    """Return the JVM's message (Java 14 and later) for a method call on null."""
    return f'Cannot invoke "{method}" because "{variable}" is null'

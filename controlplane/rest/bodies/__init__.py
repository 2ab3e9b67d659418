"""Request bodies: bytes → what they ask for, or what is wrong with them in the words of a release.

Connect reads bodies with a stock Jackson and answers 500 with its message where that fails. Those
messages name tokens, Java classes and columns; they are what clients of each release get, so they
are given here to the letter (`tokens`, `binding`). Under `kip` the same faults are the asker's, and
a sentence names the field.
"""

from contextlib import suppress
from typing import Any, NamedTuple

from controlplane.core.profiles import Profile
from controlplane.rest.bodies import plain
from controlplane.rest.bodies.binding import (
    MAP,
    TEXT,
    Bean,
    Reader,
    Shape,
    choice,
    list_of,
    map_of,
    text,
    texts,
    values,
)
from controlplane.rest.bodies.faults import ENTITIES, Fault, source
from controlplane.rest.bodies.tokens import Kind, Token, Tokens
from controlplane.rest.errors import BadRequest, BodyTooLarge, Failed, RestError

Config = dict[str, str | None]


class Create(NamedTuple):
    """The body of `POST /connectors`."""

    name: str | None
    config: Config
    initial_state: str | None = None
    initial_offsets: list["Offset"] | None = None


class Offset(NamedTuple):
    """One wanted offset. `kind` is what the asker says the connector is, if he says it."""

    partition: dict[str, Any] | None
    offset: dict[str, Any] | None
    kind: str | None = None


def create(body: bytes | None, profile: Profile) -> Create:
    """The body of `POST /connectors`. Raises `RestError` as all of these do."""
    found = _read(body, _create_bean(profile), profile, plain.bean(_PLAIN_CREATE))
    if found is None:
        method = f"{ENTITIES}.CreateConnectorRequest.name()"
        raise _missing(profile, _null("createRequest", method))
    if found.get("config") is None:
        raise _missing(profile, _null("connectorConfig", _GET), "field config")
    _check_aliases(found["config"])
    offsets = found.get("initial_offsets")
    return Create(
        found.get("name"),
        found["config"],
        found.get("initial_state"),
        None if offsets is None else _listed(offsets, profile),
    )


def config(body: bytes | None, profile: Profile) -> Config:
    """The body of `PUT /connectors/{c}/config`."""
    found: Config | None = _read(body, texts, profile, plain.texts)
    if found is None:
        raise _missing(profile, _null("connectorConfig", _GET))
    _check_aliases(found)
    return found


def patch(body: bytes | None, profile: Profile) -> Config | None:
    """Read the body of `PATCH /connectors/{c}/config`; None: null, see `null_patch`."""
    found: Config | None = _read(body, texts, profile, plain.texts)
    _check_aliases(found or {})
    return found


ALIASES_MAX = 1_000
"""Most transformations and predicates of a config: validating one costs as much as 200 keys."""


def _check_aliases(config: Config) -> None:
    lists = (config.get(key) for key in ("transforms", "predicates"))
    if sum(aliases.count(",") + 1 for aliases in lists if aliases) > ALIASES_MAX:
        raise BodyTooLarge(f"The config has more than {ALIASES_MAX} transforms and predicates")


def null_patch(profile: Profile) -> RestError:
    """Refusal of a patch that is null, which a worker notices once it has found the connector."""
    method = "java.util.Map.forEach(java.util.function.BiConsumer)"
    return _missing(profile, _null("patch", method))


def alteration(body: bytes | None, profile: Profile) -> list[Offset]:
    """The body of `PATCH /connectors/{c}/offsets`."""
    bean = Bean("ConnectorOffsets", {"offsets": _offsets(profile)})
    found = _read(body, bean, profile, plain.bean({"offsets": plain.offsets}))
    if found is None:
        raise _missing(profile, _null("offsets", f"{ENTITIES}.ConnectorOffsets.offsets()"))
    return _listed(found.get("offsets") or [], profile)


def level(body: bytes | None, profile: Profile) -> str:
    """The body of `PUT /admin/loggers/{l}`."""
    found: Config | None = _read(body, texts, profile, plain.texts)
    if found is None:
        raise _missing(profile, _null("levelMap", _GET))
    wanted = found.get("level")
    if wanted is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    return wanted


def task_configs(body: bytes | None, profile: Profile) -> list[Config | None]:
    """The body of the internal `POST /connectors/{c}/tasks`. A null body is an empty list."""
    shape = list_of(texts, f"java.util.Map<{TEXT},{TEXT}>")
    plainly = plain.list_of(plain.texts)
    if not profile.session_keys:  # before requests were signed, they were read as others are
        return _read(body, shape, profile, plainly) or []
    body = body or b""
    named = source(profile, body)
    if not body.strip():
        column = "" if profile.rest_body_source_hidden else ", column: 0"
        where = f"[Source: {named}; line: 1{column}]"
        raise _missing(profile, f"No content to map due to end-of-input\n at {where}")
    return _read(body, shape, profile, plainly, named) or []


_GET = "java.util.Map.get(Object)"


_PLAIN_CREATE = {"name": plain.text, "config": plain.texts}
"""The fields of a creation in every release; those of some releases are read token by token."""


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
"""What KIP-875 calls the keys of sink offsets, and what Kafka does."""


def _offsets(profile: Profile) -> Shape:
    """A list of offsets; under `kip` the object of KIP-875 as well: `{"sink": [...]}`."""
    return _either if profile.rest_kip_offsets else _LIST


def _either(reader: Reader, token: Token) -> Any:
    return (_BY_KIND if token.kind is Kind.OBJECT else _LIST)(reader, token)


def _listed(given: Any, profile: Profile) -> list[Offset]:
    """The offsets of either form, of which there must be one at least."""
    kind, listed = None, given
    if isinstance(given, dict):
        kind, listed = next(iter(given.items()), (None, []))
        if given and (len(given) > 1 or kind not in _KINDS):
            raise BadRequest('The field offsets has to be a list, {"source": []} or {"sink": []}')
    if not listed:
        raise BadRequest(
            "Partitions / offsets need to be provided for an alter offsets request",
        )
    return [_one(item, kind, profile) for item in listed]


def _one(item: dict[str, Any] | None, kind: str | None, profile: Profile) -> Offset:
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
    plainly: plain.Plain,
    named: str | None = None,
) -> Any:
    """The value of a body; None where there is none. `plainly` reads the same of plain bodies.

    `named`: the source, where it is no stream; anything may follow the value then.

    Raises:
        RestError: there is something wrong with it.
        Unread: it is a `LargeBody`, and has to be read token by token.
    """
    with suppress(plain.NotPlain):
        return plain.read(body or b"", plainly)
    if isinstance(body, plain.LargeBody):
        raise plain.Unread
    origin = named or source(profile)
    units = ""
    try:
        tokens = Tokens(body or b"", profile, origin)
        units = tokens.scanner.units
        first = tokens.next()
        if first is None:
            return None
        found = shape(Reader(tokens, profile), first)
        if named is None and profile.rest_body_read_to_end:
            _check_end(tokens, shape)
    except Fault as fault:
        raise _refused(fault, units, profile, origin) from None
    return found


def _check_end(tokens: Tokens, shape: Shape) -> None:
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
    """A fault as it is answered."""
    if profile.rest_bad_body_is_askers:
        return BadRequest(f"{fault.text}. Look at {_field(fault)}{_at(fault, units)}.")
    text = fault.text
    if (where := fault.place(units)) is not None:
        shown = f"line: {where.line}, column: {where.column}"
        text += f"\n at [Source: {origin}; {shown}]"
    if fault.chain:
        text += f" (through reference chain: {'->'.join(map(str, fault.chain))})"
    return Failed(text)


def _field(fault: Fault) -> str:
    """The field that is at fault, as people write it: `offsets[0].partition`."""
    path = "".join(
        f".{link.field}" if isinstance(link.field, str) else f"[{link.field}]"
        for link in fault.chain
    )
    return path.removeprefix(".") or "the body"


def _at(fault: Fault, units: str) -> str:
    where = fault.place(units)
    return "" if where is None else f", line {where.line}, column {where.column}"


def _missing(profile: Profile, said: str, what: str = "body of the request") -> RestError:
    """Something is not there, or null. Releases look at it all the same."""
    if profile.rest_bad_body_is_askers:
        return BadRequest(f"The {what} is missing")
    return Failed(said)


def _null(variable: str, method: str) -> str:
    """What the JVM (Java 14 and later) says about a method that is called on null."""
    return f'Cannot invoke "{method}" because "{variable}" is null'

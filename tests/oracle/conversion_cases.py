"""Random questions about conversions: schemas, values, documents and header strings."""

import json
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from controlplane.connect.converters import JsonConverter
from controlplane.connect.data import SchemaAndValue
from controlplane.connect.errors import ConnectError
from tests.oracle.described_values import (
    Described,
    DescribedSchema,
    real,
    schema_of,
    value_of,
)

Question = dict[str, Any]

PACKAGE = "org.apache.kafka.connect"
DATA = f"{PACKAGE}.data"
JSON = f"{PACKAGE}.json.JsonConverter"
SIMPLE = f"{PACKAGE}.storage.SimpleHeaderConverter"
STRING = f"{PACKAGE}.storage.StringConverter"
NUMBERS = ("Short", "Integer", "Long", "Float", "Double")
PLAIN = tuple(
    f"{PACKAGE}.converters.{kind}Converter" for kind in (*NUMBERS, "Boolean", "ByteArray")
)

TEXTS = (
    *("", "a", "null", "true", "ü", "\U0001f600", "x\x1f\n", 'q"\\/', "1", "2024-01-31", "[1,2]"),
    *("\ud800", "a\u2028b", "12:30:00.000Z", "{a:1}", " b ", "AQID", "0x10"),
)
NAMES = ("a", "b", "id", "größe", "x y", "\U0001f600", "schema")
INTEGERS = {"INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64}
REALS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e7, 1e-3, 1e10, 123456.75, 1e-7, 3.0e38, 5e-324, 1.7e308)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
DAY_MS = 86_400_000
LOGICAL = {
    "Date": ("INT32", "date"),
    "Time": ("INT32", "time"),
    "Timestamp": ("INT64", "datetime"),
}
ENCODINGS = ("UTF-8", "ISO-8859-1", "US-ASCII", "UTF-16", "UTF-16LE", "UTF-16BE", "no-charset")


# --- schemas --------------------------------------------------------------------------------------


def schema(random: Random, depth: int = 3) -> DescribedSchema:
    """Any schema, with composite ones down to a depth."""
    kinds: list[Callable[[Random], DescribedSchema]] = [_primitive, _primitive, _logical]
    if depth:
        kinds += [lambda random, make=make: make(random, depth - 1) for make in COMPOSITE]
    described = random.choice(kinds)(random)
    described["optional"] = random.random() < 0.4
    if "name" not in described and random.random() < 0.2:
        described["name"] = random.choice(("Name", "com.example.Größe"))
    if random.random() < 0.2:
        described["version"] = random.choice((0, 1, 7, -3, 2**31 - 1))
    if random.random() < 0.1:
        described["doc"] = random.choice(TEXTS[1:])
    if "parameters" not in described and random.random() < 0.1:
        described["parameters"] = {name: random.choice(TEXTS) for name in random.sample(NAMES, 2)}
    if random.random() < 0.25 and "STRUCT" not in json.dumps(described):
        described["default"] = value(random, described | {"optional": False})
    return described


def _primitive(random: Random) -> DescribedSchema:
    kinds = (*INTEGERS, "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES")
    return {"type": random.choice(kinds)}


def _logical(random: Random) -> DescribedSchema:
    name = random.choice((*LOGICAL, "Decimal"))
    if name != "Decimal":
        return {"type": LOGICAL[name][0], "name": f"{DATA}.{name}", "version": 1}
    scale = {"scale": random.choice(("0", "2", "2", "18", "-3"))}
    return {"type": "BYTES", "name": f"{DATA}.Decimal", "version": 1, "parameters": scale}


def _array(random: Random, depth: int) -> DescribedSchema:
    return {"type": "ARRAY", "value": schema(random, depth)}


def _map(random: Random, depth: int) -> DescribedSchema:
    key = {"type": "STRING", "optional": random.random() < 0.1}
    if random.random() < 0.4:
        key = schema(random, 0)
        key = {**key, "type": "STRING"} if key["type"] == "BYTES" else key
    while json.dumps(key).count(DATA + ".Decimal") or "default" in key:
        key = {"type": "INT64", "optional": False}
    return {"type": "MAP", "key": key, "value": schema(random, depth)}


def _struct(random: Random, depth: int) -> DescribedSchema:
    names = random.sample(NAMES, random.randrange(5))
    return {"type": "STRUCT", "fields": [[name, schema(random, depth)] for name in names]}


COMPOSITE = (_array, _map, _struct, _struct)


# --- values ---------------------------------------------------------------------------------------


def value(random: Random, described: DescribedSchema, wild: float = 0.0) -> Described:
    """A value of a schema; with the probability `wild` it, or one within it, is another."""
    if random.random() < wild:
        return random.choice((["null"], anything(random), anything(random)))
    if described["optional"] and random.random() < 0.25:
        return ["null"]
    name = described.get("name", "").rpartition(".")[2]
    if described.get("name", "").startswith(DATA):
        return _decimal(random, described) if name == "Decimal" else _date(random, name)
    kind = described["type"]
    if kind == "ARRAY":
        member = described["value"]
        return ["list", [value(random, member, wild) for _ in range(random.randrange(4))]]
    if kind == "MAP":
        return ["map", _entries(random, described, wild)]
    if kind == "STRUCT":
        return _fields(random, described, wild)
    return _scalar(random, kind)


def _scalar(random: Random, kind: str) -> Described:
    if kind in INTEGERS:
        return [f"i{INTEGERS[kind]}", str(_integer(random, INTEGERS[kind]))]
    match kind:
        case "FLOAT32":
            narrow = struct.unpack(">f", random.randbytes(4))[0]
            few = [number for number in REALS if abs(number) < 3.4e38]
            chosen = random.choice((narrow, random.choice((*few, *NOT_FINITE))))
            return ["f32", real(struct.unpack(">f", struct.pack(">f", chosen))[0])]
        case "FLOAT64":
            many = random.choice(REALS), random.uniform(-1e9, 1e9), random.choice(NOT_FINITE)
            return ["f64", real(random.choice((*many[:2], *many[:2], many[2])))]
        case "BOOLEAN":
            return ["boolean", random.random() < 0.5]
        case "STRING":
            return ["string", random.choice(TEXTS)]
        case _:
            return ["bytes", random.randbytes(random.randrange(6)).hex()]


def _integer(random: Random, bits: int) -> int:
    edges = (0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
    return random.choice((*edges, random.randrange(-100, 100)))


def _decimal(random: Random, described: DescribedSchema) -> Described:
    scale = int(described["parameters"]["scale"])
    scale = random.choice((scale, scale, scale, scale, scale + 1))
    unscaled = random.choice((0, 1, -1, 127, 128, -128, -129, 12345, -(10**25), 2**64))
    return ["decimal", str(unscaled), scale]


def _date(random: Random, name: str) -> Described:
    if name == "Time":
        return ["date", str(random.choice((0, 1, 45_296_789, DAY_MS - 1))), "time"]
    days = random.choice((0, 1, -1, 19_000, -200_000, 2_932_896, -719_162, 11_016))
    rest = random.choice((0, 1, 45_296_789)) if name == "Timestamp" else 0
    return ["date", str(days * DAY_MS + rest), LOGICAL[name][1]]


def _entries(random: Random, described: DescribedSchema, wild: float) -> list[list[Described]]:
    pairs = (
        [value(random, described["key"]), value(random, described["value"], wild)]
        for _ in range(random.randrange(4))
    )
    return list({json.dumps(pair[0]): pair for pair in pairs}.values())


def _fields(random: Random, described: DescribedSchema, wild: float) -> Described:
    values = [value(random, field, wild / 4) for _, field in described["fields"]]
    return ["struct", described, values]


def anything(random: Random, depth: int = 2) -> Described:
    """A value that a schemaless connector may have, of Java's usual classes."""
    kinds = ["INT64", "FLOAT64", "BOOLEAN", "STRING", "STRING", "BYTES"]
    kind = random.choice([*kinds, *(["list", "map", "odd"] if depth else [])])
    if kind == "list":
        return ["list", [_member(random, depth) for _ in range(random.randrange(4))]]
    if kind == "map":
        keys = random.choice((list(TEXTS), list(TEXTS), [*TEXTS[:4], 1, 2]))
        chosen = random.sample(keys, random.randrange(4))
        described = [
            ["string", key] if isinstance(key, str) else ["i64", str(key)] for key in chosen
        ]
        return ["map", [[key, _member(random, depth)] for key in described]]
    if kind == "odd":
        odd = (["decimal", "125", 2], ["big", str(2**70)], ["date", "0", "datetime"])
        return list(random.choice(odd))
    return _scalar(random, kind)


def _member(random: Random, depth: int) -> Described:
    return ["null"] if random.random() < 0.1 else anything(random, depth - 1)


# --- documents --------------------------------------------------------------------------------------

NODES = (
    *("null", "true", "false", "0", "-0", "1", "7", "-1", "128", "-129", "40000", "2147483648"),
    *("9223372036854775808", "-18446744073709551617", "1.5", "-0.0", "1e2", "1.0", "1e-2", "1E400"),
    *(
        '"a"',
        '""',
        '"AQID"',
        '"AQ=="',
        '"AQ"',
        '"A Q I D"',
        '" AQID "',
        '"fQ=="',
        '"ü"',
        r'"\ud83d"',
    ),
    *("[]", "{}", "[1]", '[[1,"x"]]', '[["a"]]', '{"a":1}', '{"a":null,"b":"x"}', "16777217.0"),
    *("340282356779733661637539395458142568447", "1e39", "86400000", "86399999", "2932896", "01"),
    *("0.100000001490116119384765626", "1e-50", "123456789.125", "9007199254740993", "18000"),
)
TYPES = (
    *("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes"),
    *("array", "map", "struct"),
)


def document(random: Random) -> bytes:
    """A document for JsonConverter, mostly with a schema and a payload."""
    way = random.random()
    if way < 0.4:
        return _mutated(random, _converted(random))
    if way < 0.5:
        return random.choice(NODES).encode()
    described = _json_schema(random, 2)
    payload = _payload(random, described, 0.15)
    more = ',"more":1' if random.random() < 0.03 else ""
    text = f'{{"schema":{json.dumps(described)},"payload":{payload}{more}}}'
    return _mutated(random, text.encode("utf-8", "replace"))


def _converted(random: Random) -> bytes:
    """A document that our converter writes."""
    converter = JsonConverter()
    while True:
        described = schema(random)
        try:
            datum = SchemaAndValue(value_of(value(random, described)), schema_of(described))
            written = converter.from_connect("t", datum)
        except ConnectError:
            continue
        if written is not None:
            return written


def _mutated(random: Random, text: bytes) -> bytes:
    if random.random() < 0.85 or not text:
        return text
    at = random.randrange(len(text))
    cut = random.randrange(3)
    return (
        text[:at]
        + random.choice((b"", b" ", b"}", b'"', b"1", b"null", b"\xff"))
        + text[at + cut :]
    )


def _json_schema(random: Random, depth: int) -> Any:
    kind = random.choice(TYPES if depth else TYPES[:9])
    described: dict[str, Any] = {"type": kind}
    if kind == "array":
        described["items"] = _json_schema(random, depth - 1)
    if kind == "map":
        plain = {"type": random.choice(("string", "string", "int32", "boolean"))}
        described |= {"keys": plain, "values": _json_schema(random, depth - 1)}
    if kind == "struct":
        names = random.sample(NAMES, random.randrange(4))
        fields = [(_json_schema(random, depth - 1), name) for name in names]
        described["fields"] = [
            field | {"field": name} if isinstance(field, dict) else field for field, name in fields
        ]
    if random.random() < 0.3 and kind in {"int32", "int64", "bytes", "string"}:
        described["name"] = f"{DATA}.{random.choice((*LOGICAL, 'Decimal'))}"
        described["parameters"] = {"scale": random.choice(("0", "3", "x"))}
    described["optional"] = random.choice((True, False, False, "true"))
    if random.random() < 0.15:
        described["version"] = random.choice((1, 1.5, "1", 2**31))
    if random.random() < 0.15:
        described["doc"] = random.choice(("d", 1))
    if random.random() < 0.1:
        described["default"] = json.loads(random.choice(NODES[:8] + NODES[20:30]))
    if random.random() < 0.04:
        del described[random.choice(list(described))]
    return described if random.random() < 0.98 else random.choice((None, 1, "int8", {"type": "x"}))


def _payload(random: Random, described: Any, wild: float) -> str:
    if not isinstance(described, dict) or random.random() < wild:
        return random.choice(NODES)
    kind = described.get("type")
    if kind == "array" and "items" in described:
        elements = (_payload(random, described["items"], wild) for _ in range(random.randrange(4)))
        return f"[{','.join(elements)}]"
    if kind == "map" and {"keys", "values"} <= described.keys():
        members = [_payload(random, described["values"], wild) for _ in range(random.randrange(4))]
        if described["keys"].get("type") == "string":
            pairs = zip(random.sample(NAMES, len(members)), members, strict=True)
            return "{" + ",".join(f"{json.dumps(key)}:{member}" for key, member in pairs) + "}"
        keys = [_payload(random, described["keys"], wild) for _ in members]
        pairs_of = (f"[{key},{member}]" for key, member in zip(keys, members, strict=True))
        return f"[{','.join(pairs_of)}]"
    if kind == "struct":
        fields = [field for field in described.get("fields", ()) if isinstance(field, dict)]
        named = [field for field in fields if random.random() < 0.9 and "field" in field]
        pairs = ((json.dumps(field["field"]), _payload(random, field, wild)) for field in named)
        return "{" + ",".join(f"{name}:{node}" for name, node in pairs) + "}"
    return random.choice(NODES)


# --- header strings ---------------------------------------------------------------------------------

TOKENS = (
    *("[", "]", "{", "}", ",", ":", '"', "\\", " ", "\t", "1", "2", "300", "70000", "5000000000"),
    *("1.5", "-2", "+3", "1e400", "0.1", "null", "true", "false", "a", "ü", "\U0001f600", "x y"),
    *("2024-01-31", "2024-02-30", "12:30:00.000Z", "2024-01-31T12:30:00.000Z", "1500-01-01"),
    *(
        "20-1-1",
        "1.0",
        "100",
        "-",
        "+",
        ".5",
        "1.",
        "1e5",
        "99999999999999999999",
        "٣",
        '\\"',
        "\\:",
    ),
    *('"b"', '"2024-01-31"', '"c\\"d"', "1.25", "3.4028236e38", "1e39", "0e5", "-0.0", "1d"),
)
TEMPLATES = (
    *("[{},{}]", "[{}, {}, {}]", "{{{}:{}}}", "{{{}:{},{}:{}}}", "[[{}],[{}]]", "{{{}:[{},{}]}}"),
    *("{}{}", " {} ", "{}", "{}", "{}:{}:{}Z", "[{},", "{{{}:", '"{}"', "[{} {}]", "[,{}]"),
)


def header(random: Random) -> bytes:
    """A header's string: tokens in an order that may mean something."""
    if random.random() < 0.6:
        template = random.choice(TEMPLATES)
        text = template.format(*(random.choice(TOKENS) for _ in range(6)))
    else:
        text = "".join(random.choice(TOKENS) for _ in range(random.randrange(9)))
    raw = text.encode("utf-8", "replace")
    return raw + b"\xff" if random.random() < 0.02 else raw


def date_string(random: Random) -> bytes:
    """A string about as long as a date or a time."""
    pieces = ("2024", "1", "01", "31", "-", "-", ":", "T", "Z", ".", "12", "000", " ", "9999", "0")
    shaped = (
        f"{random.choice(('2024', '1582', '1500', '0001', '9999', '20', ' 199'))}-"
        f"{random.choice(('01', '1', '13', '00', '10', '-1', ' 2', '02'))}-"
        f"{random.choice(('01', '31', '30', '5', '15', '00', '99', '4x', '05'))}"
    )
    time = (
        f"{random.choice(('00', '23', '24', '9', '99'))}:{random.choice(('00', '59', '60', '7'))}:"
    )
    time += f"{random.choice(('00', '59', '61'))}.{random.choice(('000', '999', '5', '1000'))}Z"
    odd = "".join(random.choice(pieces) for _ in range(6))
    text = random.choice((shaped, time, f"{shaped}T{time}", odd, f'["{shaped}"]', f'"{time}"'))
    return text.encode()


# --- questions --------------------------------------------------------------------------------------


def questions(seed: str, count: int) -> Iterator[Question]:
    """Questions of all kinds, in turn."""
    random = Random(seed)
    makers = (
        *(_encoded_json, _decoded_json, _decoded_json, _encoded_header, _decoded_header),
        *(_decoded_date, _encoded_text, _decoded_text, _plain, _validated, _projected),
    )
    for number in range(count):
        yield makers[number % len(makers)](random)


def _settings(random: Random) -> dict[str, str]:
    choices = {
        "schemas.enable": ("true", "true", "false"),
        "decimal.format": ("BASE64", "numeric"),
        "replace.null.with.default": ("true", "false"),
    }
    return {name: random.choice(texts) for name, texts in choices.items()}


def _typed(random: Random, wild: float) -> dict[str, Any]:
    if random.random() < 0.25:
        return {"schema": None, "value": anything(random)}
    described = schema(random)
    return {"schema": described, "value": value(random, described, wild)}


def _encoded_json(random: Random) -> Question:
    typed = _typed(random, random.choice((0, 0, 0.2)))
    return {"op": "encode", "class": JSON, "config": _settings(random), **typed}


def _decoded_json(random: Random) -> Question:
    raw = document(random).hex()
    return {"op": "decode", "class": JSON, "config": _settings(random), "bytes": raw}


def _encoded_header(random: Random) -> Question:
    return {"op": "encode", "class": SIMPLE, "config": {}, **_typed(random, 0)}


def _decoded_header(random: Random) -> Question:
    return {"op": "decode", "class": SIMPLE, "config": {}, "bytes": header(random).hex()}


def _decoded_date(random: Random) -> Question:
    return {"op": "decode", "class": SIMPLE, "config": {}, "bytes": date_string(random).hex()}


def _encoded_text(random: Random) -> Question:
    config = {"converter.encoding": random.choice(ENCODINGS)}
    return {"op": "encode", "class": STRING, "config": config, **_typed(random, 0)}


def _decoded_text(random: Random) -> Question:
    config = {"converter.encoding": random.choice(ENCODINGS)}
    odd = (b"\xff\xfea\0", b"\xfe\xff\0a", b"\xed\xa0\x80", b"\xe2\x82", b"\xc3\xbc", b"a\xff", b"")
    raw = random.choice((*odd, random.choice(TEXTS).encode("utf-8", "replace")))
    return {"op": "decode", "class": STRING, "config": config, "bytes": raw.hex()}


def _plain(random: Random) -> Question:
    name = random.choice(PLAIN)
    if random.random() < 0.5:
        size = random.choice((0, 1, 1, 2, 2, 4, 4, 8, 8, 3))
        raw = random.choice((random.randbytes(size), bytes(size), b"\x01" * size))
        return {"op": "decode", "class": name, "config": {}, "bytes": raw.hex()}
    kind = name.rpartition(".")[2].removesuffix("Converter")
    types = {"Short": "INT16", "Integer": "INT32", "Long": "INT64", "Float": "FLOAT32"}
    types |= {"Double": "FLOAT64", "Boolean": "BOOLEAN", "ByteArray": "BYTES"}
    described = {"type": types[kind], "optional": True}
    written = value(random, described, 0.3)
    given = random.choice((None, described, {"type": "STRING", "optional": True}))
    return {"op": "encode", "class": name, "config": {}, "schema": given, "value": written}


def _validated(random: Random) -> Question:
    described = schema(random)
    return {"op": "validate", "schema": described, "value": value(random, described, 0.15)}


PROMOTED = (*INTEGERS, "FLOAT32", "FLOAT64")


def _projected(random: Random) -> Question:
    source = schema(random)
    target = _changed(random, source)
    return {"op": "project", "schema": source, "value": value(random, source), "target": target}


def _changed(random: Random, source: DescribedSchema) -> DescribedSchema:
    """Another version of a schema: larger numbers, fields more or less, other defaults."""
    target = {name: part for name, part in source.items() if name != "default"}
    if target["type"] in PROMOTED and "name" not in target and random.random() < 0.7:
        rank = PROMOTED.index(target["type"])
        target["type"] = random.choice(PROMOTED[rank:] if random.random() < 0.9 else PROMOTED)
    for member in ("key", "value"):
        if member in target:
            target[member] = _changed(random, target[member])
    if "fields" in target:
        kept = [field for field in target["fields"] if random.random() < 0.85]
        target["fields"] = [[name, _changed(random, field)] for name, field in kept]
        if random.random() < 0.3:
            target["fields"].append(["new", schema(random, 0)])
    if random.random() < 0.15:
        target["optional"] = not target["optional"]
    if random.random() < 0.04:
        target["name"] = "Other"
    if random.random() < 0.04 and not target.get("name", "").startswith(DATA):
        target["parameters"] = {"p": "q"}
    if random.random() < 0.3 and "STRUCT" not in json.dumps(target):
        target["default"] = value(random, target | {"optional": False})
    return target

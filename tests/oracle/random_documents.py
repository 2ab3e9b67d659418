"""Random documents for JsonConverter, and random header strings."""

import json
from random import Random
from typing import Any

from controlplane.connect.converters import JsonConverter
from controlplane.connect.data import SchemaAndValue
from controlplane.connect.errors import ConnectError
from tests.oracle.described_values import schema_of, value_of
from tests.oracle.random_typed_values import LOGICAL, LOGICAL_PACKAGE, NAMES, schema, value

NODES = (
    *("null", "true", "false", "0", "-0", "1", "7", "-1", "128", "-129", "40000", "2147483648"),
    *("9223372036854775808", "-18446744073709551617", "1.5", "-0.0", "1e2", "1.0", "1e-2"),
    *("1E400", r'"\ud83d"', '"ü"'),
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
    extra_member = ',"more":1' if random.random() < 0.03 else ""
    text = f'{{"schema":{json.dumps(described)},"payload":{payload}{extra_member}}}'
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
    rest = text[at + random.randrange(3) :]
    return text[:at] + random.choice((b"", b" ", b"}", b'"', b"1", b"null", b"\xc3")) + rest


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
        described["name"] = f"{LOGICAL_PACKAGE}.{random.choice((*LOGICAL, 'Decimal'))}"
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
        names = [json.dumps(field["field"]) for field in named]
        nodes = [_payload(random, field, wild) for field in named]
        return "{" + ",".join(map(":".join, zip(names, nodes, strict=True))) + "}"
    return random.choice(NODES)


# --- header strings ------------------------------------------------------------

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
    """A header's string: tokens in an order that often has a meaning."""
    if random.random() < 0.6:
        template = random.choice(TEMPLATES)
        text = template.format(*(random.choice(TOKENS) for _ in range(6)))
    else:
        text = "".join(random.choice(TOKENS) for _ in range(random.randrange(9)))
    raw = text.encode("utf-8", "replace")
    return raw + b"\xff" if random.random() < 0.02 else raw


def date_string(random: Random) -> bytes:
    """A string of about the length of a date or a time."""
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

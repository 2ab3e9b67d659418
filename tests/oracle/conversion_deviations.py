"""Intended deviations from Kafka's converters, and a comparison that accepts them."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from controlplane.core.java.big_decimals import narrowed
from tests.oracle.conversion_answers import ConversionAnswer
from tests.oracle.conversion_cases import JSON, SIMPLE, STRING, ConversionQuestion
from tests.oracle.described_values import ValueDescription, real

_BAD_VALUES = {"DataException", "SchemaBuilderException", "SchemaProjectorException"}
_CONFIG_ERRORS = {"ConfigException", "SerializationException"}
"""Errors of a config; SerializationException is that of an unknown character set."""
_YEARS = range(-62_135_596_800_000, 253_402_300_800_000)
"""Milliseconds since 1970 that Python's dates can express."""
_DAY_MS = 86_400_000
_NUMBER = re.compile(r"(-?\d+\.\d+(?:E-?\d+)?)")
_BOXED = re.compile(
    r"class java\.(lang\.(Byte|Short|Integer|Long|Float|Double)|math\.BigInteger)\b"
)
_NUMERIC = re.compile(r"\b(INT|FLOAT)\d+\b|serialize to (short|integer|long|float|double)")
_ADVICE = re.compile(r"(?<= does not have corresponding schema type\.).*", re.DOTALL)
_NEGATIVE_ZERO = "8000000000000000"
"""Bits of the double -0.0, in hex."""


def comparable(answer: ConversionAnswer) -> ConversionAnswer:
    """An answer without the order of maps, the names of Java's subclasses, and our own advice."""
    if "message" in answer:
        answer = answer | {"message": _ADVICE.sub("", answer["message"] or "") or None}
    if answer.get("error") in _BAD_VALUES:
        answer = answer | {"error": "DataException"}
    if answer.get("error") in _CONFIG_ERRORS:
        answer = answer | {"error": "ConnectException"}
    text = json.dumps(_sorted(answer)).replace("java.util.LinkedHashMap", "java.util.HashMap")
    in_order: ConversionAnswer = json.loads(text)
    return in_order


def _sorted(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _sorted(member) for name, member in part.items()}
    if isinstance(part, list) and part[:1] == ["map"]:
        return ["map", sorted(map(_sorted, part[1]), key=json.dumps)]
    return list(map(_sorted, part)) if isinstance(part, list) else part


def deviation(
    question: ConversionQuestion, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> str | None:
    """The reason why two different answers are accepted; None if they are not."""
    meant = (row.reason for row in DEVIATIONS if row.is_meant(question, kafkas, ours))
    return next(meant, None)


def _one_number_class(
    _question: ConversionQuestion, kafkas: ConversionAnswer, _ours: ConversionAnswer
) -> bool:
    message = kafkas.get("message") or ""
    return bool(_BOXED.search(message) and _NUMERIC.search(message))


def _equal_keys(
    question: ConversionQuestion, kafkas: ConversionAnswer, _ours: ConversionAnswer
) -> bool:
    if "bytes" in question:
        text = bytes.fromhex(question["bytes"])
        return kafkas.get("value", ["null"])[0] == "map" and (b"true" in text or b"false" in text)
    return _NEGATIVE_ZERO in json.dumps(question) and '"map"' in json.dumps(question)


def _python_dates(
    question: ConversionQuestion, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    if (ours.get("message") or "").startswith("Python has no"):
        return True
    if question.get("class") != SIMPLE or (ours.get("schema") or {}).get("type") != "STRING":
        return False
    name = ((kafkas.get("schema") or {}).get("name") or "").rpartition(".")[2]
    values = range(_DAY_MS) if name == "Time" else _YEARS
    dates = list(map(int, _dates(kafkas)))
    latest = max(dates, default=0)
    return any(date not in values for date in dates) or (name != "Time" and latest >= _DAY_MS)


def _dates(part: Any) -> Iterator[str]:
    if isinstance(part, list) and part[:1] == ["date"]:
        yield part[1]
    elif isinstance(part, list | dict):
        for member in part.values() if isinstance(part, dict) else part:
            yield from _dates(member)


def _text_of_bytes(
    _question: ConversionQuestion, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    return "bytes" in kafkas and (ours.get("message") or "").startswith("Bytes have no text")


def _digits_of_old_jdks(
    question: ConversionQuestion, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    if not (kafkas.get("bytes") and ours.get("bytes")):
        return False
    encoding = question["config"].get("converter.encoding", "UTF-8")
    texts = (bytes.fromhex(answer["bytes"]).decode(encoding) for answer in (kafkas, ours))
    theirs, own = (_NUMBER.split(text) for text in texts)
    return len(theirs) == len(own) and all(
        kafkas_part == own_part
        or (index % 2 and narrowed(float(kafkas_part)) == narrowed(float(own_part)))
        for index, (kafkas_part, own_part) in enumerate(zip(theirs, own, strict=True))
    )


def _arrays_by_identity(
    question: ConversionQuestion, kafkas: ConversionAnswer, _ours: ConversionAnswer
) -> bool:
    text = json.dumps(question)
    messages = {"Mismatching schema.", "Struct schemas do not match."}
    return kafkas.get("message") in messages and '["bytes"' in text and '"default"' in text


def _three_classes_of_dates(
    _question: ConversionQuestion, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    return "class java.util.Date" in (ours.get("message") or "") and kafkas != ours


def _other_exceptions(
    _question: ConversionQuestion, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    other = kafkas.get("error") in {"NullPointerException", "ClassCastException"}
    return other and ours.get("error") == "DataException"


class Deviation(NamedTuple):
    """An intended difference: the reason, its recognition, and a question that shows it."""

    reason: str
    is_meant: Callable[[ConversionQuestion, ConversionAnswer, ConversionAnswer], bool]
    example: ConversionQuestion
    is_of_old_jdks: bool = False
    """True if Kafka's answer depends on the JDK."""


def _json(schema: str, payload: str) -> ConversionQuestion:
    raw = f'{{"schema":{schema},"payload":{payload}}}'.encode("latin-1").hex()
    return {"op": "decode", "class": JSON, "config": {}, "bytes": raw}


def _validated(kind: str, value: ValueDescription, **attributes: Any) -> ConversionQuestion:
    schema = {"type": kind, "optional": False, **attributes}
    return {"op": "validate", "schema": schema, "value": value}


def _encoding(class_name: str, value: ValueDescription, schema: Any = None) -> ConversionQuestion:
    return {"op": "encode", "class": class_name, "config": {}, "schema": schema, "value": value}


_BYTES_BY_DEFAULT = {
    "type": "ARRAY",
    "optional": False,
    "value": {"type": "BYTES", "optional": False},
    "default": ["list", [["bytes", "00"]]],
}
_RECORD = {"type": "STRUCT", "optional": False, "fields": [["a", _BYTES_BY_DEFAULT]]}
_ONE = ["list", [["bytes", "00"]]]

_FLOAT = {"type": "FLOAT32", "optional": False}
_DECIMAL_WITHOUT_SCALE = {
    "type": "BYTES",
    "optional": False,
    "name": "org.apache.kafka.connect.data.Decimal",
}

DEVIATIONS = (
    Deviation(
        "Python has one class of integers and takes an int for a float; what does not fit is "
        "refused",
        _one_number_class,
        _validated("FLOAT64", ["i64", "1"]),
    ),
    Deviation(
        "Python's dates lie in the years 1 to 9999, and its times end before 24:00",
        _python_dates,
        _json('{"type":"int32","name":"org.apache.kafka.connect.data.Date"}', "2932897"),
    ),
    Deviation(
        "Python has a class for dates, one for times and one for timestamps; Java has one for all",
        _three_classes_of_dates,
        _validated("INT32", ["date", "0", "time"], name="org.apache.kafka.connect.data.Date"),
    ),
    Deviation(
        "Python's dicts take -0.0 for 0.0, and True for 1; a header with such keys stays text",
        _equal_keys,
        {"op": "decode", "class": SIMPLE, "config": {}, "bytes": b"{1:2,true:3}".hex()},
    ),
    Deviation(
        "Java writes the address of bytes as their text; we refuse them",
        _text_of_bytes,
        _encoding(STRING, ["bytes", "00"]),
    ),
    Deviation(
        "JDKs before 19 write one digit too many of some floats (JDK-4511638)",
        _digits_of_old_jdks,
        _encoding(JSON, ["f32", real(narrowed(-1.1408339e17))], _FLOAT),
        is_of_old_jdks=True,
    ),
    Deviation(
        "Java compares byte arrays within default lists and maps by identity",
        _arrays_by_identity,
        _encoding(JSON, ["struct", _RECORD, [_ONE]], _RECORD),
    ),
    Deviation(
        "Where Java fails by accident, we refuse with a DataError",
        _other_exceptions,
        _encoding(JSON, ["decimal", "1", 0], _DECIMAL_WITHOUT_SCALE),
    ),
)

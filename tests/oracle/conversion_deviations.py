"""Deviations from Kafka's converters that are kept on purpose, and a comparison that knows them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from controlplane.core.java.big_decimals import narrowed
from tests.oracle.conversion_answers import ConversionAnswer
from tests.oracle.conversion_cases import SIMPLE, Question

_DATA_ERRORS = {"DataException", "SchemaBuilderException", "SchemaProjectorException"}
_CONFIG_ERRORS = {"ConfigException", "SerializationException"}
"""The latter is thrown for an unknown character set, when a converter is configured."""
_YEARS = range(-62_135_596_800_000, 253_402_300_800_000)
"""Milliseconds since 1970 that Python's dates have."""
_DAY_MS = 86_400_000
_NUMBER = re.compile(r"(-?\d+\.\d+(?:E-?\d+)?)")
_BOXED = re.compile(r"class java\.lang\.(Byte|Short|Integer|Long|Float|Double)\b")


def comparable(answer: ConversionAnswer) -> ConversionAnswer:
    """An answer without what means nothing: the order of maps, and the names of Java's subclasses."""
    if answer.get("error") in _DATA_ERRORS:
        answer = answer | {"error": "DataException"}
    if answer.get("error") in _CONFIG_ERRORS:
        answer = answer | {"error": "ConnectException"}
    return json.loads(
        json.dumps(_sorted(answer)).replace("java.util.LinkedHashMap", "java.util.HashMap")
    )


def _sorted(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _sorted(member) for name, member in part.items()}
    if isinstance(part, list) and part[:1] == ["map"]:
        return ["map", sorted(map(_sorted, part[1]), key=json.dumps)]
    return list(map(_sorted, part)) if isinstance(part, list) else part


def deviation(question: Question, kafkas: ConversionAnswer, ours: ConversionAnswer) -> str | None:
    """The reason for which two different answers may differ; None if they may not."""
    applying = (name for name, test in DEVIATIONS.items() if test(question, kafkas, ours))
    return next(applying, None)


def _one_number_class(
    _question: Question, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    return bool(_BOXED.search(kafkas.get("message") or "")) and "error" not in ours


def _python_dates(question: Question, kafkas: ConversionAnswer, ours: ConversionAnswer) -> bool:
    if (ours.get("message") or "").startswith("Python has no"):
        return True
    if question.get("class") != SIMPLE or (ours.get("schema") or {}).get("type") != "STRING":
        return False
    name = ((kafkas.get("schema") or {}).get("name") or "").rpartition(".")[2]
    values = range(_DAY_MS) if name == "Time" else _YEARS
    dates = list(map(int, _dates(kafkas)))
    return any(date not in values for date in dates) or (name != "Time" and _DAY_MS <= max(dates))


def _dates(part: Any) -> Iterator[str]:
    if isinstance(part, list) and part[:1] == ["date"]:
        yield part[1]
    elif isinstance(part, list | dict):
        for member in part.values() if isinstance(part, dict) else part:
            yield from _dates(member)


def _text_of_bytes(_question: Question, kafkas: ConversionAnswer, ours: ConversionAnswer) -> bool:
    return "bytes" in kafkas and (ours.get("message") or "").startswith("Bytes have no text")


def _digits_of_old_jdks(
    question: Question, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    if not (kafkas.get("bytes") and ours.get("bytes")):
        return False
    encoding = question["config"].get("converter.encoding", "UTF-8")
    texts = (bytes.fromhex(answer["bytes"]).decode(encoding) for answer in (kafkas, ours))
    theirs, own = (_NUMBER.split(text) for text in texts)
    return len(theirs) == len(own) and all(
        one == other or (index % 2 and narrowed(float(one)) == narrowed(float(other)))
        for index, (one, other) in enumerate(zip(theirs, own, strict=True))
    )


def _arrays_by_identity(
    question: Question, kafkas: ConversionAnswer, _ours: ConversionAnswer
) -> bool:
    text = json.dumps(question)
    messages = {"Mismatching schema.", "Struct schemas do not match."}
    return kafkas.get("message") in messages and '["bytes"' in text and '"default"' in text


def _three_classes_of_dates(
    _question: Question, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    return "class java.util.Date" in (ours.get("message") or "") and kafkas != ours


def _stray_bytes_in_names(
    question: Question, _kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    return "ff" in question.get("bytes", "") and ours.get("error") == "DataException"


def _other_exceptions(
    _question: Question, kafkas: ConversionAnswer, ours: ConversionAnswer
) -> bool:
    other = kafkas.get("error") in {"NullPointerException", "ClassCastException"}
    return other and ours.get("error") == "DataException"


DEVIATIONS: Mapping[str, Callable[[Question, ConversionAnswer, ConversionAnswer], bool]] = {
    "Python has one class of integers and one of floats, and takes an int for a float; what does "
    "not fit is refused": _one_number_class,
    "Python's dates lie in the years 1 to 9999, and its times end before 24:00": _python_dates,
    "Java writes the address of bytes as their text; we refuse them": _text_of_bytes,
    "JDKs before 19 write one digit too many of some floats (JDK-4511638)": _digits_of_old_jdks,
    "Java compares byte arrays within default lists and maps by identity": _arrays_by_identity,
    "Java has one class for dates, times and timestamps; Python has three": _three_classes_of_dates,
    "Jackson's table of names takes a name with a stray byte for another one": (
        _stray_bytes_in_names
    ),
    "Where Java fails by accident, we refuse with a DataError": _other_exceptions,
}
"""Each deviation that is kept, by its reason."""

"""Kafka's validators of config values, found by their words.

The *words* of a validator are the text that its `toString` returns. Kafka's documentation prints
them as "Valid Values": `[1,...]`, `[none, all]`, `non-empty string`. A definition lists the words
of its validators. All of these validators must accept a value. `_VALIDATORS` names the Java class
for each pattern of words. The words of some classes do not identify the class. This project
defines other words for these classes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from controlplane.core.configdef.regex_errors import pattern_error
from controlplane.core.configdef.value_parser import ConfigValue, Defect, InvalidValue, JavaClass
from controlplane.core.java.json_values import value_text

_FindFault = Callable[[Any], str | None]
"""Returns the error of a value; None: valid."""
_Validator = Callable[[str, Any], None]
"""Takes a key's name and its value. Raises `InvalidValue`."""


class UnknownWords(ValueError):
    """No validator has these words; the message repeats them."""


def check_valid(name: str, words: Sequence[str], value: ConfigValue) -> None:
    """Run the validators in order; the first error counts.

    Raises:
        InvalidValue: a validator refuses the value.
        UnknownWords: some of the words belong to no validator.
    """
    for validator_words in words:
        validator(validator_words)(name, value)


@cache
def validator(words: str) -> _Validator:
    """The validator with these words.

    Raises:
        UnknownWords: no validator has them.
    """
    for pattern, make in _VALIDATORS.items():
        match = re.fullmatch(pattern, words, re.DOTALL)
        if match is not None:
            return make(*match.groups())
    raise UnknownWords(words)


def _validator_of(find_fault: _FindFault) -> _Validator:
    """Validator that reports the value and its error, as most of Kafka's do."""

    def check(name: str, value: Any) -> None:
        fault = find_fault(value)
        if fault is not None:
            raise InvalidValue.value(name, value, fault)

    return check


# --- numbers and texts --------------------------------------------------------------------------


def _range(least: str, most: str | None, or_null: str | None) -> _Validator:
    """Numbers between two limits, both included; `most` None: no upper limit."""

    def find_fault(value: Any) -> str | None:
        if value is None:
            return None if or_null else "Value must be non-null"
        if value < float(least):
            return f"Value must be at least {least}"
        if most is not None and value > float(most):
            return f"Value must be no more than {most}"
        return None

    return _validator_of(find_fault)


def _one_of(options: str) -> _Validator:
    allowed = options.split(", ")

    def check(name: str, value: Any) -> None:
        for text in value if isinstance(value, list) else [value]:
            if text not in allowed:
                raise InvalidValue.value(name, text, f"String must be one of: {options}")

    return check


def _one_of_any_case(options: str) -> _Validator:
    allowed = options.split(", ")
    fault = f"String must be one of (case insensitive): {options}"
    return _validator_of(lambda text: None if text and text.upper() in allowed else fault)


def _non_null() -> _Validator:
    return _validator_of(lambda value: _NULL_ENTRY if value is None else None)


_NULL_ENTRY = "entry must be non null"


def _non_empty() -> _Validator:
    return _validator_of(lambda text: "String must be non-empty" if text == "" else None)


def _without_controls() -> _Validator:
    def find_fault(text: str | None) -> str | None:
        if text is None:
            return None
        if not text:
            return "String may not be empty"
        codes = [str(ord(char)) for char in text if ord(char) in _CONTROLS]
        error = "String may not contain control sequences but had the following ASCII chars: "
        return error + ", ".join(codes) if codes else None

    return _validator_of(find_fault)


_CONTROLS = frozenset((*range(0x20), *range(0x7F, 0xA0)))
"""Characters for which Character.isISOControl is true."""


def _regex() -> _Validator:
    def find_fault(pattern: str | None) -> str | None:
        fault = _NO_PATTERN if pattern is None else pattern_error(pattern)
        return None if fault is None else f"Invalid regex: {fault}"

    return _validator_of(find_fault)


_NO_PATTERN = 'Cannot invoke "String.isEmpty()" because "this.pattern" is null'
"""Java 17's message for null, which Kafka passes on."""


# --- lists --------------------------------------------------------------------------------------


def _unique(_what: str) -> _Validator:
    def find_fault(values: list[str] | None) -> str | None:
        if values is None:  # Kafka fails with a NullPointerException
            return _NULL_ENTRY
        return "Duplicate alias provided." if len(values) > len(set(values)) else None

    return _validator_of(find_fault)


def _non_empty_list() -> _Validator:
    return _validator_of(lambda values: None if values else "Empty list")


def _distinct(options: str | None, at_least_one: str | None, or_null: str | None) -> _Validator:
    """Lists without repeated or empty elements. `options` None: any element is valid."""
    one_of = None if options is None else _one_of(options)

    def check(name: str, values: list[str] | None) -> None:
        if values is None:
            if or_null:
                return
            raise InvalidValue(f"Configuration '{name}' values must not be null.")
        if at_least_one and not values:
            include = "any non-empty value" if options is None else f"[{options}]"
            raise InvalidValue(
                f"Configuration '{name}' must not be empty. Valid values include: {include}"
            )
        if len(values) > len(set(values)):
            raise InvalidValue(f"Configuration '{name}' values must not be duplicated.")
        if "" in values:
            raise InvalidValue(f"Configuration '{name}' values must not be empty.")
        if one_of is not None:
            one_of(name, values)

    return check


# --- classes ------------------------------------------------------------------------------------


def _subclass(kind: str) -> _Validator:
    def check(_name: str, value: JavaClass | None) -> None:
        if value is not None:
            check_class(value, kind)

    return check


def check_class(value: JavaClass, interface: str) -> None:
    """Check that a class is concrete and implements an interface (`ensureConcreteSubclass`).

    Raises:
        InvalidValue: the class is known not to fit.
    """
    if value.kinds and KINDS[interface] not in value.kinds:
        raise InvalidValue(f"Class {value} does not implement the {interface} interface")
    if is_abstract(value):
        raise InvalidValue(f"This class {abstract_error(value)}")


def is_abstract(value: JavaClass) -> bool:
    """True for an abstract class, or a class whose plugins are nested in it."""
    return value.defect == "abstract" or bool(value.nested)


def abstract_error(value: JavaClass) -> str:
    """Error for an abstract class; names the nested classes that can be used."""
    error = "is abstract and cannot be created."
    return f"{error} Did you mean {', '.join(value.nested)}?" if value.nested else error


KINDS = {
    "Converter": "converter",
    "HeaderConverter": "header_converter",
    "Transformation": "transformation",
    "Predicate": "predicate",
}
"""Kind of plugin by the Java interface that a config key requires."""


def _instantiable() -> _Validator:
    def check(name: str, value: JavaClass | None) -> None:
        error = None if value is None else _INSTANTIATION_ERRORS.get(value.defect)
        if value is not None and error is not None:
            raise InvalidValue.value(name, value.name, error.format(value.name))

    return check


_INSTANTIATION_ERRORS: Mapping[Defect | None, str] = {
    "no suitable constructor": (
        "Could not find a public no-argument constructor for class: {}.<init>()"
    ),
    "private constructor": (
        "Could not find a public no-argument constructor for class: class "
        "org.apache.kafka.connect.util.InstantiableClassValidator cannot access a member of class "
        '{} with modifiers "private"'
    ),
    "constructor throws": "Could not instantiate class",
}


def _anything() -> _Validator:
    return lambda _name, _value: None


# --- settings of single transformations ---------------------------------------------------------


def _renames() -> _Validator:
    """Lists of `from:to` (`ReplaceField`)."""

    def check(_name: str, mappings: list[str] | None) -> None:
        if mappings is None:  # Kafka fails with a NullPointerException
            raise InvalidValue.value("renames", mappings, "Invalid rename mapping: null")
        for mapping in mappings:
            if len(_split_mapping(mapping)) != 2:
                raise InvalidValue.value("renames", mappings, f"Invalid rename mapping: {mapping}")

    return check


def _casting_spec() -> _Validator:
    """Lists of `field:type`, or a single `type` for the whole value (`Cast`)."""

    def check(_name: str, mappings: list[str] | None) -> None:
        if not mappings:
            raise InvalidValue("Must specify at least one field to cast.")
        for mapping in mappings:
            parts = _split_mapping(mapping)
            if len(parts) > 2:
                raise InvalidValue.value("renames", mappings, f"Invalid rename mapping: {mapping}")
            _check_cast(parts[-1].strip())
        if len(mappings) > 1 and any(len(_split_mapping(mapping)) == 1 for mapping in mappings):
            raise InvalidValue(
                "Cast transformations that specify a type to cast the entire value to may only "
                "specify a single cast in their spec"
            )

    return check


def _check_cast(target: str) -> None:
    name = target.upper()
    if name not in {*_CAST_TO, *_NOT_CAST_TO}:
        missing = f"No enum constant org.apache.kafka.connect.data.Schema.Type.{name}"
        raise InvalidValue(
            f"Invalid value java.lang.IllegalArgumentException: {missing} for configuration "
            f"Invalid type found in casting spec: {target}"
        )
    if name in _NOT_CAST_TO:
        raise InvalidValue(
            f"Cast transformation does not support casting to {name}; "
            f"supported types are {value_text(list(_CAST_TO))}"
        )


_CAST_TO = ("INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "BOOLEAN", "STRING")
_NOT_CAST_TO = ("BYTES", "ARRAY", "MAP", "STRUCT")


def _split_mapping(mapping: str) -> list[str]:
    """`String.split(":")`, which drops empty parts at the end."""
    parts = mapping.split(":")
    while len(parts) > 1 and not parts[-1]:
        del parts[-1]
    return parts


_NUMBER = r"(-?\d+(?:\.\d+)?(?:E-?\d+)?)"

_VALIDATORS: Mapping[str, Callable[..., _Validator]] = {
    # ConfigDef.Range; for `or null`, Kafka wraps it in a lambda
    rf"\[{_NUMBER},\.\.\.(?:,{_NUMBER})?\]( or null)?": _range,
    # ConfigDef.CaseInsensitiveValidString
    r"\(case insensitive\) \[(.*)\]": _one_of_any_case,
    # ConfigDef.ValidString for a text; up to 4.1 also ConfigDef.ValidList for a list
    r"\[(.*)\]": _one_of,
    # ConfigDef.ValidList from 4.2 on
    r"distinct values(?: of \[(.*)\])?(, at least one)?(, or null)?": _distinct,
    # ConfigDef.NonNullValidator
    r"non-null string": _non_null,
    # ConfigDef.NonEmptyString
    r"non-empty string": _non_empty,
    # ConfigDef.NonEmptyStringWithoutControlChars
    r"non-empty string without ISO control characters": _without_controls,
    # transforms.util.RegexValidator
    r"valid regex": _regex,
    # transforms.util.NonEmptyListValidator
    r"non-empty list": _non_empty_list,
    # ConnectorConfig, SourceConnectorConfig
    r"unique (transformation aliases|predicate aliases|topic creation groups)": _unique,
    # util.ConcreteSubClassValidator
    r"A concrete subclass of org\.apache\.kafka\.connect\.storage\.(Converter|HeaderConverter)": (
        _subclass
    ),
    # util.InstantiableClassValidator
    r"A class with a public, no-argument constructor": _instantiable,
    # ConnectorConfig.PluginVersionValidator
    r"plugin version": _anything,
    # transforms.ReplaceField and transforms.Cast have the same words in Kafka. This project defines
    # different words for the two.
    r"rename mappings": _renames,
    r"casting spec": _casting_spec,
}
"""Factories of validators by the pattern of their words; the pattern's groups are the arguments.

The order matters: the pattern of `_one_of` also matches the words of a range."""

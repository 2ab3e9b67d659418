"""Names of a plugin's class: its full name and its aliases (Kafka: `PluginUtils`)."""

from collections.abc import Iterable

from controlplane.core.plugins.catalogue import Plugin

_SUFFIXES = {
    "source": "Connector",
    "sink": "Connector",
    "transformation": "Transformation",
    "predicate": "Predicate",
    "converter": "Converter",
    "header_converter": "HeaderConverter",
}


def simple_name(class_name: str) -> str:
    """`Class.getSimpleName`: the name without its package and without outer classes."""
    return class_name.rpartition(".")[2].rpartition("$")[2]


def pruned_name(plugin: Plugin) -> str:
    """The simple name without the suffix of its type: `FileStreamSource`."""
    simple, suffix = simple_name(plugin.class_name), _SUFFIXES.get(plugin.type)
    stem = simple.rpartition(suffix)[0] if suffix else ""
    return stem or simple


def aliases(plugins: Iterable[Plugin]) -> dict[str, str]:
    """Full class names by alias, without the aliases that several classes share."""
    classes: dict[str, set[str]] = {}
    for plugin in plugins:
        for alias in (simple_name(plugin.class_name), pruned_name(plugin)):
            classes.setdefault(alias, set()).add(plugin.class_name)
    return {alias: next(iter(names)) for alias, names in classes.items() if len(names) == 1}

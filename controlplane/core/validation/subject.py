"""Subject of a validation: a config, and the worker that checks it."""

import re
from functools import lru_cache
from typing import NamedTuple

from controlplane.core.configdef.check_result import KeyCheck, KeyChecks
from controlplane.core.configdef.definition import Definition, check
from controlplane.core.configdef.value_parser import JavaClass, Password
from controlplane.core.context import Context, DecisionSettings
from controlplane.core.java.java_library import hash_map_order, table_size, trim
from controlplane.core.java.json_values import value_text
from controlplane.core.plugins import ClassPath
from controlplane.core.records import Properties
from controlplane.core.releases.profiles import Profile


class ValidationSubject(NamedTuple):
    """A config and its context. The config is in the order of the worker's own copy."""

    config: Properties
    profile: Profile
    worker: DecisionSettings
    path: ClassPath

    @classmethod
    def of(cls, config: Properties, context: Context) -> "ValidationSubject":
        """Build the subject from a config, in the order of `new HashMap<>(config)`."""
        capacity = table_size(len(config) * 4 // 3 + 1)
        copied = {name: config[name] for name in hash_map_order(config, capacity)}
        path = context.plugins.at(context.profile)
        return cls(copied, context.profile, context.worker, path)

    def in_texts(self) -> "ValidationSubject":
        """The subject with every value converted to text; null stays null.

        Values that are not text come from writers of the config topic that are no worker.
        """
        texts = {
            name: value if value is None or isinstance(value, str) else value_text(value)
            for name, value in self.config.items()
        }
        return self.with_config(texts)

    def with_config(self, config: Properties) -> "ValidationSubject":
        """The subject with the same worker and another config."""
        return self._replace(config=config)

    def check(self, definition: Definition) -> KeyChecks:
        """Check the config against a definition.

        Values from config providers are unknown here, and count as valid. A password stays hidden:
        the text around the reference to a provider may be secret.
        """
        checked = check(definition, self.config, self.find)
        for name in self.provided_keys() & checked.keys():
            value = checked[name].value
            shown = value if isinstance(value, Password) else self.config[name]
            checked[name] = KeyCheck(name, shown)
        return checked

    def part(self, prefix: str) -> Properties:
        """Settings under a prefix, without the prefix; all settings for the empty prefix."""
        return (
            {
                name.removeprefix(prefix): value
                for name, value in self.config.items()
                if name.startswith(prefix) and len(name) > len(prefix)
            }
            if prefix
            else self.config
        )

    def provided_keys(self) -> set[str]:
        """Keys whose values refer to a config provider."""
        if not self.worker.config_providers:
            return set()
        return {name for name, value in self.config.items() if self.worker.is_provided(value or "")}

    def find(self, key: str, text: str) -> JavaClass | None:
        """Class that the text under a key means; None: no such class.

        A key of Connect can name only plugins that the class path lists, unless the path is
        `trusting`. A class under any other key is assumed to exist.
        """
        name = self.path.full_name(trim(text))
        java_class = self.path.class_named(name)
        is_known = bool(java_class.kinds or java_class.nested)
        if not name or not (is_known or self.path.trusting or not _names_plugin(key)):
            return None
        return java_class


_PLUGIN_KEY = re.compile(r"(key|value|header)\.converter|(transforms|predicates)\..*\.type")


@lru_cache(maxsize=1_000)
def _names_plugin(key: str) -> bool:
    """True if the key is one of Connect's that name a plugin. Cached, as keys repeat."""
    return _PLUGIN_KEY.fullmatch(key) is not None

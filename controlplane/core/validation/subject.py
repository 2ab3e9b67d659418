"""What is validated: a config, as the worker of a release sees it."""

import re
from functools import lru_cache
from typing import NamedTuple

from controlplane.core.configdef.check import check
from controlplane.core.configdef.checked import Checked, Findings
from controlplane.core.configdef.definition import Definition
from controlplane.core.configdef.values import JavaClass
from controlplane.core.context import Context, Worker
from controlplane.core.java import hash_map_order, table_size, trim
from controlplane.core.java_values import value_text
from controlplane.core.plugins import ClassPath
from controlplane.core.profiles import Profile
from controlplane.core.records import Properties


class Subject(NamedTuple):
    """A config and who looks at it. The config is in the order of the worker's own copy."""

    config: Properties
    profile: Profile
    worker: Worker
    path: ClassPath

    @classmethod
    def of(cls, config: Properties, context: Context) -> "Subject":
        """The subject that a worker makes of a config: `new HashMap<>(config)`."""
        capacity = table_size(len(config) * 4 // 3 + 1)
        copied = {name: config[name] for name in hash_map_order(config, capacity)}
        path = context.plugins.at(context.profile)
        return cls(copied, context.profile, context.worker, path)

    def in_texts(self) -> "Subject":
        """The same, whatever a foreign hand put into the config made text; null is left alone."""
        texts = {
            name: value if value is None or isinstance(value, str) else value_text(value)
            for name, value in self.config.items()
        }
        return self.with_config(texts)

    def with_config(self, config: Properties) -> "Subject":
        """The same worker, another config."""
        return self._replace(config=config)

    def check(self, definition: Definition) -> Findings:
        """The config, held against a definition.

        What a config provider will fill in is known to nobody yet, and believed.
        """
        checked = check(definition, self.config, self.find)
        for name in self._provided() & checked.keys():
            checked[name] = Checked(name, self.config[name])
        return checked

    def part(self, prefix: str) -> Properties:
        """What the config says under keys with a prefix, without the prefix."""
        return (
            {
                name.removeprefix(prefix): value
                for name, value in self.config.items()
                if name.startswith(prefix) and len(name) > len(prefix)
            }
            if prefix
            else self.config
        )

    def _provided(self) -> set[str]:
        """Keys whose values refer to a provider: `${provider:path:key}` (KIP-297)."""
        if not self.worker.config_providers:
            return set()
        begins = [f"${{{name}:" for name in self.worker.config_providers]
        return {
            name
            for name, value in self.config.items()
            if any("}" in (value or "").partition(begin)[2] for begin in begins)
        }

    def find(self, key: str, text: str) -> JavaClass | None:
        """The class that a config means by a text; None: there is none.

        Every plugin is known that a key of Connect's own can name. Any other class may be there.
        """
        name = self.path.full_name(trim(text))
        found = self.path.class_named(name)
        is_known = bool(found.kinds or found.nested)
        if not name or not (is_known or self.path.trusting or not _names_plugin(key)):
            return None
        return found


_PLUGIN_KEY = re.compile(r"(key|value|header)\.converter|(transforms|predicates)\..*\.type")


@lru_cache(maxsize=1_000)
def _names_plugin(key: str) -> bool:
    """True if the key is one of Connect's own that names a plugin."""
    return _PLUGIN_KEY.fullmatch(key) is not None

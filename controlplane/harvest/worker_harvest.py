"""Harvest from a worker: plugins and their settings, from its REST API.

From 3.2 on a worker lists every plugin and returns the settings of each (KIP-769). The settings of
Connect itself, of clients and of transformations are in the answers to validations of configs.
Before 3.2 validations are the only source, so plugins other than connectors are known only if they
are Kafka's own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.plugins import CONNECTORS, ClassPath, KafkaPlugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.safe_text import count, short
from controlplane.harvest.bounded_worker import BoundedWorker, WorkerRefusal
from controlplane.harvest.catalogue_file import all_known, known_plugin
from controlplane.harvest.harvest_result import (
    CLIENTS,
    PLUGINS_MOST,
    SETTINGS_MOST,
    Harvest,
    HarvestedPlugin,
    NoAnswer,
    NoWorker,
    RestKey,
)

Progress = Callable[[int, int], None]
"""Called with the number of answered requests, and that of all requests."""

ATTEMPTS_MOST = 20
"""Maximum number of connectors of a kind that are tried until a worker validates a config."""

CLASSES_SHOWN = 5
"""Number of classes without settings that a message names; others are counted."""

_TYPE_SAMPLES = {
    "BOOLEAN": "false",
    "CLASS": "java.lang.String",
    "STRING": "x",
    "LIST": "x",
    "PASSWORD": "x",
}
"""Value that a worker can parse, by type; for other types a number."""

_ALIAS = "t"
_ALIASED = {"transformation": "transforms", "predicate": "predicates"}
"""Setting that lists the plugins of a kind by aliases."""

_TRIGGERS = {
    "source": {
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "offsets.storage.topic": "harvest",
    },
    "sink": {"topics": "harvest", "errors.deadletterqueue.topic.name": "harvest-failed"},
}
"""Settings that make a connector use all three clients."""


class _RootResponse(msgspec.Struct, frozen=True):
    version: str


class _ListedPlugin(msgspec.Struct, frozen=True, rename={"class_name": "class"}):
    """A plugin as `GET /connector-plugins` lists it."""

    class_name: str
    type: str = ""
    version: str | None = None


class _ConfigEntry(msgspec.Struct, frozen=True):
    definition: RestKey | None = None


class _ValidationResponse(msgspec.Struct, frozen=True):
    configs: tuple[_ConfigEntry, ...]


async def version_of(worker: BoundedWorker) -> str:
    """Version of Kafka of a worker.

    Raises:
        NoAnswer: it gives no answer.
        NoWorker: it is no Connect worker, or refuses the credentials.
    """
    try:
        return short((await worker.get("/", _RootResponse)).version)
    except WorkerRefusal as refusal:
        raise NoWorker(
            f"{worker.name} refuses GET / ({refusal}): give the URL of a Connect worker, and "
            "--user or --token if it asks for them"
        ) from None


async def from_worker(
    worker: BoundedWorker, version: str, profile: Profile, own: KafkaPlugins, progress: Progress
) -> Harvest:
    """Harvest all plugins and settings from a worker of this version.

    Raises:
        NoAnswer: it gives no answer.
        NoWorker: it answers otherwise than a Connect worker does.
    """
    return await _HarvestRun(worker, profile, all_known(own, profile), progress).harvest(version)


class _HarvestRun:
    """Requests to one worker, and the answers so far."""

    def __init__(
        self, worker: BoundedWorker, profile: Profile, path: ClassPath, progress: Progress
    ) -> None:
        self._worker, self._profile, self._path = worker, profile, path
        self._progress = progress
        self._definitions: dict[str, dict[str, ConfigKey]] = {}
        self._keys: dict[str, tuple[ConfigKey, ...]] = {}
        """Settings of plugins, by the plugin's class."""
        self._lacking: list[str] = []
        self._names: frozenset[str] = frozenset()
        """Classes that the worker lists."""
        self._without_settings: list[str] = []
        """Listed classes whose settings the worker does not return."""
        self._settings = 0
        self._done = self._expected = 0

    async def harvest(self, version: str) -> Harvest:
        """Send all requests, and return the harvest."""
        listed = await self._listed()
        self._names = frozenset(plugin.class_name for plugin in listed)
        hidden = self._hidden()
        if self._profile.rest_all_plugins:
            await self._ask_each(listed, hidden)
        else:
            self._lacking.append(
                f"a worker of {version} lists connectors alone: other plugins are known only if "
                "they are Kafka's own"
            )
        await self._ask_validations([*listed, *hidden])
        plugins = tuple(
            HarvestedPlugin(
                plugin.class_name, plugin.type, plugin.version, self._keys.get(plugin.class_name)
            )
            for plugin in (
                *listed,
                *(plugin for plugin in hidden if plugin.class_name in self._keys),
            )
        )
        if self._without_settings:
            names = ", ".join(map(short, self._without_settings[:CLASSES_SHOWN]))
            ellipsis = ", …" if len(self._without_settings) > CLASSES_SHOWN else ""
            plugin_count = count(len(self._without_settings), "plugin")
            self._lacking.append(
                f"the worker returns no settings of {plugin_count}: {names}{ellipsis}"
            )
        definitions = {scope: tuple(keys.values()) for scope, keys in self._definitions.items()}
        return Harvest(version, definitions, plugins, tuple(self._lacking))

    async def _listed(self) -> list[_ListedPlugin]:
        """The plugins that the worker lists, one per class and type.

        If the worker lists several versions of a plugin, only the first is returned.
        """
        try:
            # Workers before 3.2 ignore the unknown parameter.
            answer = await self._worker.get(
                "/connector-plugins?connectorsOnly=false", tuple[_ListedPlugin, ...]
            )
        except WorkerRefusal as refusal:
            raise NoWorker(f"{self._worker.name} does not list plugins: {refusal}") from None
        if len(answer) > PLUGINS_MOST:
            raise NoAnswer(f"{self._worker.name} lists more than {PLUGINS_MOST:,} plugins")
        distinct: dict[tuple[str, str], _ListedPlugin] = {}
        for plugin in answer:
            distinct.setdefault((plugin.class_name, plugin.type), plugin)
        return list(distinct.values())

    def _hidden(self) -> list[_ListedPlugin]:
        """Plugins that come with every worker, but that this worker does not list."""
        return [
            _ListedPlugin(plugin.class_name, plugin.type, plugin.version)
            for plugin in self._path.plugins
            if plugin.bundled and plugin.class_name not in self._names
        ]

    async def _ask_each(self, listed: list[_ListedPlugin], hidden: list[_ListedPlugin]) -> None:
        """Ask for the settings of each plugin (KIP-769)."""
        each = {plugin.class_name: plugin for plugin in (*listed, *hidden)}
        self._expect(len(each))
        for plugin in each.values():
            path = f"/connector-plugins/{quote(plugin.class_name, safe='')}/config"
            try:
                keys = await self._worker.get(path, tuple[RestKey, ...])
            except WorkerRefusal:
                self._note_missing_settings(plugin)
            else:
                self._keep_settings(plugin, self._plain(keys))
            self._step()

    def _note_missing_settings(self, plugin: _ListedPlugin) -> None:
        """Remember a listed plugin without settings."""
        if plugin.class_name in self._names:
            self._without_settings.append(plugin.class_name)

    def _keep_settings(self, plugin: _ListedPlugin, keys: list[ConfigKey]) -> None:
        """Keep the settings of a plugin; those that Connect adds to a connector are kept apart."""
        if plugin.type in CONNECTORS:
            self._keep_connects_own(plugin.type, keys)
            if self._profile.rest_framework_keys:
                keys = self._own_keys(plugin, keys)
        self._keys[plugin.class_name] = tuple(keys)

    def _own_keys(self, connector: _ListedPlugin, keys: Iterable[ConfigKey]) -> list[ConfigKey]:
        """Settings of the connector itself; `keys` also has those that Connect adds."""
        # MirrorMaker's connectors define settings of Connect themselves: these are their own, too.
        own_plugin = known_plugin(connector.class_name, connector.type, self._path)
        own = () if own_plugin is None else self._path.keys_of(own_plugin) or ()
        names = {key.name for key in own}
        shared = {
            key.name
            for scope in ("connector", connector.type)
            for key in self._path.definition(scope)
        }
        return [key for key in keys if key.name in names or key.name not in shared]

    def _keep_connects_own(self, kind: str, keys: Iterable[ConfigKey]) -> None:
        """Keep the settings that Connect itself adds to connectors of a kind."""
        scopes = {
            key.name: scope for scope in ("connector", kind) for key in self._path.definition(scope)
        }
        for key in keys:
            if key.name in scopes:
                self._definitions.setdefault(scopes[key.name], {}).setdefault(key.name, key)

    # --- validation -----------------------------------------------------------------------------

    async def _ask_validations(self, plugins: list[_ListedPlugin]) -> None:
        """Request the settings that only validations return."""
        every = not self._profile.rest_all_plugins
        connectors = [plugin for plugin in plugins if plugin.type in CONNECTORS]
        aliased = list(self._aliased(every=every))
        self._expect(2 + len(aliased) + (len(connectors) if every else 0))
        working = None
        for kind in ("source", "sink"):
            validated = await self._ask_kind(kind, connectors)
            working = working or validated
            self._step()
        for plugin in aliased if working is not None else ():
            await self._ask_aliased(plugin, working)
            self._step()
        for plugin in connectors if every else ():
            await self._ask_connector(plugin)
            self._step()

    def _aliased(self, *, every: bool) -> Iterator[_ListedPlugin]:
        """Kafka's own transformations and predicates with settings.

        Only the first one is yielded, unless `every` is set.
        """
        for plugin in self._path.plugins:
            if plugin.type in _ALIASED and plugin.config:
                yield _ListedPlugin(plugin.class_name, plugin.type)
                # `_ask_each` asks for each plugin's own settings. One validation shows the others,
                # which every transformation has.
                if not every:
                    return

    async def _ask_kind(
        self, kind: str, connectors: Iterable[_ListedPlugin]
    ) -> "_ValidatedConnector | None":
        """Let the worker validate a connector: it returns settings of Connect and of clients."""
        config = {**_TRIGGERS[kind], **self._overrides()}
        of_kind = [connector for connector in connectors if connector.type == kind]
        for plugin in of_kind[:ATTEMPTS_MOST]:
            keys = await self._validated(plugin, config)
            if keys is not None:
                self._keep_connects_own(kind, keys)
                self._keep_clients(keys)
                return _ValidatedConnector(plugin, _TRIGGERS[kind])
        self._lacking.append(
            f"the worker validates no {kind} connector, so it returns no settings of {kind}s"
        )
        return None

    def _overrides(self) -> dict[str, str]:
        """Sample values for the client overrides that a worker of this release validates.

        Empty if the release validates no overrides. Before 3.3, only the producer's are sent.
        """
        if not self._profile.overrides_validated:
            return {}
        # A validation describes only overrides in the config, and fails if one cannot be parsed.
        # Before 3.3, workers parse the overrides of every client as those of a producer.
        by_client = self._profile.overrides_by_client
        return {
            f"{client}.override.{key.name}": _TYPE_SAMPLES.get(key.type, "1")
            for client in (CLIENTS if by_client else CLIENTS[:1])
            for key in self._path.definition(client)
        }

    def _keep_clients(self, keys: Iterable[ConfigKey]) -> None:
        """Keep the settings of clients that a connector may override."""
        for client in CLIENTS:
            client_keys = _beneath(f"{client}.override.", keys)
            self._definitions.setdefault(client, {}).update({key.name: key for key in client_keys})

    async def _ask_aliased(
        self, plugin: _ListedPlugin, working: "_ValidatedConnector | None"
    ) -> None:
        """Let the worker validate a config with a transformation or predicate, for its settings."""
        assert working is not None
        listed = _ALIASED[plugin.type]
        prefix = f"{listed}.{_ALIAS}."
        config = {**working.config, listed: _ALIAS, f"{prefix}type": plugin.class_name}
        validation = await self._validated(working.connector, config)
        keys = list(_beneath(prefix, validation or ()))
        implied = {key.name for key in self._path.definition(plugin.type)}
        shared = {key.name: key for key in keys if key.name in implied}
        self._definitions.setdefault(plugin.type, {}).update(shared)
        if not self._profile.rest_all_plugins:
            self._keys[plugin.class_name] = self._with_documentation(plugin.class_name, keys)

    def _with_documentation(
        self, class_name: str, keys: Iterable[ConfigKey]
    ) -> tuple[ConfigKey, ...]:
        """Settings of a plugin of Kafka's own, with the worker's documentation of these settings.

        A validation under an alias changes group and order. So only its documentation is used.
        """
        texts = {key.name: key.documentation for key in keys}
        (plugin, *_) = self._path.named(class_name)
        return tuple(
            msgspec.structs.replace(key, documentation=texts.get(key.name, key.documentation))
            for key in plugin.config or ()
        )

    async def _ask_connector(self, connector: _ListedPlugin) -> None:
        """Let the worker validate a config of a connector: it returns the connector's settings."""
        keys = await self._validated(connector, _TRIGGERS.get(connector.type, {}))
        if keys is None:
            self._note_missing_settings(connector)
            return
        self._keys[connector.class_name] = tuple(self._own_keys(connector, keys))

    async def _validated(
        self, connector: _ListedPlugin, settings: Mapping[str, str]
    ) -> list[ConfigKey] | None:
        """All settings that the worker returns for a config; None: it refuses to validate it."""
        name = connector.class_name
        path = f"/connector-plugins/{quote(name, safe='')}/config/validate"
        config = {"name": "harvest", "connector.class": name, **settings}
        try:
            validation = await self._worker.put(path, config, _ValidationResponse)
        except WorkerRefusal:
            return None
        return self._plain(
            parameter.definition
            for parameter in validation.configs
            if parameter.definition is not None
        )

    def _plain(self, keys: Iterable[RestKey]) -> list[ConfigKey]:
        """Settings as `ConfigKey`s.

        Raises:
            NoAnswer: the worker has returned more settings than any worker has.
        """
        definitions = [key.config_key() for key in keys]
        self._settings += len(definitions)
        if self._settings > SETTINGS_MOST:
            raise NoAnswer(f"{self._worker.name} returns more than {SETTINGS_MOST:,} settings")
        return definitions

    # --- progress -------------------------------------------------------------------------------

    def _expect(self, questions: int) -> None:
        self._expected += questions
        self._progress(self._done, self._expected)

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done, self._expected)


class _ValidatedConnector(NamedTuple):
    """A connector that the worker validates, and the config for it."""

    connector: _ListedPlugin
    config: Mapping[str, str]


def _beneath(prefix: str, keys: Iterable[ConfigKey]) -> Iterator[ConfigKey]:
    """Settings under a prefix, without it."""
    for key in keys:
        if key.name.startswith(prefix):
            yield msgspec.structs.replace(key, name=key.name.removeprefix(prefix))

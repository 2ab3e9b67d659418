"""Settings of a worker, from several sources in order of precedence.

    flag > environment > file > default

`sources` and `environment` read each source into text by key. A `Configuration` holds the sources
in their order and builds tables of settings from them. `WorkerSettings` is the table of a worker's
`.properties` file; other tables hold limits of parts of the program. The key of a setting is its
field with dots in place of `_`.
"""

from controlplane.settings.configuration import Configuration, EffectiveValue
from controlplane.settings.errors import BadValue, SettingsError
from controlplane.settings.sources import SourcedValue, SourceValues, ValueSource
from controlplane.settings.worker_settings import WorkerSettings

__all__ = [
    "BadValue",
    "Configuration",
    "EffectiveValue",
    "SettingsError",
    "SourceValues",
    "SourcedValue",
    "ValueSource",
    "WorkerSettings",
]

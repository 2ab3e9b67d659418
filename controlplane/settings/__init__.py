"""What is told about a worker, by whom, and what follows from it.

    flag > environment > file > default

Each source is read into what it tells (`sources`, `environment`), key by key, as text. A
`Configuration` holds them in their order and makes settings of them: `WorkerSettings`, the table of
what counts here of a worker's `.properties` file, or the limits of a part of the program, which are
told the same way. A setting's key is its field with dots in place of `_`.
"""

from controlplane.properties import SettingsError
from controlplane.settings.configuration import Configuration, Effective
from controlplane.settings.kinds import BadValue
from controlplane.settings.sources import Source, Telling, Told
from controlplane.settings.worker import WorkerSettings

__all__ = [
    "BadValue",
    "Configuration",
    "Effective",
    "SettingsError",
    "Source",
    "Telling",
    "Told",
    "WorkerSettings",
]

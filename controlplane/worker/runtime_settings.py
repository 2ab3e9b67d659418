"""Runtime settings from a worker's settings."""

from controlplane.settings import Configuration, WorkerSettings
from controlplane.worker.settings import RuntimeSettings

_CONVERTERS = ("key.converter.", "value.converter.", "header.converter.")


def runtime_settings(configuration: Configuration, *, worker_id: str) -> RuntimeSettings:
    """Build the settings of connectors that run here.

    Raises:
        SettingsError: a value is invalid.
    """
    worker = configuration.settings(WorkerSettings)
    converters = {
        key: text for prefix in _CONVERTERS for key, text in configuration.below(prefix).items()
    }
    return RuntimeSettings(
        worker_id=worker_id,
        task_shutdown_graceful_timeout_ms=worker.task_shutdown_graceful_timeout_ms,
        offset_flush_interval_ms=worker.offset_flush_interval_ms,
        offset_flush_timeout_ms=worker.offset_flush_timeout_ms,
        exactly_once=worker.exactly_once,
        topic_tracking=worker.topic_tracking_enable,
        key_converter=worker.key_converter,
        value_converter=worker.value_converter,
        header_converter=worker.header_converter,
        converter_settings=converters,
    )

"""Rules for a source's config beyond those of single keys (KIP-618).

Kafka: `DistributedHerder#validateSourceConnectorExactlyOnceSupport`, `…TransactionBoundary`.
"""

from controlplane.core.configdef.check_result import KeyCheck, KeyChecks, blame
from controlplane.core.plugins import Plugin
from controlplane.core.validation.capabilities import exactly_once
from controlplane.core.validation.subject import ValidationSubject

_SUPPORT, _BOUNDARY = "exactly.once.support", "transaction.boundary"

_DISABLED = "This worker does not have exactly-once source support enabled."

_NO_SUPPORT = {
    None: (
        "The connector does not implement the API required for preflight validation of "
        "exactly-once source support. Please consult the documentation for the connector to "
        "determine whether it supports exactly-once semantics, and then consider reconfiguring "
        'the connector to use the value "requested" for this property (which will disable this '
        "preflight check and allow the connector to be created)."
    ),
    False: "The connector does not support exactly-once semantics with the provided configuration.",
}

_NO_BOUNDARIES = (
    "The connector does not support connector-defined transaction boundaries with the given "
    "configuration. Please reconfigure it to use a different transaction boundary definition."
)


def check_source(subject: ValidationSubject, plugin: Plugin, checked: KeyChecks) -> None:
    """Check requirements that need both the worker's settings and the connector's class."""
    support, boundary = checked.get(_SUPPORT), checked.get(_BOUNDARY)
    if support is not None and _says(support, "required"):
        if not subject.worker.exactly_once_source:
            blame(checked, _SUPPORT, _DISABLED)
        supported = exactly_once(plugin.exactly_once, subject.config)
        if not supported:
            blame(checked, _SUPPORT, _NO_SUPPORT[supported])
    own = plugin.transaction_boundaries == "supported"
    if boundary is not None and _says(boundary, "connector") and not own:
        blame(checked, _BOUNDARY, _NO_BOUNDARIES)


def _says(check: KeyCheck, word: str) -> bool:
    return not check.errors and str(check.value).lower() == word

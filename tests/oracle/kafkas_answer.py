"""Answer of Kafka's stores to a case, in the common form."""

from collections.abc import Mapping
from typing import Any

from controlplane.core.fold import FateKind
from tests.oracle.comparable_answers import ComparableAnswer, compact, each_in_order, rows_of
from tests.oracle.kafka import StoreAnswer

UNDECODABLE = "error: Failed to convert config data"

DEFECTS = ("defaulting to", "'state.v2' field should be")
"""Parts of log lines about a single field, after which the store reads the other fields."""


def of_kafka(answer: StoreAnswer) -> ComparableAnswer:
    """Kafka's answer in the common form."""
    fates = enumerate(answer["records"])
    common: ComparableAnswer = {f"record {number}": _fate(fate) for number, fate in fates}
    common["died"] = bool(answer["died"])
    config = {name: value or None for name, value in answer["config"].items()}
    for name in ("inconsistent", "connectorsPendingFencing"):
        config[name] = sorted(config[name] or ()) or None
    config["offset"] = answer["config"]["offset"]
    config["tasks"] = {name: _task_ids(ids) for name, ids in answer["config"]["tasks"].items()}
    config["sessionKey"] = config.get("sessionKey")
    common |= {f"config.{name}": value for name, value in config.items()}
    common |= {f"status.{name}": rows_of(rows) for name, rows in (answer["status"] or {}).items()}
    for store in ("offsets", "own"):
        common[f"{store}.data"] = sorted(answer[store]["data"], key=str)
        common[f"{store}.partitions"] = each_in_order(answer[store]["partitions"] or {})
    common["offsets.offsets"] = each_in_order(answer["offsets"].get("offsets") or {})
    return common


def _fate(fate: Mapping[str, Any] | str | None) -> Any:
    if fate is None:
        return FateKind.ACCEPTED.value
    if isinstance(fate, str):
        return fate
    thrown = fate.get("thrown")
    calls = [[name, _announced(arguments)] for name, arguments in fate["calls"]]
    return compact(_kind(fate), thrown, calls)


def _kind(fate: Mapping[str, Any]) -> FateKind:
    if "thrown" in fate:
        return FateKind.LOSES_BATCH if fate["caught"]["boolean"] else FateKind.POISON
    complaints = fate["complaints"]
    if any(complaint.startswith(UNDECODABLE) for complaint in complaints):
        return FateKind.UNDECODABLE
    serious = [
        complaint for complaint in complaints if not any(defect in complaint for defect in DEFECTS)
    ]
    return FateKind.IGNORED if serious else FateKind.ACCEPTED


def _announced(arguments: list[Any]) -> list[Any]:
    """Task ids, sorted: Kafka's order is that of a HashMap."""
    return [sorted(argument) if isinstance(argument, list) else argument for argument in arguments]


def _task_ids(ids: Any) -> Any:
    return ids if isinstance(ids, str) else [number for _, number in ids]

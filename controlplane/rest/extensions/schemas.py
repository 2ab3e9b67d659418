"""JSON schemas of requests and answers, for `GET /openapi.json`.

They hold for every release: fields of some releases are optional.
"""

from collections.abc import Mapping
from typing import Any

JsonSchema = Mapping[str, Any]

TEXT: JsonSchema = {"type": "string"}
TEXT_OR_NULL: JsonSchema = {"type": ["string", "null"]}
NUMBER: JsonSchema = {"type": "integer"}
FLAG: JsonSchema = {"type": "boolean"}
ANY: JsonSchema = {}
MAP: JsonSchema = {"type": "object"}


def ref(name: str) -> JsonSchema:
    """Return a reference to one of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: JsonSchema) -> JsonSchema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def mapped(values: JsonSchema) -> JsonSchema:
    """Return the schema of an object with arbitrary names."""
    return {"type": "object", "additionalProperties": values}


def _struct(required: Mapping[str, JsonSchema], **optional: JsonSchema) -> JsonSchema:
    """Return the schema of an object with these members, and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


_NEXT: JsonSchema = {
    "type": ["string", "null"],
    "description": "Value of after= for the next page; null on the last page.",
}
_POSITION: Mapping[str, JsonSchema] = {"topic": TEXT, "partition": NUMBER, "offset": NUMBER}
_STATE: Mapping[str, JsonSchema] = {"state": TEXT, "worker_id": TEXT_OR_NULL}
_STATE_MORE: Mapping[str, JsonSchema] = {"version": TEXT_OR_NULL, "trace": TEXT}
_CONNECTOR: Mapping[str, JsonSchema] = {
    "name": TEXT,
    "config": ref("Config"),
    "tasks": listed(ref("TaskId")),
}
_TYPE: JsonSchema = {"type": "string", "enum": ["source", "sink", "unknown"]}
_BYTES: JsonSchema = {
    "anyOf": [TEXT_OR_NULL, _struct({"base64": TEXT})],
    "description": "Text, bytes in Base64, or null for none.",
}
_NUMBER_OR_NULL: JsonSchema = {"type": ["integer", "null"]}
_MAP_OR_NULL: JsonSchema = {"type": ["object", "null"]}
_KEY: Mapping[str, JsonSchema] = {
    "name": TEXT,
    "type": TEXT,
    "required": FLAG,
    "default_value": TEXT_OR_NULL,
    "importance": TEXT,
    "documentation": TEXT,
    "group": TEXT_OR_NULL,
    "width": TEXT,
    "display_name": TEXT,
    "dependents": listed(TEXT),
}

SCHEMAS: Mapping[str, JsonSchema] = {
    "Error": _struct({"error_code": NUMBER, "message": TEXT_OR_NULL}),
    "Server": _struct({"version": TEXT, "commit": TEXT}, kafka_cluster_id=TEXT_OR_NULL),
    "Health": _struct(
        {
            "status": {"type": "string", "enum": ["healthy", "starting", "unhealthy"]},
            "message": TEXT,
        }
    ),
    "Config": mapped(ANY),
    "TaskId": _struct({"connector": TEXT, "task": NUMBER}),
    "Connector": _struct(_CONNECTOR, type=_TYPE, initial_offsets_response=TEXT),
    "Connectors": {
        "anyOf": [
            listed(TEXT),
            mapped(_struct({}, status=ref("Status"), info=ref("Connector"))),
        ],
        "description": "Names; with expand=, an object with details of each connector.",
    },
    "Creation": _struct(
        {"name": TEXT, "config": ref("Config")},
        initial_state={"type": ["string", "null"]},
        initial_offsets={"anyOf": [listed(ref("Offset")), {"type": "null"}]},
    ),
    "Task": _struct({"id": ref("TaskId"), "config": ref("Config")}),
    "TaskConfigs": mapped(ref("Config")),
    "TaskStatus": _struct({"id": NUMBER, **_STATE}, **_STATE_MORE),
    "Status": _struct(
        {
            "name": TEXT,
            "connector": _struct(_STATE, **_STATE_MORE),
            "tasks": listed(ref("TaskStatus")),
        },
        type=_TYPE,
    ),
    "Topics": mapped(_struct({"topics": listed(TEXT)})),
    "Offset": _struct({"partition": ANY, "offset": ANY}),
    "Offsets": _struct(
        {
            "offsets": {
                "anyOf": [
                    listed(ref("Offset")),
                    _struct({}, source=listed(ref("Offset")), sink=listed(ref("Offset"))),
                ]
            }
        }
    ),
    "Message": _struct({"message": TEXT_OR_NULL}),
    "Plugin": _struct({"class": TEXT, "type": TEXT}, version=TEXT),
    "Key": _struct(_KEY, order=NUMBER, order_in_group=NUMBER),
    "Validation": _struct(
        {
            "name": TEXT,
            "error_count": NUMBER,
            "groups": listed(TEXT),
            "configs": listed(
                _struct(
                    {
                        "definition": {"anyOf": [ref("Key"), {"type": "null"}]},
                        "value": _struct(
                            {
                                "name": TEXT,
                                "value": TEXT_OR_NULL,
                                "recommended_values": listed(TEXT),
                                "errors": listed(TEXT),
                                "visible": FLAG,
                            }
                        ),
                    }
                )
            ),
        }
    ),
    "Logger": _struct({"level": TEXT}, last_modified={"type": ["integer", "null"]}),
    "Level": {"type": "object", "required": ["level"], "properties": {"level": TEXT}},
    "Position": _struct(_POSITION),
    "Plan": _struct(
        {
            "profile": TEXT,
            "steps": listed(ref("Step")),
            "commit_point": TEXT_OR_NULL,
            "assumed": listed(TEXT),
            "outcome": MAP,
        }
    ),
    "Step": _struct(
        {
            "name": TEXT,
            "records": listed(
                _struct(
                    {
                        "topic": TEXT,
                        "partition": {"type": ["integer", "null"]},
                        "key": _BYTES,
                        "value": _BYTES,
                    }
                )
            ),
            "read_back": listed(TEXT),
            "best_effort": FLAG,
        },
        action=ANY,
        undo=ref("Step"),
    ),
    "History": _struct(
        {
            "connector": TEXT,
            "profile": TEXT,
            "events": listed(
                _struct(
                    {
                        "at": TEXT,
                        "record": _struct(
                            {**_POSITION, "timestamp": NUMBER, "key": TEXT_OR_NULL},
                        ),
                        "what": TEXT,
                        "words": TEXT,
                        "before": ANY,
                        "after": ANY,
                    }
                )
            ),
            "next": _NEXT,
        },
        records=listed(
            _struct({**_POSITION, "timestamp": NUMBER, "key": TEXT_OR_NULL, "value": TEXT_OR_NULL})
        ),
    ),
    "Differences": _struct(
        {
            "profile": TEXT,
            "changes": listed(
                _struct(
                    {
                        "connector": TEXT,
                        "aspect": TEXT,
                        "item": TEXT,
                        "before": ANY,
                        "after": ANY,
                        "words": TEXT,
                        "record": {"anyOf": [ref("Position"), {"type": "null"}]},
                    }
                )
            ),
            "next": _NEXT,
        }
    ),
    "Progress": _struct(
        {
            "connector": TEXT,
            "type": _TYPE,
            "offsets": listed(
                _struct(
                    {"partition": _MAP_OR_NULL, "offset": _MAP_OR_NULL},
                    end=_NUMBER_OR_NULL,
                    lag=_NUMBER_OR_NULL,
                    reason=TEXT,
                    changed_at=TEXT_OR_NULL,
                    record=TEXT_OR_NULL,
                )
            ),
        },
        group=TEXT,
        lag=_NUMBER_OR_NULL,
    ),
    "Targets": _struct(
        {
            "targets": mapped({"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"]}),
            "next": _NEXT,
        }
    ),
    "Commands": _struct(
        {
            "commands": listed(
                _struct(
                    {
                        "id": TEXT,
                        "at_ms": NUMBER,
                        "principal": TEXT_OR_NULL,
                        "command": TEXT_OR_NULL,
                        "connector": TEXT_OR_NULL,
                        "outcome": TEXT,
                        "asked": MAP,
                        "record": ref("Position"),
                    },
                    finished_at_ms=NUMBER,
                    reason=TEXT,
                    compared=TEXT,
                    differences=listed(TEXT),
                    records=listed(TEXT),
                    recovered=FLAG,
                )
            ),
            "next": _NEXT,
        }
    ),
}
"""Schemas by name, for the document's `components`."""

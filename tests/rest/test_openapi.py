"""Our answers conform to Kafka's own OpenAPI descriptions of the Connect REST API."""

from pathlib import Path

import pytest

from tests.rest.openapi import Description, kafkas_description
from tests.rest.served_history import served

LINES = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9")

PATHS = {
    "/": "/",
    "/connectors": "/connectors",
    "/connectors/{connector}": "/connectors/pages",
    "/connectors/{connector}/config": "/connectors/pages/config",
    "/connectors/{connector}/tasks": "/connectors/pages/tasks",
    "/connectors/{connector}/tasks-config": "/connectors/pages/tasks-config",
    "/connectors/{connector}/status": "/connectors/pages/status",
    "/connectors/{connector}/tasks/{task}/status": "/connectors/pages/tasks/0/status",
    "/connectors/{connector}/topics": "/connectors/pages/topics",
    "/connectors/{connector}/offsets": "/connectors/pages/offsets",
}


@pytest.fixture
def description(line: str, shared: Path) -> Description:
    """Kafka's description of a release line."""
    return Description(kafkas_description(shared, line))


@pytest.mark.shared
@pytest.mark.parametrize("line", LINES)
async def test_answers_are_as_described(description: Description, line: str) -> None:
    """An endpoint exists exactly if it is described, and its answer matches the schema."""
    async with served("life-3.9", line) as client:
        for template, path in PATHS.items():
            response = await client.get(path)
            assert description.has(template) == (response.status_code == 200), template
            if description.has(template):
                assert description.faults(template, response.json()) == []


def test_faults_are_found(tmp_path: Path) -> None:
    """The checker finds a wrong type, a wrong word and an unknown member, also deep inside."""
    path = tmp_path / "api.yaml"
    path.write_text(_DESCRIPTION)
    answer = {"type": "sauce", "tasks": [{"task": "0"}, {"task": 1, "more": 2}], "any": [1]}
    assert Description(path).faults("/c", answer) == [
        "$.type is none of ['source', 'sink']: 'sauce'",
        "$.tasks[0].task is no integer: '0'",
        "$.tasks[1] has an unknown member more",
    ]


_DESCRIPTION = """
paths:
  /c:
    get:
      responses:
        default:
          content:
            application/json:
              schema:
                $ref: '#/components/schemas/Info'
components:
  schemas:
    Info:
      type: object
      properties:
        type: {type: string, enum: [source, sink]}
        tasks: {type: array, items: {$ref: '#/components/schemas/Task'}}
        any: {type: object}
    Task:
      type: object
      properties:
        task: {type: integer}
"""

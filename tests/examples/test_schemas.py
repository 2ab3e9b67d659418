"""The transformation and the predicate of `docs/schemas.md` work in a worker.

`tests/docs/test_consoles.py` runs the programs of the page.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext
from controlplane.core.commands import CreateConnector
from controlplane.plugins import GROUP
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.plugin_path import classes_in
from tests.examples.test_embedding import EXAMPLES
from tests.examples.test_readings import blocks
from tests.worker.worker_fixture import config_of, produce, running, until

TEXT = (EXAMPLES.parent / "docs" / "schemas.md").read_text("utf-8")
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def masking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectorClasses]:
    """Classes of the module `masking` of the page, without the lines that test it."""
    (block,) = (block for block in blocks("python", TEXT) if "class Masked(" in block)
    (tmp_path / "masking.py").write_text(block.partition("\nmasked = ")[0], "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield classes_in(["masking"])
    del sys.modules["masking"]


class ValueCollectingSink(Sink):
    """Sink that keeps the value of each record."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values."""
        del task
        values.extend(record.value for record in records)


values: list[object] = []


async def test_the_chain_of_the_page_hides_the_field_of_selected_records(
    masking: ConnectorClasses,
) -> None:
    """The config of the page masks credit cards, and leaves other records alone."""
    values.clear()
    chain = json.loads(blocks("json", TEXT)[0])
    config = config_of(ValueCollectingSink, topics="payments", value_converter=JSON)
    config |= chain | {"value.converter.schemas.enable": "false"}
    others = [masking.transformation("masking.Masked"), masking.predicate("masking.FieldIs")]
    async with running(ValueCollectingSink, others=others) as worker:
        sent = [{"card": "4111", "kind": "credit"}, {"card": "none", "kind": "cash"}]
        await produce(worker.plane.log, "payments", *map(json.dumps, sent))
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: values == [{"card": "***", "kind": "credit"}, sent[1]])


def test_the_entry_points_of_the_page_name_its_classes(masking: ConnectorClasses) -> None:
    """The group is that of connectors, and each value is a class of the module."""
    (block,) = blocks("toml", TEXT)
    declared = tomllib.loads(block)["project"]["entry-points"][GROUP]
    names = [value.replace(":", ".") for value in declared.values()]
    assert masking.transformation(names[0]).__name__ == "Masked"
    assert masking.predicate(names[1]).__name__ == "FieldIs"

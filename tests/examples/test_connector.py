"""The example connector runs unchanged, also when a package declares it."""

from pathlib import Path

import pytest

from controlplane import ControlPlane, Refusal, commands
from tests.examples.test_embedding import EXAMPLES, run
from tests.installed_package import declare


def test_the_hook_judges_offsets() -> None:
    """The hook accepts and refuses offsets; the config keys are validated."""
    assert [line[:70] for line in run("connector.py")] == [
        "The offsets for this connector have been altered successfully",
        "refused: there is no row -1",
        "refused: Connector configuration is invalid and contains the following",
    ]


async def test_a_package_declares_the_connector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plane without plugin settings finds the connector by its entry point."""
    declare(monkeypatch, tmp_path, orders="connector:OrdersSource")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    config = {"connector.class": "OrdersSource", "table": "orders"}
    async with ControlPlane.open("memory:") as plane:
        bad = commands.CreateConnector("orders", {**config, "rows.max": "0"})
        with pytest.raises(Refusal, match=r"Invalid value 0 for configuration rows\.max"):
            await plane.execute(bad)
        await plane.execute(commands.CreateConnector("orders", config))

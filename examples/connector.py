"""A connector class in Python, and the validation that a control plane derives from it.

Run `python examples/connector.py`. An installed package declares such a class by an entry point,
and `ControlPlane.open` finds it. This program passes the class itself.

    [project.entry-points."controlplane.connectors"]
    orders = "example.orders:OrdersSource"
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from controlplane import ControlPlane, Refusal, commands
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.plan import Offsets
from controlplane.core.records import Target
from controlplane.plane import Surroundings
from controlplane.plugins import catalogued, described


class OrdersSource:
    """A source that reads a table; its offsets are `{"table": …}` → `{"row": …}`."""

    kind: ClassVar[Literal["source", "sink"]] = "source"
    version: ClassVar[str] = "1.0"
    config: ClassVar[Sequence[ConfigKey]] = (
        ConfigKey(name="table", type="STRING", required=True, valid=("non-empty string",)),
        ConfigKey(name="rows.max", type="INT", default="500", valid=("[1,...]",)),
    )

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Offsets) -> bool:
        """Refuse other tables and negative rows; called before anything is written."""
        for partition, offset in offsets:
            if partition != {"table": config["table"]}:
                raise ValueError(f"orders reads {config['table']}, not {partition}")
            if offset is not None and offset["row"] < 0:
                raise ValueError(f"there is no row {offset['row']}")
        return True


async def main() -> None:
    """Create a connector, alter its offset, and show two refusals."""
    around = Surroundings(plugins=catalogued(more=[described(OrdersSource)]))
    async with ControlPlane.open("memory:", around=around) as plane:
        config = {"connector.class": "OrdersSource", "table": "orders"}
        await plane.execute(commands.CreateConnector("orders", config, Target.STOPPED))
        outcome = await plane.execute(at_row(7))
        print(outcome.message)
        await refused(plane, at_row(-1))
        await refused(plane, commands.PutConfig("orders", {**config, "rows.max": "0"}))


def at_row(row: int) -> commands.AlterOffsets:
    """Return the command that moves the connector to a row."""
    return commands.AlterOffsets(
        "orders", (commands.OffsetChange({"table": "orders"}, {"row": row}),)
    )


async def refused(plane: ControlPlane, command: commands.AnyCommand) -> None:
    """Print the reason why a command is refused."""
    try:
        await plane.execute(command)
    except Refusal as refusal:
        print("refused:", str(refusal).replace("\n", " "))


if __name__ == "__main__":
    asyncio.run(main())

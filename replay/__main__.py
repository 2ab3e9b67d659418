"""Entry point of `replay`, installed or as `python -m replay`."""

from controlplane.terminal.program import run


def main() -> None:
    """Run the command that the arguments name, and end the process with its exit code."""
    run("replay", "replay.cli.main")


if __name__ == "__main__":
    main()

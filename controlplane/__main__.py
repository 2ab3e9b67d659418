"""Entry point of `controlplane`, installed or as `python -m controlplane`."""

from controlplane.terminal.program import run


def main() -> None:
    """Run the command that the arguments name, and end the process with its exit code."""
    run("controlplane", "controlplane.cli.main")


if __name__ == "__main__":
    main()

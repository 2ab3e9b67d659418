"""Entry point of `python -m replay`."""

from replay.cli.main import main

if __name__ == "__main__":
    main(prog_name="replay")

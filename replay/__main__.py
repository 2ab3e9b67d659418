"""`replay` on the command line."""

from replay.cli.main import main

if __name__ == "__main__":
    main(prog_name="replay")

"""`replay` on the command line."""

import sys


def main() -> None:
    """Say that there is nothing to replay with yet, and what to use until then."""
    sys.stderr.write("replay has no commands yet: `controlplane inspect` folds one log\n")
    sys.exit(2)


if __name__ == "__main__":
    main()

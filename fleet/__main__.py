"""`python -m fleet` is the command `fleet`."""

import sys

from fleet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

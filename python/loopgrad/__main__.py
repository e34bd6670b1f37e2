"""The command line on the built-in programs: ``python -m loopgrad list``."""

import sys

from . import _core


def main() -> int:
    return _core.main(["loopgrad"] + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

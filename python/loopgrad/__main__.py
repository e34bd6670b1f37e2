"""The command line on the built-in programs: ``python -m loopgrad list``."""

import sys

from . import _core

sys.exit(_core.main(["loopgrad"] + sys.argv[1:]))

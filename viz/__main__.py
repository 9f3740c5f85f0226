"""python -m viz: the same as the command simviz."""

import sys

from viz.cli import main

sys.exit(main())

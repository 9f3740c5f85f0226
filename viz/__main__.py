"""python -m viz: the same as the command simviz."""

import sys

from viz.entry import main

sys.exit(main())

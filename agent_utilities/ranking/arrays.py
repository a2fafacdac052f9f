"""Types of arrays, for type checkers: nothing imports this when it runs, so numpy may stand at the top."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
"""(n_tools,)"""

Vectors = NDArray[np.float32]
"""(n, n_dimensions)"""

Places = NDArray[np.intp]
"""(n,) where tools stand in a catalog, or among the permitted tools of one."""

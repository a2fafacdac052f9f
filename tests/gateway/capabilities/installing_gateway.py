"""A process that runs the installer of `a/thing` in a tap, and prints what it is told until it is ended.

Argument: the tap.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from agent_utilities.gateway.capabilities.installers import Toolchains
from agent_utilities.gateway.capabilities.model import Capability


async def main() -> None:
    toolchains = Toolchains(environ=os.environ, allow_install=True)
    capability = Capability("thing", "thing/default.toml", Path(sys.argv[1]), require=("a/thing",))
    await toolchains.satisfy(capability, partial(print, flush=True))


if __name__ == "__main__":
    asyncio.run(main())

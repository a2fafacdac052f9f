"""What is said where vectors can't be had and words alone are used."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)


class FallbackNotice:
    """Says once that vectors can't be had, and again only after they could be.

    Args:
        what: what is done in their place.
    """

    def __init__(self, what: str = "ranked by words alone") -> None:
        self._what = what
        self._is_said = False

    def failed(self, cause: str) -> str:
        """Log a failure that is news, and return it as the cause of a plainer ranking."""
        text = f"{self._what}: {cause}"
        if not self._is_said:
            logger.warning("%s", text)
        self._is_said = True
        return text

    def worked(self) -> None:
        """Note that vectors can be had."""
        self._is_said = False

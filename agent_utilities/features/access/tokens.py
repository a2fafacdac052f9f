"""Verifying tokens of a small team's file, and following the file as it changes."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from cachetools import LRUCache
from fastmcp.server.auth import AccessToken, TokenVerifier

from agent_utilities.access.rules import LOCAL
from agent_utilities.access.token_file import PREFIX, TokenFile, read_tokens
from agent_utilities.errors import InputError
from agent_utilities.features.access import refusals
from agent_utilities.features.access.refusals import note

logger = logging.getLogger("agent_utilities.access")

_N_SEEN = 1024


class FileTokens(TokenVerifier):
    """Verifies tokens of a file.

    Args:
        path: the file.

    Raises:
        InputError: it can't be read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.file = TokenFile()
        self._seen: LRUCache[str, AccessToken] = LRUCache(_N_SEEN)
        self.take(read_tokens(path))

    def take(self, file: TokenFile) -> None:
        """Take what the file holds by now; what was verified by what it held before is forgotten."""
        self.file = file
        self._seen.clear()

    def read_again(self) -> TokenFile:
        """Return what the file holds by now; what it held before where it can't be taken, which is told."""
        try:
            return read_tokens(self.path)
        except InputError as error:
            logger.error("%s; what it held before still holds", error)
            return self.file

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who a token says that they are; None for one that the file does not have, or no more."""
        if not token.startswith(PREFIX):
            return None
        access = self._seen.get(token)
        if access is None:
            if (found := self.file.find(token)) is None:
                return None
            claims = {"iss": LOCAL, "sub": found.name}
            access = self._seen[token] = AccessToken(
                token=token,
                client_id=found.name,
                scopes=[],
                expires_at=found.expires_at,
                subject=found.name,
                claims=claims,
            )
        if access.expires_at is not None and access.expires_at <= time.time():
            note(refusals.EXPIRED)
            return None
        return access

"""A provider of vectors from any OpenAI-compatible endpoint: Ollama, TEI, vLLM and others."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx2

from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.arrays import Vectors, np
from agent_utilities.query.ranking.embedding import TextRole

KEY_VARIABLE = "MCP_EMBEDDINGS_API_KEY"
_N_AT_A_TIME = 64
_N_CHARACTERS = 8_000
_REST_S, _LONGEST_REST_S = 30.0, 600.0
"""The pause after a failure, and the longest that the endpoint may request by `Retry-After`."""


class Endpoint:
    """A provider at a URL, such as `http://127.0.0.1:11434/v1`, with the key of `MCP_EMBEDDINGS_API_KEY`.

    It has a circuit breaker: after a failure it is not called for a while.
    """

    claim_distance: float = 0.0
    request_timeout_s = 1.0
    """The longest that a request waits for its vectors."""
    indexing_timeout_s = 30.0
    """The same for a batch in the background."""

    def __init__(self, url: str, model: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = f"{url.rstrip('/')}#{model}"
        self._url = f"{url.rstrip('/')}/embeddings"
        self._model = model
        key = os.environ.get(KEY_VARIABLE, "")
        self._client = httpx2.Client(headers={"authorization": f"Bearer {key}"} if key else {}, trust_env=False)
        self._clock = clock
        self._rests_until: tuple[float, str] = float("-inf"), ""
        """The end of the pause, and its cause; one value, since several threads read it."""

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector for each text; raises `RankerError` where the endpoint fails, or did so a moment ago.

        The timeout is for a whole request, or for each batch of other texts.
        """
        rests_until_s, cause = self._rests_until
        if self._clock() < rests_until_s:
            raise RankerError(cause)
        timeout_s, n_waits = self.indexing_timeout_s, 1 + len(texts) // _N_AT_A_TIME
        if role == "request":
            timeout_s, n_waits = self.request_timeout_s, 1
        vectors: list[Any] = []
        until_s = self._clock() + n_waits * timeout_s
        for start in range(0, len(texts), _N_AT_A_TIME):
            some = [text[:_N_CHARACTERS] for text in texts[start : start + _N_AT_A_TIME]]
            vectors += self._post(some, min(timeout_s, until_s - self._clock()))
        try:
            return np.array(vectors, dtype=np.float32)
        except (TypeError, ValueError):
            raise self._failed("gives vectors that are none") from None

    def close(self) -> None:
        self._client.close()

    def _post(self, texts: list[str], timeout_s: float) -> list[Any]:
        """Return the unchecked vector of each text."""
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        if timeout_s <= 0:
            raise self._failed("is too slow")
        try:
            with self._client.stream("POST", self._url, json=body, timeout=timeout_s) as response:
                content = self._read(response, self._clock() + timeout_s)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._failed(f"can't be asked: {str(error) or type(error).__name__}") from None
        if response.status_code != 200:
            raise self._failed(f"answered {response.status_code}", _retry_after_s(response))
        try:
            rows = sorted(json.loads(content)["data"], key=lambda row: row["index"])
            vectors = [row["embedding"] for row in rows]
        except (ValueError, KeyError, TypeError):
            raise self._failed("answers no embeddings") from None
        if len(vectors) != len(texts):
            raise self._failed(f"gives {len(vectors)} vectors for {len(texts)} texts")
        return vectors

    def _read(self, response: httpx2.Response, until_s: float) -> bytes:
        """Read an answer by a deadline; the client's own timeout is for each chunk."""
        parts: list[bytes] = []
        for part in response.iter_bytes():
            if self._clock() > until_s:
                raise httpx2.ReadTimeout("the answer takes too long")
            parts.append(part)
        return b"".join(parts)

    def _failed(self, what: str, rest_s: float | None = None) -> RankerError:
        """Pause, and return the error that says why."""
        cause = f"the endpoint {self.name!r} {what}"
        self._rests_until = self._clock() + (_REST_S if rest_s is None else rest_s), cause
        return RankerError(cause)


def _retry_after_s(response: httpx2.Response) -> float | None:
    try:
        return min(_LONGEST_REST_S, max(0.0, float(response.headers["retry-after"])))
    except (KeyError, ValueError):
        return None

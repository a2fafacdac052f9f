"""Any OpenAI-compatible embeddings endpoint: Ollama, TEI, vLLM and others."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import httpx2

from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.embedding import TextRole

if TYPE_CHECKING:
    from agent_utilities.ranking.embedding import Vectors

KEY_VARIABLE = "MCP_EMBEDDINGS_API_KEY"
_BATCH = 64
_N_CHARACTERS = 8_000


class Endpoint:
    """A provider at a URL. After a failure it is left alone for a while, so that no request waits for it in vain.

    Args:
        url: the API's base, such as `http://127.0.0.1:11434/v1`.
        model: the model's name there.
        api_key: sent as bearer token; by default that of `MCP_EMBEDDINGS_API_KEY`, if set.
        query_timeout_s: the longest that a request waits for its vector.
        document_timeout_s: the same for a batch of documents.
        rest_s: how long it is left alone after a failure, where it doesn't say so itself (`Retry-After`).
        clock: seconds that never go back.
    """

    cut: float | None = None

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        query_timeout_s: float = 1.0,
        document_timeout_s: float = 30.0,
        rest_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"{url.rstrip('/')}#{model}"
        self._url = f"{url.rstrip('/')}/embeddings"
        self._model = model
        key = api_key or os.environ.get(KEY_VARIABLE, "")
        self._client = httpx2.Client(headers={"authorization": f"Bearer {key}"} if key else {}, trust_env=False)
        self._timeouts: dict[TextRole, float] = {"query": query_timeout_s, "document": document_timeout_s}
        self._rest_s = rest_s
        self._clock = clock
        self._resting: tuple[float, str] = (float("-inf"), "")

    def embed(self, texts: Sequence[str], kind: TextRole) -> Vectors:
        """Return one vector a text, in order.

        Raises:
            RankerError: the endpoint is down, slow, refuses, or answers nonsense; or did so a moment ago.
        """
        import numpy as np

        until, cause = self._resting
        if self._clock() < until:
            raise RankerError(cause)
        made: list[Any] = []
        deadline = self._clock() + self._timeouts[kind] * (1 if kind == "query" else 1 + len(texts) // _BATCH)
        for at in range(0, len(texts), _BATCH):
            made += self._post([text[:_N_CHARACTERS] for text in texts[at : at + _BATCH]], kind, deadline)
        try:
            return np.array(made, dtype=np.float32)
        except (TypeError, ValueError):
            raise self._failed(f"the endpoint {self.name!r} gives vectors that are none", self._rest_s) from None

    def close(self) -> None:
        """Give its connections back."""
        self._client.close()

    def _post(self, texts: list[str], kind: TextRole, deadline: float) -> list[Any]:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        left_s = min(self._timeouts[kind], deadline - self._clock())
        if left_s <= 0:
            raise self._failed(f"the endpoint {self.name!r} is too slow", self._rest_s)
        try:
            with self._client.stream("POST", self._url, json=body, timeout=left_s) as response:
                content = self._received(response, self._clock() + left_s)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            cause = str(error) or type(error).__name__
            raise self._failed(f"the endpoint {self.name!r} can't be asked: {cause}", self._rest_s) from None
        if response.status_code != 200:
            raise self._failed(
                f"the endpoint {self.name!r} answered {response.status_code}", _retry_after(response, self._rest_s)
            )
        try:
            rows = sorted(json.loads(content)["data"], key=lambda row: row["index"])
            vectors = [row["embedding"] for row in rows]
        except (ValueError, KeyError, TypeError):
            raise self._failed(f"the endpoint {self.name!r} answers no embeddings", self._rest_s) from None
        if len(vectors) != len(texts):
            cause = f"the endpoint {self.name!r} gives {len(vectors)} vectors for {len(texts)} texts"
            raise self._failed(cause, self._rest_s)
        return vectors

    def _received(self, response: httpx2.Response, until: float) -> bytes:
        """Return an answer's content; the client's own timeout is for each part of it, however many come."""
        parts: list[bytes] = []
        for part in response.iter_bytes():
            if self._clock() > until:
                raise httpx2.ReadTimeout("the answer takes too long")
            parts.append(part)
        return b"".join(parts)

    def _failed(self, cause: str, rest_s: float) -> RankerError:
        self._resting = (self._clock() + rest_s, cause)
        return RankerError(cause)


def _retry_after(response: httpx2.Response, default_s: float) -> float:
    try:
        return min(600.0, max(0.0, float(response.headers.get("retry-after", default_s))))
    except ValueError:
        return default_s

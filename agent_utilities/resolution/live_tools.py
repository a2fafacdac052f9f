"""A server's tools as graph and ranker are given them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.graph.base import ToolRecord


@dataclass(frozen=True, slots=True)
class LiveTools:
    """A server's tools as they were just listed, whoever may use them.

    Args:
        digest: the same for equal tool sets.
        records: as the graph keeps them.
        documents: as a ranker reads them, aligned with `records`.
    """

    digest: str
    records: Sequence[ToolRecord]
    documents: Sequence[ToolDocument]

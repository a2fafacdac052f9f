"""A server of 396 tools on 99 topics, of which those tagged `vault` are to be denied by whoever launches it."""

from __future__ import annotations

from agent_utilities import AgentServer, create_mcp_server

TOPICS = (
    "invoice", "branch", "photo", "metric", "meeting", "recipe", "ticket", "song", "parcel", "flight", "hotel",
    "contract", "warehouse", "sensor", "vaccine", "ledger", "playlist", "storm", "river", "bridge", "passport",
    "museum", "engine",
)  # fmt: skip
VERBS = ("create", "read", "export", "remove")
N_SERIES = 99
NAMES = tuple(f"{verb}_{TOPICS[i % len(TOPICS)]}_{i // len(TOPICS)}" for i in range(N_SERIES) for verb in VERBS)
DENIED = tuple(f"open_vault_{i}" for i in range(9))
ENTRY = ["tool_search", "call_tool"]
UNFIT = "zxqv wrptl"
"""Words that no tool answers."""


def large_server(*, with_denied: bool = True, **environ: str) -> AgentServer:
    """Return the server, with the tools that are to be denied or without; it reads a given environment alone."""
    mcp = create_mcp_server("large", environ=environ or None)
    for name in (*NAMES, *(DENIED if with_denied else ())):
        verb, topic, series = name.split("_")
        _add(mcp, name, f"{verb.title()} one {topic} of series {series}.", topic)
    return mcp


def _add(mcp: AgentServer, name: str, description: str, tag: str) -> None:
    @mcp.tool(name=name, description=description, tags={tag})
    def answered(subject: str = "") -> str:
        return f"{name} {subject}".strip()


if __name__ == "__main__":
    large_server().cli()

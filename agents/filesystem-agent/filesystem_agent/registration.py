"""The server's tools: which function, under which tags, with which hints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, get_type_hints

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool
from mcp_types import ToolAnnotations

from filesystem_agent.arranging import create_directory, delete_file, move_file
from filesystem_agent.comparing import diff_files
from filesystem_agent.editing import edit_file, write_file
from filesystem_agent.errors import reason
from filesystem_agent.finding import find_files
from filesystem_agent.hints import HINTS
from filesystem_agent.listing import file_info, list_directories
from filesystem_agent.searching import search_files
from filesystem_agent.tailing import tail_file
from filesystem_agent.viewing import view_file
from filesystem_agent.workspace import Workspace


@dataclass(frozen=True)
class Offer:
    """One tool as it is offered."""

    function: Callable[..., Any]
    title: str
    tags: frozenset[str]
    is_read_only: bool = True
    is_destructive: bool = False
    is_idempotent: bool = True


OFFERS = (
    Offer(list_directories, "List directories", frozenset({"filesystem", "read", "browse"})),
    Offer(view_file, "View file", frozenset({"filesystem", "read", "content"})),
    Offer(edit_file, "Edit file", frozenset({"filesystem", "write", "content"}), False, True, False),
    Offer(write_file, "Write file", frozenset({"filesystem", "write", "content"}), False, True, True),
    Offer(search_files, "Search files", frozenset({"filesystem", "read", "search"})),
    Offer(find_files, "Find files", frozenset({"filesystem", "read", "search"})),
    Offer(file_info, "File info", frozenset({"filesystem", "read", "browse"})),
    Offer(move_file, "Move file", frozenset({"filesystem", "write", "arrange"}), False, True, False),
    Offer(
        delete_file,
        "Delete file",
        frozenset({"filesystem", "write", "delete", "arrange"}),
        False,
        True,
        False,
    ),
    Offer(
        create_directory,
        "Create directory",
        frozenset({"filesystem", "write", "arrange"}),
        False,
        False,
        True,
    ),
    Offer(tail_file, "Tail file", frozenset({"filesystem", "read", "content"})),
    Offer(diff_files, "Diff files", frozenset({"filesystem", "read", "compare"})),
)


def register(mcp: FastMCP[Any], workspace: Workspace) -> None:
    """Give a server every file tool, all working in one workspace."""
    for offer in OFFERS:
        mcp.add_tool(
            Tool.from_function(
                bind(offer.function, workspace),
                name=offer.function.__name__,
                description=offer.function.__doc__,
                title=offer.title,
                tags=set(offer.tags),
                meta={"anthropic/searchHint": HINTS[offer.function.__name__]},
                annotations=ToolAnnotations(
                    title=offer.title,
                    read_only_hint=offer.is_read_only,
                    destructive_hint=offer.is_destructive,
                    idempotent_hint=offer.is_idempotent,
                    open_world_hint=False,
                ),
            )
        )


def bind(function: Callable[..., Any], workspace: Workspace) -> Callable[..., Any]:
    """Return a tool function without its first parameter, the workspace.

    It is also the last net: a system error that no tool expected leaves it without the path it carries.
    """

    def bound(**arguments: Any) -> Any:
        try:
            return function(workspace, **arguments)
        except OSError as error:
            raise ToolError(f"{function.__name__} failed: {reason(error)}") from error

    hints = get_type_hints(function, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[name])
        for name, parameter in signature(function).parameters.items()
        if name != "workspace"
    ]
    bound.__name__ = function.__name__
    bound.__doc__ = function.__doc__
    bound.__annotations__ = {name: hint for name, hint in hints.items() if name != "workspace"}
    bound.__signature__ = signature(function).replace(  # type: ignore[attr-defined]
        parameters=parameters, return_annotation=hints["return"]
    )
    return bound

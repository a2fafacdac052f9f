"""What a caller's client can be asked, and what an upstream's question needs of it."""

from __future__ import annotations

import mcp_types
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID

Question = mcp_types.InputRequest
"""What an upstream may ask in the middle of a call."""


def needed(question: Question) -> mcp_types.ClientCapabilities:
    """Return what a client must offer to be asked a question."""
    match question:
        case mcp_types.CreateMessageRequest(params=params):
            asks_for_tools = params.tools is not None or params.tool_choice is not None
            tools = mcp_types.SamplingToolsCapability() if asks_for_tools else None
            return mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability(tools=tools))
        case mcp_types.ElicitRequest(params=mcp_types.ElicitRequestURLParams()):
            url = mcp_types.UrlElicitationCapability()
            return mcp_types.ClientCapabilities(elicitation=mcp_types.ElicitationCapability(url=url))
        case mcp_types.ElicitRequest():
            form = mcp_types.FormElicitationCapability()
            return mcp_types.ClientCapabilities(elicitation=mcp_types.ElicitationCapability(form=form))
        case _:
            return mcp_types.ClientCapabilities(roots=mcp_types.RootsCapability())


def offers(capabilities: mcp_types.ClientCapabilities | None, question: Question) -> bool:
    """Whether a client with these capabilities can be asked a question.

    One that offers elicitation without a word on its forms takes forms: so it was before there were others.
    """
    if capabilities is None:
        return False
    match question:
        case mcp_types.CreateMessageRequest(params=params):
            sampling = capabilities.sampling
            asks_for_tools = params.tools is not None or params.tool_choice is not None
            return sampling is not None and (sampling.tools is not None or not asks_for_tools)
        case mcp_types.ElicitRequest(params=mcp_types.ElicitRequestURLParams()):
            return capabilities.elicitation is not None and capabilities.elicitation.url is not None
        case mcp_types.ElicitRequest():
            elicitation = capabilities.elicitation
            return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
        case _:
            return capabilities.roots is not None


def can_be_asked(capabilities: mcp_types.ClientCapabilities | None) -> bool:
    """Whether a client with these capabilities can be asked anything."""
    return capabilities is not None and any((capabilities.sampling, capabilities.elicitation, capabilities.roots))


def told_of_tasks(error: mcp_types.ErrorData, tool: mcp_types.Tool) -> mcp_types.ErrorData:
    """Return an upstream's error, with a word on why where it is that its tool must run as a background task.

    Upstreams tell that the client asks for none, and mean the gateway, which carries none, whatever its caller can do.
    """
    match error.code, error.data:
        case mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, {"requiredCapabilities": {"extensions": {**extensions}}}:
            is_of_tasks = TASKS_EXTENSION_ID in extensions
        case mcp_types.METHOD_NOT_FOUND, _:  # so 2025-11-25 has it
            is_of_tasks = tool.execution is not None and tool.execution.task_support == "required"
        case _:
            is_of_tasks = False
    if not is_of_tasks:
        return error
    told = "this tool runs as a background task alone, and a gateway carries none: call it at its own server"
    return error.model_copy(update={"message": f"{error.message}; {told}"})


def refusal(question: Question) -> mcp_types.ErrorData:
    """Return what an upstream is told whose question the caller's client can't be asked."""
    message = f"{question.method} refused: the client of the gateway that this call is made for does not offer it"
    data = {"requiredCapabilities": needed(question).model_dump(by_alias=True, mode="json", exclude_none=True)}
    return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=message, data=data)

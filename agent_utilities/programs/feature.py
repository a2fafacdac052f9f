"""The programs feature: `run_program`, by which a model makes many calls in one turn and reads what it needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import mcp_types
from cachetools import LRUCache
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, ToolAnnotations

from agent_utilities.catalog.model import Entry, entry
from agent_utilities.errors import AgentUtilitiesError, InputError, SettingsError
from agent_utilities.policy.decision import Decision
from agent_utilities.policy.entry_names import RUN_PROGRAM, TOOL_SEARCH, free_name
from agent_utilities.programs.checking import FEW_STUBS, refuse_what_fails, words_in
from agent_utilities.programs.described import RUN_PROGRAM_SCHEMA, described, texts_of, value_of, wanted_of
from agent_utilities.programs.program import INSTALL, CallError, Function, Limits, Paused, ProgramError
from agent_utilities.programs.running import N_WORKERS, Workers, run
from agent_utilities.programs.stubs import Stub, arguments_of, compact_text, python_names, stub_of
from agent_utilities.results.feature import owner_of
from agent_utilities.results.kept import Kept, Owner
from agent_utilities.seam.feature import ALWAYS_LOADED, Asked, Feature, OwnTool
from agent_utilities.seam.host import Approver, Host, SearchForm, SharedState, find
from agent_utilities.seam.request import TOOLS_USED, Request, make_call

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_RUNNER = entry("tool", RUN_PROGRAM, read_only=True)
"""The entry tool as bounds judge it; each call that a program makes is judged by itself."""
_N_SURFACES, _N_STUBS = 64, 20_000


class Programs(Feature):
    """Lets callers run programs over the tools that they may use."""

    name = "programs"
    after = ("access", "audit", "quotas", "usage", "upstreams", "capabilities", "tool_search", "query", "results")
    limit_s = None  # a program has limits of its own, and a person takes the time they take
    limits = Limits()

    def __init__(self) -> None:
        self._workers = Workers()
        self._names: LRUCache[str, dict[str, Entry]] = LRUCache(_N_SURFACES)
        self._stubs: LRUCache[tuple[bytes, str], Stub] = LRUCache(_N_STUBS)
        self._n_ended: dict[str, Any] = {}

    def attach(self, host: Host) -> None:
        super().attach(host)
        host.offer(SearchForm, lambda: SearchForm("python", self._signatures))

    def check(self) -> None:
        """Refuse to start where the interpreter is not installed.

        Raises:
            SettingsError: it is not.
        """
        if find_spec("pydantic_monty") is None:
            raise SettingsError("programs need pydantic-monty", self._mode, "programs", INSTALL)

    async def run(self) -> None:
        """Start the first worker with the server, and end all with it."""
        try:
            await asyncio.gather(self._workers.pool(), self._workers.checker())
            await asyncio.Event().wait()
        finally:
            await self._workers.close()

    @property
    def _mode(self) -> str:
        return self.host.operator.settings.programs

    @cached_property
    def _paused(self) -> Kept:
        shared = find(self.host, SharedState)
        return Kept(None if shared is None else shared.redis)

    # -- what is listed ----------------------------------------------------------------------------------------------

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        """List `run_program` where a caller may use any tool that a program may call."""
        if not self._may_run(request) or not (named := self._named(decision)):
            return ()
        stubs = await self._stubs_of(named) if len(named) <= FEW_STUBS else []
        asks = find(self.host, Approver) is not None and not all(each.read_only for each in named.values())
        description = described([stub.compact for stub in stubs], self.limits, asks=asks)
        return (self._tool(free_name(RUN_PROGRAM, decision.permitted_names), request, named, description),)

    async def tool(self, name: str, request: Request) -> Tool | None:
        if not name.endswith(RUN_PROGRAM) or not self._may_run(request):
            return None
        decision = await self.host.decide("tool", request.verdict)
        named = self._named(decision)
        is_own = bool(named) and name == free_name(RUN_PROGRAM, decision.permitted_names)
        return self._tool(name, request, named, "") if is_own else None

    def _may_run(self, request: Request) -> bool:
        """Whether a caller may run programs on this server, by themselves; a program runs none."""
        is_here = not request.entered or request.entered[-1].host is self.host
        return is_here and not request.within and request.verdict.bounds.permits_entry_tool(_RUNNER, by_caller=False)

    def _tool(self, name: str, request: Request, named: Mapping[str, Entry], description: str) -> Tool:
        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            return await self._answer(arguments, request)

        reads = all(each.read_only for each in named.values())
        return OwnTool(
            name=name,
            description=description,
            parameters=dict(RUN_PROGRAM_SCHEMA),
            annotations=ToolAnnotations(read_only_hint=reads),
            meta=dict(ALWAYS_LOADED),
            answer=answer,
            purpose="by which many tools are called in one turn",
        )

    # -- the tools of a program --------------------------------------------------------------------------------------

    def _named(self, decision: Decision) -> dict[str, Entry]:
        """Return the tools that programs of a caller may call, by their names in Python, in the order of the list."""
        key = decision.permitted_digest
        if (named := self._names.get(key)) is None:
            entries = [decision.catalog.entries[i] for i in decision.permitted]
            callable_ones = {each.name: each for each in entries if each.read_only or self._mode == "all"}
            names = python_names(list(callable_ones))
            named = self._names[key] = {names[name]: each for name, each in callable_ones.items()}
        return named

    async def _stubs_of(self, named: Mapping[str, Entry]) -> list[Stub]:
        """Return tools as functions, by their schemas in the catalog, without those that are gone."""
        stubs: list[Stub] = []
        for python_name, each in named.items():
            if (stub := self._stubs.get(key := (each.stamp, python_name))) is None:
                tool = await self.host.component("tool", each.name)
                if not isinstance(tool, Tool):
                    continue
                about = tool.parameters, tool.output_schema, tool.description or ""
                stub = self._stubs[key] = stub_of(each.name, python_name, *about)
            stubs.append(stub)
        return stubs

    async def _search_stub(self, decision: Decision) -> list[Stub]:
        """Return the search for tools as a function, where its caller has one."""
        name = free_name(TOOL_SEARCH, decision.permitted_names)
        tool = await self.host.component("tool", name)
        return [stub_of(name, TOOL_SEARCH, tool.parameters, None)] if isinstance(tool, OwnTool) else []

    async def _signatures(self, request: Request, names: Sequence[str]) -> str:
        """Return tools as functions, a line each; those that no program of this caller may call are left out."""
        decision = await self.host.decide("tool", request.verdict)
        by_name = {each.name: (python_name, each) for python_name, each in self._named(decision).items()}
        found = dict(by_name[name] for name in names if name in by_name)
        return compact_text(await self._stubs_of(found))

    def _functions(
        self, stubs: Sequence[Stub], named: Mapping[str, Entry], request: Request, program: str
    ) -> dict[str, Function]:
        async def call(stub: Stub, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, int]:
            try:
                arguments = arguments_of(stub, args, kwargs)
                result = await make_call(request, stub.tool_name, arguments, within=program)
            except Asked:
                raise
            except (MCPError, AgentUtilitiesError) as error:
                raise CallError(str(error)) from None
            request.values[TOOLS_USED].add(stub.tool_name)
            return value_of(result, is_wrapped=stub.is_wrapped)

        def function(stub: Stub) -> Function:
            writes = stub.python_name in named and not named[stub.python_name].read_only
            return Function(lambda *given: call(stub, *given), stub.tool_name, writes)

        return {stub.python_name: function(stub) for stub in stubs}

    # -- runs --------------------------------------------------------------------------------------------------------

    async def _answer(self, arguments: Mapping[str, Any], request: Request) -> ToolResult:
        request.values[TOOLS_USED] = set()
        try:
            wanted = wanted_of(arguments)
            handle = str(request.params.get("requestState") or wanted.resume)
            return await (self._resumed(handle, request) if handle else self._started(wanted.code, request))
        except (InputError, ProgramError) as error:
            self._count("failed")
            raise ToolError(str(error), log_level=logging.DEBUG) from error

    async def _started(self, code: str, request: Request) -> ToolResult:
        decision = await self.host.decide("tool", request.verdict)
        named = self._named(decision)
        words = words_in(code)
        is_few = len(named) <= FEW_STUBS  # then they are the same for all programs, and soon checked
        stubs = await self._stubs_of({name: each for name, each in named.items() if is_few or name in words})
        if TOOL_SEARCH in words and TOOL_SEARCH not in named:
            stubs += await self._search_stub(decision)
        await refuse_what_fails(await self._workers.checker(), code, stubs)
        program = f"p_{token_hex(8)}"
        functions = self._functions(stubs, named, request, program)
        return await self._ended(code, functions, request, program)

    async def _resumed(self, handle: str, request: Request) -> ToolResult:
        """Go on with a program once its questions are answered; it is claimed by one request alone.

        Raises:
            InputError: no program waits under this handle, for this caller.
        """
        owner = _owner(request)
        kept = await self._paused.get(handle, owner)
        if kept is None:
            hint = "it has gone on, waited too long, or can't be read now"
            raise InputError("no program waits", handle, f"{RUN_PROGRAM}: resume", hint)
        paused = Paused.from_bytes(kept.content)
        if (result := await self._asked(paused, handle, request)) is not None:
            return result
        if await self._paused.take(handle, owner) is None:
            raise InputError("no program waits", handle, f"{RUN_PROGRAM}: resume", "it has gone on meanwhile")
        return await self._ended_again(paused, request)

    async def _ended_again(self, paused: Paused, request: Request) -> ToolResult:
        decision = await self.host.decide("tool", request.verdict)
        named = self._named(decision)
        the_same = {name: each for name, each in named.items() if paused.functions.get(name) == each.name}
        stubs = await self._stubs_of(the_same)
        if TOOL_SEARCH in paused.functions and TOOL_SEARCH not in named:
            stubs += await self._search_stub(decision)
        functions = self._functions(stubs, named, request, paused.program)
        return await self._ended("", functions, request, paused.program, paused)

    async def _ended(
        self,
        code: str,
        functions: Mapping[str, Function],
        request: Request,
        program: str,
        paused: Paused | None = None,
    ) -> ToolResult:
        """Run a program to its end, or until somebody is to approve its calls."""
        outcome = await run(self._workers, code, functions, self.limits, program, paused)
        if isinstance(outcome, Paused):
            if paused is not None and outcome.questions == paused.questions:
                raise ProgramError("its calls wait for an answer that nobody can give", outcome.made, outcome.printed)
            self._count("asked")
            owner = _owner(request)
            handle = await self._paused.put(owner, RUN_PROGRAM, outcome.to_bytes())
            if handle is None:
                raise ProgramError("its values are too large to wait for approval", outcome.made, outcome.printed)
            if (result := await self._asked(outcome, handle, request)) is not None:
                return result
            await self._paused.take(handle, owner)
            return await self._ended_again(outcome, request)
        self._count("ended")
        content = [TextContent(type="text", text=text) for text in texts_of(outcome)]
        return ToolResult(content=content, meta={"agent-utilities/program": {"calls": len(outcome.made)}})

    async def _asked(self, paused: Paused, handle: str, request: Request) -> ToolResult | None:
        """Have a person asked for the calls that a program waits for; None once each is answered."""
        approver = find(self.host, Approver)
        if approver is None:
            return None  # what asked is there no more: the calls are judged anew
        resume = f'call {RUN_PROGRAM} with resume="{handle}"'
        result = await approver.ask(request, paused.questions, handle, resume)
        if result is None:
            return None
        if result.get("resultType") == "input_required":
            return InputRequiredToolResult(mcp_types.InputRequiredResult.model_validate(result))
        raise ToolError("\n".join(str(block.get("text", "")) for block in result.get("content", ())))

    # -- what it says of itself --------------------------------------------------------------------------------------

    def start_lines(self) -> Sequence[str]:
        which = "tools that only read" if self._mode == "read" else "all permitted tools"
        return [f"models may run programs over {which}, by run_program"]

    def health(self) -> Mapping[str, Any]:
        return {"programs": {"running": self._workers.n_running, "workers": N_WORKERS}}

    def register_metrics(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter

        counter = Counter("mcp_programs", "Programs that ran.", ["outcome"], registry=registry)
        self._n_ended = {outcome: counter.labels(outcome) for outcome in ("ended", "failed", "asked")}

    def _count(self, outcome: str) -> None:
        if outcome in self._n_ended:
            self._n_ended[outcome].inc()


def _owner(request: Request) -> Owner:
    """Return the owner of a request's programs, whose states are no results to be read."""
    owner = owner_of(request.caller, request.session)
    return owner._replace(names=(*owner.names, "program"))

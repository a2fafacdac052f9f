"""The same for `ToolRouter`: `run_program` is one of its tools, over the tools of its client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from secrets import token_hex
from typing import Any

from agent_utilities.errors import InputError
from agent_utilities.policy.entry_names import RUN_PROGRAM, free_name
from agent_utilities.programs.checking import FEW_STUBS, refuse_what_fails, words_in
from agent_utilities.programs.described import RUN_PROGRAM_SCHEMA, described, texts_of, value_of, wanted_of
from agent_utilities.programs.program import CallError, Ended, Function, Limits, ProgramError
from agent_utilities.programs.running import Workers, run
from agent_utilities.programs.stubs import Stub, arguments_of, python_names, stub_of
from agent_utilities.results.routed import ShortResult, TextBlock, as_sent

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


class RoutedPrograms:
    """Runs the programs of one agent loop.

    Args:
        only_read: whether programs call tools alone that say they only read.
        taken: names that `run_program` must not have.
    """

    def __init__(self, *, only_read: bool, taken: Collection[str]) -> None:
        self.runner = free_name(RUN_PROGRAM, taken)
        self._only_read, self._workers, self._limits = only_read, Workers(), Limits()

    def definition(self, definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return `run_program` as `tools/list` sends it, over these tools."""
        stubs = self._stubs(definitions)
        signatures = [stub.compact for stub in stubs] if len(stubs) <= FEW_STUBS else []
        schema = {**RUN_PROGRAM_SCHEMA, "properties": {"code": RUN_PROGRAM_SCHEMA["properties"]["code"]}}
        return {"name": self.runner, "description": described(signatures, self._limits), "inputSchema": schema}

    def _stubs(self, definitions: Mapping[str, Mapping[str, Any]], words: Collection[str] | None = None) -> list[Stub]:
        named = python_names([name for name, each in definitions.items() if _reads(each) or not self._only_read])
        stubs = []
        for name, python_name in named.items():
            if words is None or python_name in words:
                each = definitions[name]
                about = each.get("inputSchema"), each.get("outputSchema"), str(each.get("description") or "")
                stubs.append(stub_of(name, python_name, *about))
        return stubs

    async def run(
        self, arguments: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]], call: Call
    ) -> ShortResult:
        """Answer a call of `run_program`.

        Args:
            definitions: the tools, by name, as `tools/list` sends them.
            call: makes a call of one of them.

        Raises:
            InputError: there is no program in the arguments.
            SettingsError: the interpreter is not installed.
        """
        if not (code := wanted_of(arguments).code):
            raise InputError("nothing waits here", arguments.get("resume"), f"{RUN_PROGRAM}: resume", "give code")
        stubs = self._stubs(definitions, words_in(code))
        functions = {stub.python_name: _function(stub, definitions[stub.tool_name], call) for stub in stubs}
        try:
            await refuse_what_fails(await self._workers.checker(), code, stubs)
            ended = await run(self._workers, code, functions, self._limits, f"p_{token_hex(8)}")
            assert isinstance(ended, Ended)  # nobody is asked here
        except ProgramError as error:
            return ShortResult([TextBlock(str(error))], is_error=True)
        return ShortResult([TextBlock(text) for text in texts_of(ended)])

    async def close(self) -> None:
        """End the processes that programs run in."""
        await self._workers.close()


def _reads(definition: Mapping[str, Any]) -> bool:
    annotations = definition.get("annotations")
    return isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True


def _function(stub: Stub, definition: Mapping[str, Any], call: Call) -> Function:
    async def made(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, int]:
        try:
            result = await call(stub.tool_name, arguments_of(stub, args, kwargs))
        except Exception as error:
            raise CallError(str(error) or type(error).__name__) from error
        sent = as_sent(result)
        return value_of({"structuredContent": result} if sent is None else sent, is_wrapped=stub.is_wrapped)

    return Function(made, stub.tool_name, not _reads(definition))

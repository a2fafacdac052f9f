"""`agent-utilities access`: evaluate the rules of access for a caller's claims, without a server."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from agent_utilities.access.rules import LOCAL, rules_of
from agent_utilities.access.token_file import read_tokens
from agent_utilities.errors import InputError
from agent_utilities.policy.bounds import Bounds
from agent_utilities.runtime.process_io import expanded
from agent_utilities.selection.merge import effective, merge
from agent_utilities.selection.profiles import EVERYTHING
from agent_utilities.server.command_line.terminal import AsJson, terminal
from agent_utilities.server.surface.operator import Operator

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def describe() -> None:
    """Try rules of access: who may what, and why."""


@app.command("test")
def try_(claims: Annotated[str, typer.Option("--as", metavar="CLAIMS")], as_json: AsJson = False) -> None:
    """Print the rule that holds for a caller, what it permits, and why; a rule that can never hold is told.

    Args:
        claims: The claims of their token, in JSON: '{"iss": "https://login.example", "sub": "ann", "groups": ["x"]}'.
    """
    operator = Operator()
    try:
        caller = json.loads(claims)
        if not isinstance(caller, dict):
            raise ValueError("it is no object")
    except (ValueError, RecursionError) as error:
        hint = f'{error}; write claims in JSON: {{"iss": "https://login.example", "sub": "ann"}}'
        raise InputError("claims can't be read", claims, "option --as", hint) from None
    rules = rules_of(operator.settings, operator.files)
    access = rules.access(caller)
    bounds = merge(operator.selection, access.bounds(operator.files))
    if caller.get("iss") == LOCAL and operator.settings.auth_tokens:
        tokens = read_tokens(expanded(operator.settings.auth_tokens)).tokens
        of_token = next((token.profile for token in tokens if token.name == caller.get("sub")), "") or EVERYTHING
        bounds = merge(bounds, operator.files.for_access(of_token, "token", f"token {caller.get('sub')}"))
    answer: dict[str, Any] = {
        "rule": access.rule.number if access.rule else None,
        "profile": access.profile,
        "may": sorted(access.rule.may) if access.rule else [],
        "reasons": access.reasons,
        "bounds": [rule.text for rule in Bounds(effective(bounds)).rules],
        "shadowed": [
            f"{later.where} can never hold: {wider.where} fits everybody whom it fits"
            for later, wider in rules.shadowed()
        ],
    }
    if as_json:
        print(json.dumps(answer))
        return
    console = terminal()
    console.print(f"profile {answer['profile']!r}, rights: {', '.join(answer['may']) or 'none'}", markup=False)
    for key, title in (("reasons", "why"), ("bounds", "what holds, with the settings"), ("shadowed", "never")):
        for line in answer[key]:
            console.print(f"  {title}: {line}", markup=False, soft_wrap=True)

"""`agent-utilities access`: what rules of access come to for a caller, without a server."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from agent_utilities.errors import InputError
from agent_utilities.mcp.command_line.terminal import AsJson, terminal
from agent_utilities.selection.merge import effective, merge
from agent_utilities.visibility.bounds import Bounds

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def describe() -> None:
    """Try rules of access: who may what, and why."""


@app.command("test")
def try_(
    claims: Annotated[str, typer.Option("--as", metavar="CLAIMS")],
    as_json: AsJson = False,
) -> None:
    """Print the rule that holds for a caller, what it permits, and why; a rule that can never hold is told.

    Args:
        claims: The claims of their token, in JSON: '{"iss": "https://login.example", "sub": "ann", "groups": ["x"]}'.
    """
    from agent_utilities.features.access.feature import bounds_of, rules_of  # they load the host
    from agent_utilities.mcp.surface.operator import Operator

    operator, caller = Operator(), _claims(claims)
    rules = rules_of(operator)
    access = rules.access(caller)
    held = effective(merge(operator.selection, bounds_of(access, operator.files)))
    bounds = [rule.text for rule in Bounds(held).rules]
    shadowed = [
        f"{later.where} can never hold: {wider.where} fits everybody whom it fits" for later, wider in rules.shadowed()
    ]
    answer: dict[str, Any] = {
        "rule": access.rule.number if access.rule else None,
        "profile": access.rule.profile if access.rule else "none",
        "may": sorted(access.rule.may) if access.rule else [],
        "reasons": list(access.reasons),
        "bounds": bounds,
        "shadowed": shadowed,
    }
    if as_json:
        print(json.dumps(answer))
        return
    console = terminal()
    console.print(f"profile {answer['profile']!r}, rights: {', '.join(answer['may']) or 'none'}", markup=False)
    for title, lines in (("why", access.reasons), ("what holds, with the settings", bounds), ("never", shadowed)):
        for line in lines:
            console.print(f"  {title}: {line}", markup=False, soft_wrap=True)


def _claims(text: str) -> dict[str, Any]:
    hint = 'write claims in JSON: {"iss": "https://login.example", "sub": "ann"}'
    try:
        claims = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("claims can't be read", text, "option --as", f"{error}; {hint}") from None
    if not isinstance(claims, dict):
        raise InputError("not claims", text, "option --as", hint)
    return claims

"""`agent-utilities audit`: verify a record of calls, and print its heads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_utilities.access.record.chain import Head, Report
from agent_utilities.access.record.chain import verify as verify_files
from agent_utilities.access.record.log import all_files
from agent_utilities.errors import InputError
from agent_utilities.server.command_line.terminal import counted, plain, terminal

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Say whether a record of calls was tampered with.")


@app.command("head")
def print_heads(file: Path) -> None:
    """Print the head of each chain of a record, to be kept where whoever may write the record may not.

    Args:
        file: The record's file; those that it was before, beside it, are read too.
    """
    for chain in _read(file, []).chains.values():
        if chain.head is not None:
            print(chain.head)


@app.command()
def verify(file: Path, head: Annotated[list[str] | None, typer.Option(metavar="HEAD")] = None) -> int:
    """Say whether lines of a record were changed, moved, put in or taken out; 1 where any was.

    Args:
        file: The record's file; those that it was before, beside it, are read too.
        head: A chain's head that was kept elsewhere; may be repeated. Without one it can't be told whether the chain's
            end was cut off, or all of it was written anew.
    """
    heads = [Head.read(text, "option --head") for text in head or ()]
    report, console, known = _read(file, heads), terminal(), {each.chain for each in heads}
    unknown = "no head given, so whether it was cut or written anew can't be told"
    for name, chain in report.chains.items():
        end = "ended" if chain.has_ended else "is still written, was killed, or is cut"
        beside = "compared with its head" if name in known else unknown
        console.print(plain(f"chain {name}: {counted(chain.n_lines, 'line')}, {end}; {beside}"), soft_wrap=True)
    for texts, style in ((report.torn, "yellow"), (report.tampering, "red")):
        for text in texts:
            console.print(f"[{style}]{plain(text)}[/]", soft_wrap=True)
    n_lines = counted(sum(chain.n_lines for chain in report.chains.values()), "line")
    result = f"[red]{counted(len(report.tampering), 'sign')} of tampering[/]" if report.tampering else "no tampering"
    console.print(f"{n_lines} in {counted(len(report.chains), 'chain')}: {result}")
    return min(1, len(report.tampering))


def _read(file: Path, heads: list[Head]) -> Report:
    try:
        report = verify_files(all_files(file), heads)
    except OSError as error:
        raise InputError("can't be read", error.strerror or str(error), f"file {error.filename}", "mend it") from None
    if not report.chains:
        raise InputError("no record of calls", str(file), "argument FILE", "name the file that `[audit] file` names")
    return report

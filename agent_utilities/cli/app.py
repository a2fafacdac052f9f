"""The `agent-utilities` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from agent_utilities.cli.commands import AsJson, capabilities_app, gateway_app, graph_app, usage_app
from agent_utilities.cli.connect import Client, Place, connect_gateway, connect_server, installed_servers
from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.mcp.server_cli import quiet_for_gone_reader

app = typer.Typer(no_args_is_help=True)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"agent-utilities {version('agent-utilities')}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Make an MCP server's tool surface small, right and bounded."""


@quiet_for_gone_reader()
def main() -> None:
    """Run the command and exit: 0 when done, 1 when the other end failed or has gone, 2 for bad input."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        _refuse(error.format_message(), 2)
    except InputError as error:
        _refuse(str(error), 2)
    except AgentUtilitiesError as error:
        _refuse(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str, code: int) -> None:
    if message:
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


@app.command("demo")
def show_demo(
    what: Annotated[
        Literal["server", "gateway", "tool-search", "capabilities"],
        typer.Argument(help="One server, three behind a gateway, sixty deferred tools, or three capabilities."),
    ] = "server",
) -> None:
    """Start real servers and show what callers see: of one, a gateway, a search, or what their words switch on."""
    import anyio

    from agent_utilities.cli.demo import show_demo as show

    anyio.run(show, what)


_Headers = Annotated[list[str] | None, typer.Option(help="A header to send, as name=value; may be repeated.")]
_Query = Annotated[list[str] | None, typer.Option(help="A URL query item to send, as key=value; may be repeated.")]


@app.command()
def explain(
    url: Annotated[str, typer.Argument(help="A running server, such as http://127.0.0.1:8001/mcp?tools=git_log.")],
    header: _Headers = None,
    query: _Query = None,
    tool: Annotated[str | None, typer.Option(help="Say why this tool is or isn't there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running server what a caller sees, and say why."""
    from agent_utilities.cli.explain import explain_url

    explain_url(url, _pairs(header, "--header"), _pairs(query, "--query"), tool, as_json)


@app.command()
def context(
    url: Annotated[str, typer.Argument(help="A running server, such as http://127.0.0.1:8001/mcp?tool_search=on.")],
    header: _Headers = None,
    query: _Query = None,
    model: Annotated[
        str | None, typer.Option(help="Count with a model's tokenizer: its name for tiktoken, or a tokenizer.json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running server what of it is in an agent's prompt, and what that costs."""
    from agent_utilities.cli.context import print_context

    print_context(url, _pairs(header, "--header"), _pairs(query, "--query"), model, as_json)


@app.command()
def connect(
    client: Annotated[
        str,
        typer.Argument(
            help=f"The client to tell of the server: {', '.join(Client)}.",
            metavar="CLIENT",
            autocompletion=lambda: list(Client),
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            help="An installed server, such as git-agent, or a file that has one, such as server.py; with --gateway "
            "what the client calls the gateway.",
            autocompletion=installed_servers,
        ),
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(help="Options for the server, after --, such as: -- --read-only")
    ] = None,
    gateway: Annotated[
        Path | None, typer.Option(help="A config file, such as .mcp.json, whose servers a gateway puts behind one.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(help="A variable for the server: NAME=value, or NAME; may be repeated.")
    ] = None,
    project: Annotated[Path | None, typer.Option(help="A project's folder, for its configuration, not yours.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Add it to the client's file, and keep what it has.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace another entry of the name.")] = False,
) -> None:
    """Print what a client's configuration needs for an installed server, a file or a gateway, or write it there."""
    place, given = Place(_client(client), env or (), project, write, replace), options or []
    if gateway is not None:
        if name is not None and name.startswith("-"):  # the first after `--`, where the gateway is given no name
            given, name = [name, *given], None
        connect_gateway(place, gateway, name, given)
    elif name is not None:
        connect_server(place, name, given)
    else:
        raise InputError(
            "no server is named", "", "argument NAME", "name an installed one, a server.py, or --gateway FILE"
        )


def _client(name: str) -> Client:
    try:
        return Client(name)
    except ValueError:
        raise InputError("no such client", name, "argument CLIENT", f"there are: {', '.join(Client)}") from None


app.add_typer(capabilities_app, name="capabilities")
app.add_typer(gateway_app, name="gateway")
app.add_typer(graph_app, name="graph")
app.add_typer(usage_app, name="usage")


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The package's name, such as weather-agent.")],
    directory: Annotated[Path, typer.Option(help="Where to make its folder.")] = Path("."),
) -> None:
    """Make a new server package that passes its own tests."""
    from agent_utilities.cli.new import make_package

    made = make_package(name, directory)
    print(f"made {made}; next: cd {made} && python -m pip install -e . pytest && python -m pytest")


CapabilityFolder = Annotated[
    Path | None,
    typer.Option(
        help="A folder of capabilities: route the messages of --queries (intent, label) to them instead, and say how "
        "often the best and the gate are right."
    ),
]
Tools = Annotated[
    Path | None,
    typer.Option(help="What a server's --list --json prints, or JSON lines: id, name, description, input_schema."),
]
Sessions = Annotated[
    Path | None,
    typer.Option(help="JSON lines of sessions: id, query, calls (tool ids in order); asks each for its next tools."),
]


@app.command("eval")
def evaluate(
    queries: Annotated[
        Path | None, typer.Option(help="JSON lines of requests: id, query, and relevant tool ids or groups.")
    ] = None,
    tools: Tools = None,
    server: Annotated[
        str | None, typer.Option(help="A running server, such as http://127.0.0.1:8001, in place of --tools.")
    ] = None,
    negatives: Annotated[Path | None, typer.Option(help="Requests that no tool need answer.")] = None,
    usage: Annotated[
        Path | None, typer.Option(help="Past requests and the tools that answered them, or a server's usage log.")
    ] = None,
    sessions: Sessions = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Leave out past_requests, recency, used_with or followed_by; may be repeated."),
    ] = None,
    capabilities: CapabilityFolder = None,
    ranker: Annotated[str, typer.Option(help="lexical, embedding or hybrid.")] = "hybrid",
    provider: Annotated[str, typer.Option(help="minilm, fastembed[:MODEL], or an endpoint as URL#MODEL.")] = "minilm",
    cache: Annotated[Path | None, typer.Option(help="A file to keep vectors in between runs.")] = None,
    top_k: Annotated[
        int, typer.Option(min=1, help="The most tools an agent is shown, for what is claimed and the tokens saved.")
    ] = 15,
    ranks_out: Annotated[Path | None, typer.Option(help="Write a JSON line for each request here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a plot here: .png, .svg or .pdf.")] = None,
    as_json: AsJson = False,
) -> None:
    """Rank the tools that answer requests, and say how well."""
    if capabilities is not None:
        from agent_utilities.cli.evaluation.routes import evaluate_routes

        evaluate_routes(capabilities, queries, ranks_out, by_words=ranker == "lexical")
        return
    from agent_utilities.cli.evaluation.run import Files
    from agent_utilities.cli.evaluation.run import evaluate as run

    run(
        Files(tools, server, queries, negatives, sessions, usage),
        without=without or (),
        ranker=ranker,
        provider=provider,
        cache=cache,
        top_k=top_k,
        ranks_out=ranks_out,
        plot_to=plot,
        as_json=as_json,
    )


def _pairs(given: list[str] | None, option: str) -> list[tuple[str, str]]:
    pairs = []
    for pair in given or []:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise InputError("not name=value", pair, f"option {option}", "write it as name=value")
        pairs.append((key.strip(), value))
    return pairs

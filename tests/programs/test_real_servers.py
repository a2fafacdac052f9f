"""Programs over servers that others wrote, behind a gateway: loops, joins, and one file written after a yes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastmcp import Client

from tests.approvals.asked import Person
from tests.every import every
from tests.gateway.upstreams.gateway_process import Gateway, gateway
from tests.gateway.upstreams.real_servers import make_workspace, one_page, real_config
from tests.programs.servers import MODES, ran

pytest.importorskip("pydantic_monty")
pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.outside, pytest.mark.timeout(240)]

NAMES = ["filesystem", "git", "everything", "memory", "fetch", "time"]
TEXT = """
def text(result):
    return result["content"] if isinstance(result, dict) else result
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The servers' workspace, with thirty notes in it."""
    folder = tmp_path_factory.mktemp("programs")
    notes = make_workspace(folder) / "notes"
    for i in range(30):
        (notes / f"note{i:02}.txt").write_text("".join(f"line {n} of {i}\n" for n in range(i)), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Gateway]:
    config = real_config(folder)
    servers = {name: entry for name, entry in config["mcpServers"].items() if name in NAMES}
    with gateway({"mcpServers": servers}, folder, MCP_PROGRAMS="all") as it:
        it.until_listed(NAMES)
        yield it


@every("mode", MODES)
async def test_a_loop_over_many_files_costs_one_turn(served: Gateway, folder: Path, mode: str):
    notes = folder / "workspace" / "notes"
    code = f"""{TEXT}
import asyncio
listed = text(await filesystem_list_directory(path={str(notes)!r}))
names = [line.split("] ")[1] for line in listed.split("\\n") if line.startswith("[FILE] note")]
paths = [{str(notes)!r} + "/" + name for name in names]
found = await asyncio.gather(*[filesystem_read_text_file(path=path) for path in paths])
print(len(names))
sum(text(each).count("line") for each in found)
"""
    person = Person("yes")
    async with Client(f"{served.process.url}/mcp", mode=mode, elicitation_handler=person) as client:
        ended = await ran(client, code)
    assert (ended.is_error, ended.texts) == (False, ["30\n", str(sum(range(30)))])
    assert person.read == []


@every("mode", MODES)
async def test_two_servers_are_joined_and_what_is_found_is_written_after_one_yes(
    served: Gateway, folder: Path, mode: str
):
    workspace = folder / "workspace"
    report = workspace / f"report-{mode}.json"
    code = f"""{TEXT}
import asyncio, json
log = text(await git_git_log(repo_path={str(workspace)!r}, max_count=10))
tree = json.loads(text(await filesystem_directory_tree(path={str(workspace / "notes")!r}, excludePatterns=["*.txt"])))
names = [each["name"] for each in tree]
report = {{"commits": log.count("Commit:"), "files": sorted(names)}}
await filesystem_write_file(path={str(report)!r}, content=json.dumps(report))
report
"""
    person = Person("yes")
    async with Client(f"{served.process.url}/mcp", mode=mode, elicitation_handler=person) as client:
        ended = await ran(client, code)
    assert not ended.is_error, ended.text
    expected = {"commits": 2, "files": ["added.md", "numbers.csv"]}
    assert json.loads(ended.text) == expected
    assert json.loads(report.read_text()) == expected
    assert len(person.read) == 1, person.read
    assert str(report) in person.read[0]


async def test_what_is_answered_with_no_writes_nothing(served: Gateway, folder: Path):
    report = folder / "workspace" / "never.json"
    code = f"await filesystem_write_file(path={str(report)!r}, content='x')"
    async with Client(f"{served.process.url}/mcp", elicitation_handler=Person("no")) as client:
        ended = await ran(client, code)
    assert ended.is_error
    assert "the answer was no" in ended.text
    assert not report.exists()


@every("mode", MODES)
async def test_five_servers_answer_side_by_side(served: Gateway, folder: Path, mode: str):
    html = "<html><body>" + "".join(f"<p>Paragraph {i}</p>" for i in range(50)) + "</body></html>"
    workspace = str(folder / "workspace")
    with one_page(html.encode(), "text/html") as url:
        code = f"""{TEXT}
import asyncio, json
page, now, said, graph, status = await asyncio.gather(
    fetch_fetch(url={url!r}, max_length=5_000),
    time_get_current_time(timezone="UTC"),
    everything_echo(message="hello"),
    memory_read_graph(),
    git_git_status(repo_path={workspace!r}),
)
[page.count("Paragraph"), "UTC" in str(now), "hello" in text(said), type(graph).__name__, "branch" in text(status)]
"""
        async with Client(f"{served.process.url}/mcp", mode=mode, elicitation_handler=Person("yes")) as client:
            ended = await ran(client, code)
    assert not ended.is_error, ended.text
    assert json.loads(ended.text) == [50, True, True, "dict", True]


async def test_an_error_of_a_server_is_one_of_that_call(served: Gateway, folder: Path):
    code = f"""
said = []
for path in ["/etc/passwd", {str(folder / "workspace" / "absent.txt")!r}]:
    try:
        await filesystem_read_text_file(path=path)
    except RuntimeError as error:
        said.append(str(error))
said
"""
    async with Client(f"{served.process.url}/mcp") as client:
        ended = await ran(client, code)
    outside, absent = json.loads(ended.text)
    assert "denied" in outside
    assert "ENOENT" in absent

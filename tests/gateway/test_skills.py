"""Skills of upstreams: listed and got by URIs that lead to their own files, within each caller's bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from tests.every import every
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import script
from tests.wire.http_raw import RawHttp
from tests.wire.wires import Answer, LegacyCaller, ModernCaller

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(120)]

EXTENSION = "io.modelcontextprotocol/skills"
FLOW, OTHERS_FLOW = "skill://flow/SKILL.md", "skill://home/flow/SKILL.md"
REFUNDS, DAILY = "skill://acme/refunds/SKILL.md", "skill://reports/daily/SKILL.md"
DYNAMIC = {"uri": DAILY, "frontmatter": {"name": "daily", "description": "d", "own": [1]}, "resources": "dynamic"}
FILE = {"uri": "skill://odd/SKILL.md", "digest": f"sha256:{'0' * 64}", "size": 1}
CALLED = {"name": "odd", "description": "d"}
ODD: list[Any] = [
    7,
    {"frontmatter": CALLED, "resources": [FILE]},
    {"uri": FILE["uri"], "frontmatter": {"name": "odd"}, "resources": [FILE]},
    {"uri": FILE["uri"], "frontmatter": CALLED},
    {"uri": FILE["uri"], "frontmatter": CALLED, "resources": "some"},
    {"uri": FILE["uri"], "frontmatter": CALLED, "resources": []},
    {"uri": FILE["uri"], "frontmatter": CALLED, "resources": [FILE, FILE]},
    {"uri": FILE["uri"], "frontmatter": CALLED, "resources": [FILE, {**FILE, "uri": "skill://else/a"}]},
    {"uri": FILE["uri"], "frontmatter": CALLED, "resources": [{**FILE, "digest": "md5:0"}]},
    {"uri": "skill://other/SKILL.md", "frontmatter": CALLED, "resources": "dynamic"},
]
"""Entries of which each would have clients refuse the list that it stands in."""


def having(name: str, era: str = "new", **what: Any) -> Any:
    return script(name, "skills_server.py", name, era, json.dumps(what))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    work = having("work", skills=["flow", "acme/refunds", DYNAMIC, *ODD], asks=True)
    home = having("home", "old", skills=["flow"], hidden=["secret", "plain"], templates=["skill://{+path}"])
    others = having("failing", skills=["never"], fails=True), having("without", resources=["skill://denied/SKILL.md"])
    with served(work, home, *others, environ={"MCP_DISABLED_TOOLS": "home_secret"}) as made:
        yield made


class Asking:
    """A caller of 2026-07-28, over raw HTTP."""

    def __init__(self, gateway: Served, *headers: tuple[str, str], query: str = "") -> None:
        self._url, self._query, self._headers = gateway.url, query, headers

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        with closing(RawHttp(self._url)) as http:
            return ModernCaller(http, self._query, self._headers).ask(method, params)

    def listed(self) -> dict[str, Any]:
        return {each["uri"]: each for each in self.ask("skills/list").result["skills"]}

    def got(self, uri: str) -> Any:
        message = self.ask("skills/get", {"uri": uri}).message
        return message.get("result", {}).get("skill", message.get("error"))

    def text(self, uri: str) -> str | None:
        result = self.ask("resources/read", {"uri": uri}).message.get("result")
        return None if result is None else str(result["contents"][0]["text"])

    def is_announced(self) -> bool:
        return EXTENSION in self.ask("server/discover").result["capabilities"].get("extensions", {})


def unknown(uri: str) -> dict[str, Any]:
    return {"code": INVALID_PARAMS, "message": f"Unknown skill URI: {uri}"}


WORKS = [f"skill://work/{each}" for each in ("flow/SKILL.md", "acme/refunds/SKILL.md", "reports/daily/SKILL.md")]
"""Those of `work` here: a template of `home` makes their own URIs too."""


def test_all_that_can_be_read_are_listed_and_no_odd_one_or_failing_server_costs_another(gateway: Served) -> None:
    assert [*Asking(gateway).listed()] == [*WORKS, FLOW]


def test_each_file_is_its_own_servers_and_as_its_digest_says(gateway: Served) -> None:
    asking = Asking(gateway)
    for uri, skill in asking.listed().items():
        for file in skill["resources"] if uri != WORKS[2] else []:
            text = asking.text(file["uri"]) or ""
            assert text.endswith(f" of {skill['frontmatter']['metadata']['of']}")
            assert (file["digest"], file["size"]) == (f"sha256:{sha256(text.encode()).hexdigest()}", len(text))


def test_nothing_but_uris_is_changed_of_a_skill(gateway: Served) -> None:
    assert Asking(gateway).listed()[WORKS[2]] == {**DYNAMIC, "uri": WORKS[2]}


def test_a_skill_is_got_as_it_is_listed_with_what_its_server_says_beside_it(gateway: Served) -> None:
    asking = Asking(gateway)
    for uri, skill in asking.listed().items():
        result = asking.ask("skills/get", {"uri": uri}).result
        assert result["skill"] == skill
        assert (result["own"], result["resultType"], result["cacheScope"]) == ("kept", "complete", "private")


def test_one_that_is_in_no_list_is_got_and_read_unless_its_name_is_denied(gateway: Served) -> None:
    asking = Asking(gateway)
    plain = asking.got("skill://plain/SKILL.md")
    assert [asking.text(file["uri"]) for file in plain["resources"]] == [
        f"{x['uri']} of home" for x in plain["resources"]
    ]
    assert asking.got("skill://secret/SKILL.md") == unknown("skill://secret/SKILL.md")


@every(
    "headers",
    [
        [("x-mcp-disabled-tools", "work_flow")],
        [("x-mcp-disabled-tools", WORKS[0])],
        [("x-mcp-disabled-tools", WORKS[0].replace("SKILL", "references/more"))],
        [("x-mcp-disabled-tools", "work")],
        [("x-mcp-tools", "home_flow,work_refunds")],
        [("x-mcp-tags", "home")],
    ],
)
def test_a_denied_skill_is_one_that_never_was(gateway: Served, headers: list[tuple[str, str]]) -> None:
    asking, never = Asking(gateway, *headers), WORKS[0].replace("flow", "none")
    assert WORKS[0] not in asking.listed()
    assert FLOW in asking.listed()
    assert asking.got(WORKS[0]) == unknown(WORKS[0])
    assert asking.got(never) in (unknown(never), {"code": INVALID_PARAMS, "message": "unknown"})


@every("query", ["?disabled_tools=work_flow", "?tools=home_flow", "?toolsets=home"])
def test_no_file_of_a_denied_skill_is_read(gateway: Served, query: str) -> None:
    asking = Asking(gateway, query=query)
    assert [asking.text(uri) for uri in (WORKS[0], WORKS[0].replace("SKILL", "references/more"))] == [None, None]


def test_a_skill_that_is_named_in_an_allow_list_comes_with_its_files(gateway: Served) -> None:
    asking = Asking(gateway, query="?tools=work_flow")
    assert [*asking.listed()] == [WORKS[0]]
    assert all(asking.text(file["uri"]) for file in asking.listed()[WORKS[0]]["resources"])


def test_they_are_announced_to_callers_of_2026_of_whose_servers_any_has_skills(gateway: Served) -> None:
    assert Asking(gateway).is_announced()
    assert not Asking(gateway, query="?toolsets=without").is_announced()
    with closing(RawHttp(gateway.url)) as http, closing(LegacyCaller(http, "", ())) as legacy:
        assert EXTENSION not in legacy.opened.result["capabilities"].get("extensions", {})
        assert legacy.ask("skills/list").message["error"]["code"] == METHOD_NOT_FOUND


def test_a_server_that_answers_with_no_skill_is_at_fault_and_not_its_caller() -> None:
    odd = {**DYNAMIC, "frontmatter": {"name": "daily"}}
    with served(having("home", skills=[], hidden=[odd], resources=[DAILY])) as gateway:
        error = Asking(gateway).got(DAILY)
        assert error["code"] == INTERNAL_ERROR
        assert "'home'" in error["message"]
        assert "description" in error["message"]


def test_a_resource_of_a_server_without_skills_is_none(gateway: Served) -> None:
    uri = "skill://denied/SKILL.md"
    assert Asking(gateway).got(uri) == unknown(uri)


def test_all_files_of_a_skill_move_where_one_of_them_is_another_servers() -> None:
    theirs = having("first", resources=["skill://flow/references/more.md"])
    with served(theirs, having("home", skills=["flow"])) as gateway:
        (skill,) = Asking(gateway).listed().values()
        assert [file["uri"] for file in skill["resources"]] == [OTHERS_FLOW, "skill://home/flow/references/more.md"]
        assert Asking(gateway).text(skill["resources"][1]["uri"]) == "skill://flow/references/more.md of home"


def test_files_that_are_resources_in_a_list_are_under_the_skills_name_too() -> None:
    files = [FLOW, "skill://flow/references/more.md"]
    with served(having("home", skills=["flow"], resources=files)) as gateway:
        for query, there in [("?tools=home_flow", files), ("?disabled_tools=home_flow", [])]:
            result = Asking(gateway, query=query).ask("resources/list").result
            assert [each["uri"] for each in result["resources"]] == there
            assert [*Asking(gateway, query=query).listed()] == there[:1]


def test_what_changed_is_listed_soon_after_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_utilities.gateway.skills._FRESH_S", 0.0)
    (later := tmp_path / "later").write_text("")
    with served(having("home", skills=["flow"], later=str(later))) as gateway:
        later.write_text("new")
        while "skill://new/SKILL.md" not in Asking(gateway).listed():
            pass  # until it has been listed behind one of these


def test_an_isolated_servers_are_listed_and_got() -> None:
    config = having("home", skills=["flow"]).model_copy(update={"isolate": True})
    with served(config) as gateway:
        assert Asking(gateway).got(FLOW) == Asking(gateway).listed()[FLOW]


def test_those_of_a_gateways_servers_are_had_through_another_gateway() -> None:
    with served(having("home", skills=["flow"]), having("work", skills=["flow"])) as inner:
        config = UpstreamConfig(name="inner", source="mcp.json", transport="http", url=f"{inner.url}/mcp")
        with served(config, having("here", skills=["flow"])) as gateway:
            asking = Asking(gateway)
            texts = [asking.text(asking.got(uri)["uri"]) for uri in asking.listed()]
            assert texts == [f"{FLOW} of {name}" for name in ("home", "work", "here")]

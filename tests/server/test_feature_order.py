"""Which features a server has, in which order, with which settings, and what they grant together."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

import pytest
from mcp.shared.exceptions import MCPError as McpError
from pydantic import BaseModel, Field, SecretStr, create_model, field_validator, model_validator

from agent_utilities import (
    Call,
    Caller,
    Feature,
    Grant,
    Host,
    Refusal,
    Request,
    Selection,
    SettingsError,
    create_mcp_server,
)
from agent_utilities.cli.gateway_options import GatewayOptions
from agent_utilities.errors import InputError
from agent_utilities.seam.feature import BoundError
from agent_utilities.seam.request import ToolCalled
from agent_utilities.selection.model import NameSet, Setting
from agent_utilities.server.command_line.options import Options
from agent_utilities.server.feature_list import FeatureList
from agent_utilities.server.feature_order import in_order
from agent_utilities.settings_file import settings_of
from agent_utilities.testing import client
from tests.every import every

ANN = Caller("https://login.example", "ann")


def named(name: str, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Feature:
    feature = Feature()
    feature.name, feature.before, feature.after = name, before, after
    return feature


def order(*features: Feature) -> list[str]:
    return [each.name for each in in_order(features)]


class TestOrder:
    def test_what_each_says_holds_and_the_others_stay_as_they_are(self) -> None:
        assert order(named("b"), named("a"), named("c")) == ["b", "a", "c"]
        given = named("a", after=("c",)), named("b"), named("c"), named("d", before=("b",))
        assert order(*given) == ["c", "a", "d", "b"]
        assert order(named("a", after=("x",)), named("b", before=("y",))) == ["a", "b"]  # who is not there

    def test_a_circle_and_a_name_that_two_have_are_refused(self) -> None:
        with pytest.raises(SettingsError, match=r"a after b after a|b after a after b"):
            order(named("a", after=("b",)), named("b", after=("a",)))
        with pytest.raises(SettingsError, match="two features have this name: 'a'"):
            order(named("a"), named("b"), named("a"))

    def test_what_can_not_be_declared_is_refused_by_its_name_before_any_request_finds_out(self) -> None:
        wrong = {
            "name": 5,
            "settings": Timed,
            "rights": "office.always",
            "before": "access",
            "after": None,
            "needs": ("Usage",),
            "hears": [ToolCalled],
            "keeps": "dict",
        }
        limits = ("5", 0, -1.0, float("nan"), float("inf"))  # nan among its timers halts an event loop's others
        for attribute, value in [*wrong.items(), *(("limit_s", limit) for limit in limits)]:
            with pytest.raises(SettingsError, match=f"not what {attribute} may be"):
                in_order([type("Declaring", (Feature,), {"name": "a", attribute: value})()])


class Timed(BaseModel):
    shop_opens: int = Field(default=8, ge=0, description="The hour from which it is open.")


class Shop(Feature):
    name = "shop"
    settings = Timed()


def declaring(model: BaseModel) -> Feature:
    made: Feature = type("Declaring", (Feature,), {"name": "declaring", "settings": model})()
    return made


def spelled(options: type) -> list[str]:
    """Return how options are spelled on the command line, where not as their fields."""
    made = [each for hint in get_type_hints(options, include_extras=True).values() for each in get_args(hint)[1:]]
    return [name for each in made for name in (each.param_decls or ()) if name.startswith("--")]


class TestSettings:
    @every("by", ["environment", "file"])
    def test_what_the_operator_says_is_there_before_anything_is_served(self, by: str, tmp_path: Path) -> None:
        file = tmp_path / "agent-utilities.toml"
        file.write_text("shop_opens = 10\n" if by == "file" else "")
        environ = {"MCP_CONFIG_FILE": str(file)} | ({"MCP_SHOP_OPENS": "10"} if by == "environment" else {})
        server = create_mcp_server("x", environ=environ, features=[shop := Shop()])
        server.complete()
        assert shop.settings.shop_opens == 10

    def test_the_command_line_is_over_both(self) -> None:
        server = create_mcp_server("x", environ={"MCP_SHOP_OPENS": "10"}, features=[shop := Shop()])
        server.features.declare(server.operator)
        server.surface.launch(Selection(), shop_opens="11")
        server.complete()
        assert shop.settings.shop_opens == 11

    def test_a_file_that_names_features_is_read_before_they_are_known_and_wholly_once_they_are(
        self, tmp_path: Path
    ) -> None:
        (file := tmp_path / "agent-utilities.toml").write_text('features = ["office-hours"]\noffice_opened = 9\n')
        environ = {"MCP_CONFIG_FILE": str(file)}
        assert settings_of(environ).features == "office-hours"
        server = create_mcp_server("x", environ=environ)
        assert server.operator.settings.features == "office-hours"
        with pytest.raises(InputError, match="unknown key: 'office_opened'"):
            server.complete()
        file.write_text("office_opens = 9\n")
        with pytest.raises(InputError, match="unknown key: 'office_opens'"):
            settings_of(environ)

    def test_a_name_that_is_taken_and_a_value_that_can_not_be_are_refused(self) -> None:
        class Taken(BaseModel):
            page: bool = True

        class Second(Feature):
            name, settings = "second", Taken()

        with pytest.raises(SettingsError, match="two settings have this name: 'page'"):
            create_mcp_server("x", environ={}, features=[Second()]).complete()
        with pytest.raises(SettingsError, match=r"'-1' \(from env MCP_SHOP_OPENS\)"):
            create_mcp_server("x", environ={"MCP_SHOP_OPENS": "-1"}, features=[Shop()]).complete()

    def test_no_setting_takes_an_option_of_every_command_line_away(self) -> None:
        own = {field.name for kind in (Options, GatewayOptions) for field in dataclasses.fields(kind)}
        shown = {name.strip("-").replace("-", "_") for kind in (Options, GatewayOptions) for name in spelled(kind)}
        for name in {*own, *shown, "help", "profiles", "config_file", "auth"}:
            made = create_model("Made", **{name: (str, "")})  # type: ignore[call-overload]
            with pytest.raises(SettingsError, match=f"two settings have this name: '{name}'"):
                create_mcp_server("x", environ={}, features=[declaring(made())]).complete()

    def test_what_settings_say_of_one_another_is_refused_by_the_names_that_were_given(self) -> None:
        class Opening(BaseModel):
            shop_opens: int = 8
            shop_closes: int = 18

            @model_validator(mode="after")
            def check(self) -> Self:
                if self.shop_opens >= self.shop_closes:
                    raise ValueError("it closes before it opens")
                return self

        server = create_mcp_server("x", environ={"MCP_SHOP_OPENS": "20"}, features=[declaring(Opening())])
        with pytest.raises(SettingsError, match=r"'20' \(from env MCP_SHOP_OPENS\); it closes before"):
            server.complete()

    def test_help_shows_a_description_as_it_is_written(self, capsys: pytest.CaptureFixture[str]) -> None:
        class Marked(BaseModel):
            shop_mark: str = Field(default="", description="Ends at [/items] of a [list].")

        with pytest.raises(SystemExit) as left:
            create_mcp_server("x", environ={}, features=[declaring(Marked())]).cli(["--help"])
        assert not left.value.code
        assert "Ends at [/items] of a [list]." in capsys.readouterr().out

    def test_no_message_has_a_secret_in_it(self) -> None:
        class Keys(BaseModel):
            shop_key: SecretStr | None = Field(default=None, min_length=12)

        server = create_mcp_server("x", environ={"MCP_SHOP_KEY": "hunter2"}, features=[declaring(Keys())])
        with pytest.raises(SettingsError, match="shop_key can't be read") as refused:
            server.complete()
        assert "hunter2" not in str(refused.value)

    def test_a_validator_that_fails_otherwise_is_named_by_its_feature(self) -> None:
        for error in (KeyError("x"), RuntimeError("x"), SystemExit(3)):

            class Failing(BaseModel):
                shop_n: int = 1

                @field_validator("shop_n")
                @classmethod
                def check(cls, value: int, error: Any = error) -> int:
                    raise error

            server = create_mcp_server("x", environ={"MCP_SHOP_N": "2"}, features=[declaring(Failing())])
            with pytest.raises(SettingsError, match=rf"{type(error).__name__}.*from declaring"):
                server.complete()

    def test_a_projects_file_says_neither_which_features_there_are_nor_what_they_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
        monkeypatch.delenv("MCP_CONFIG_FILE", raising=False)
        for line, why in (('features = ["shop"]', "what is loaded"), ("shop_opens = 9", "what features do")):
            Path("agent-utilities.toml").write_text(line)
            server = create_mcp_server("x", features=[Shop()])
            with pytest.raises(SettingsError, match=why):
                server.complete()


class Granting(Feature):
    """Grants what it is made with."""

    def __init__(self, name: str, grant: Grant | None, rights: tuple[str, ...] = ()) -> None:
        self.name, self.granted, self.rights = name, grant, rights

    def grant(self, caller: Caller) -> Grant | None:
        return self.granted


def only(field: str, name: str, channel: str) -> Selection:
    return Selection((((field, channel), Setting(NameSet(frozenset([name])), (channel,))),))  # type: ignore[arg-type]


class TestGrants:
    def test_the_bounds_of_all_hold_and_each_gives_its_own_rights_alone(self) -> None:
        first = Granting("a", Grant(only("allow_tools", "x", "rule"), frozenset(["a", "b"]), 3), ("a",))
        second = Granting("b", Grant(only("deny_tools", "y", "token"), frozenset(["a", "b"])), ("b",))
        both = FeatureList([first, second]).grant(ANN)
        assert both is not None
        assert {slot for slot, _ in both.bounds.slots} == {("allow_tools", "rule"), ("deny_tools", "token")}
        assert (both.may, both.rule) == (frozenset(["a", "b"]), 3)
        third = Granting("c", Grant(may=frozenset(["a"])))
        assert FeatureList([third]).grant(ANN) == Grant()
        assert FeatureList([Granting("a", None)]).grant(ANN) is None

    def test_a_set_that_says_it_has_whatever_it_is_asked_for_gives_no_more(self) -> None:
        class Everything(frozenset[str]):
            def intersection(self, *others: Iterable[object]) -> frozenset[str]:
                return self

        grant = FeatureList([Granting("a", Grant(may=Everything(["metrics"])), ("a",))]).grant(ANN)
        assert grant == Grant()

    def test_two_that_bound_the_same_field_are_refused(self) -> None:
        twice = [Granting(name, Grant(only("allow_tools", name, "rule"))) for name in "ab"]
        with pytest.raises(BoundError, match="narrow"):
            FeatureList(twice).grant(ANN)


class Seller(Feature):
    name, needs = "seller", (Shop,)

    def attach(self, host: Host) -> None:
        super().attach(host)
        self.shop = self.needed(Shop) if host.offered(Shop) else None


class TestNeeds:
    def test_what_it_needs_is_given_by_its_type_wherever_it_stands_or_no_server_is_made(self) -> None:
        seller, shop = Seller(), Shop()
        server = create_mcp_server("x", environ={}, features=[seller, shop])
        assert seller.shop is shop
        assert server.offered(Shop) == [shop]
        with pytest.raises(SettingsError, match="offers Shop"):
            create_mcp_server("x", environ={}, features=[Seller()])


class TestAttaching:
    def test_one_that_fails_fails_again_so_that_no_later_start_does_without_it(self, tmp_path: Path) -> None:
        (file := tmp_path / "tokens.toml").write_text("no tokens")
        server = create_mcp_server("x", environ={"MCP_AUTH_TOKENS": str(file)})
        for _ in range(2):
            with pytest.raises(InputError):
                server.complete()


class Withholding(Feature):
    """Withholds what has a secret in it, and does not answer in time whether another tool may be called."""

    name, limit_s = "withholding", 0.05

    async def admit(self, request: Request, call: Call) -> None:
        if call.name == "slow":
            await asyncio.Event().wait()

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        if "secret" in str(result):
            raise Refusal("the result is withheld: it has a secret in it")
        return result


@pytest.mark.anyio
async def test_a_result_can_be_withheld_and_a_call_that_nobody_answers_for_in_time_is_not_made() -> None:
    ran: list[str] = []
    server = create_mcp_server("x", environ={}, features=[Withholding()])
    for name in ("tell", "slow", "plain"):

        @server.tool(name=name)
        def run(name: str = name) -> str:
            ran.append(name)
            return "a secret" if name == "tell" else "nothing"

    server.resource("data://x")(lambda: "a secret")
    async with client(server) as caller:
        withheld = await caller.call_tool("tell", {}, raise_on_error=False)
        refused = await caller.call_tool("slow", {}, raise_on_error=False)
        assert (await caller.call_tool("plain", {})).data == "nothing"
        with pytest.raises(McpError, match="withheld"):
            await caller.read_resource("data://x")
    assert (withheld.is_error, withheld.content[0].text) == (True, "the result is withheld: it has a secret in it")
    assert refused.is_error
    assert ran == ["tell", "plain"]

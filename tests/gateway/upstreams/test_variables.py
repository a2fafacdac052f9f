"""Variables in the values of config files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.gateway.upstreams.configuration.variables import MAX_LENGTH, Reading, Unusable, names_in

READING = Reading(
    environ={"A": "1", "EMPTY": "", "REF": "${A}", "ProgramFiles(x86)": "C:", "MCP_INPUT_GIVEN": "g"},
    folder=Path("/work/project"),
    home=Path("/home/ada"),
    inputs={"chosen": {"description": "which one", "default": "first"}},
)


class TestFill:
    def test_gives(self) -> None:
        for text, filled in [
            ("", ""),
            ("plain $A $$ {A} %A%", "plain $A $$ {A} %A%"),
            ("${A}", "1"),
            ("x${A}y${A}z", "x1y1z"),
            ("${env:A}", "1"),
            ("${env:ProgramFiles(x86)}/x", "C:/x"),
            ("${EMPTY}", ""),
            ("${EMPTY:-default}", "default"),
            ("${NONE:-}", ""),
            ("${NONE:-a b:-c}", "a b:-c"),
            ("${env:NONE:-d}", "d"),
            ("${A:-d}", "1"),
            ("${NONE:-${OTHER:-${A}}}", "1"),
            ("${NONE:-{}}", "{}"),
            ("${REF}", "${A}"),
            ("${workspaceFolder}/x", "/work/project/x"),
            ("${workspaceFolderBasename}", "project"),
            ("${userHome}${/}x", "/home/ada/x"),
            ("${input:given}${input:chosen}", "gfirst"),
            ("${", "${"),
            ("${A", "${A"),
            ("}${A}", "}1"),
            ("${}", "${}"),
            ("${not a name}", "${not a name}"),
            ("${x[0]}", "${x[0]}"),
        ]:
            assert READING.fill(text) == filled

    def test_refuses(self) -> None:
        for text, told in [
            ("${NONE}", "the variable NONE is not set; set it, or write ${NONE:-default}"),
            ("${env:NONE}", "the variable NONE is not set"),
            ("${NONE:-${ALSO}}", "the variable ALSO is not set"),
            ("${input:none}", "the input 'none' is not given; set the variable MCP_INPUT_NONE to it"),
            ("${command:x}", "known to editors alone"),
            ("${config:a.b}", "known to editors alone"),
        ]:
            with pytest.raises(Unusable) as caught:
                READING.fill(text)
            assert told in str(caught.value)

    def test_bounds_what_it_makes(self) -> None:
        reading = Reading(environ={"LONG": "x" * 1000}, folder=Path("/"), home=Path("/"))
        with pytest.raises(Unusable, match="too long once its variables are filled in"):
            reading.fill("${LONG}" * (MAX_LENGTH // 1000 + 1))

    def test_takes_bare_names_in_geminis_files_alone(self) -> None:
        reading = Reading(environ={"A": "1"}, folder=Path("/"), home=Path("/"), has_bare_variables=True)
        assert reading.fill("$A-${A}-$$5") == "1-1-$$5"
        with pytest.raises(Unusable, match="NONE is not set"):
            reading.fill("$NONE")

    @given(st.text(alphabet="${}:-A ", max_size=40))
    def test_law_is_the_same_every_time_and_ends(self, text: str) -> None:
        shown = Reading(environ={"A": "secret"}, folder=Path("/"), home=Path("/"), keeps_references=True)
        assert shown.fill(text) == shown.fill(text)
        assert "secret" not in shown.fill(text)


def test_the_names_that_a_text_takes() -> None:
    assert names_in("${A}${env:B:-${C}}${input:some-id}${A} $D ${workspaceFolder") == (
        "A",
        "B",
        "C",
        "MCP_INPUT_SOME_ID",
    )

"""The lexical ranker: words, stems, scripts, names, servers and past requests."""

from __future__ import annotations

from dataclasses import replace

from agent_utilities.catalog.document import ToolDocument, ToolServer, document
from agent_utilities.query.ranking.answerability import PastRequests
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.query.ranking.catalogs import PLACES, TOOLS

INDEX = LexicalRanker().index(TOOLS)


def first(query: str) -> str:
    return TOOLS[INDEX.rank(query).indexes[0]].name


class TestWords:
    def test_a_request_finds_the_tool_that_shares_its_words(self):
        for query, name in [
            ("which commits are newest", "git_log"),
            ("copying repositories", "clone_repo"),
            ("delete folder", "deleteFolder"),
            ("history", "git_log"),
            ("北京天气", "查询天气"),
            ("LINES OF THE LOG", "tail_logs"),
        ]:
            assert first(query) == name

    def test_two_words_find_a_name_written_as_one(self):
        catalog = [ToolDocument("keyvault_list"), ToolDocument("lock_list")]
        assert LexicalRanker().index(catalog).rank("list the key vault").indexes[0] == 0

    def test_a_word_with_a_capital_inside_is_found_as_it_is_spoken(self):
        catalog = [ToolDocument("issues", description="List issues."), ToolDocument("x", description="Ask GitHub.")]
        ranking = LexicalRanker().index(catalog).rank("github")
        assert (ranking.indexes, ranking.matched) == ((1,), (("github",),))

    def test_a_long_word_of_changing_capitals_is_read_at_once(self):
        assert LexicalRanker().index([ToolDocument("x", description="aA" * 9_000 + "9 end")]).rank("end").indexes

    def test_a_word_written_as_one_is_found_beside_the_same_with_capitals_inside(self):
        catalog = [ToolDocument("a", description="Ask GitHub."), ToolDocument("b", description="Ask github.")]
        ranking = LexicalRanker().index(catalog).rank("github")
        assert (sorted(ranking.indexes), ranking.matched) == ([0, 1], (("github",), ("github",)))

    def test_acronyms_are_found_with_plural_and_digits_in_any_casing(self):
        written = ("PDFs", "URLs", "GPUs", "EC2", "OAuth2", "SHA256", "IPv6", "PostgreSQL", "DynamoDB", "K8s", "WiFi")
        asked = ("pdf", "url", "gpu", "ec2", "oauth2", "sha256", "ipv6", "postgresql", "dynamodb", "k8s", "wifi")
        for texts in (
            [ToolDocument(f"t{n}", description=f"Works on {word} here.") for n, word in enumerate(written)],
            [ToolDocument(f"use{word}Now") for word in written],
        ):
            index = LexicalRanker().index(texts)
            for place, word in enumerate(asked):
                for query in (word, word.upper(), f"please help me with the {word} today"):
                    assert index.rank(query).indexes[:1] == (place,), (query, texts[place])

    def test_a_particle_chooses_between_tools_that_fit_alike(self):
        names = ("turn_on_light", "turn_off_light", "volume_up", "volume_down", "clock_in", "clock_out")
        index = LexicalRanker().index([ToolDocument(name, description=name.replace("_", " ")) for name in names])
        for query, name in (
            ("turn off the light", "turn_off_light"),
            ("please turn the light on", "turn_on_light"),
            ("turn the volume down", "volume_down"),
            ("clock me out now", "clock_out"),
        ):
            assert names[index.rank(query).indexes[0]] == name

    def test_words_that_say_nothing_name_a_tool_where_there_are_no_others(self):
        names = ("whoami", "get_me", "list_repos")
        index = LexicalRanker().index([ToolDocument(name, description="Details of an account.") for name in names])
        assert [index.rank(query).indexes[:1] for query in ("who am i", "get me")] == [(0,), (1,)]

    def test_a_word_misspelt_finds_what_it_is_meant_for(self):
        catalog = [ToolDocument("get_weather", description="Forecast."), ToolDocument("delete_repository")]
        index = LexicalRanker().index(catalog)
        assert [index.rank(query).indexes for query in ("wether", "repositry", "rpository")] == [(0,), (1,), (1,)]

    def test_a_word_alone_is_mended_at_its_first_letter_too_and_at_its_last(self):
        catalog = [ToolDocument("get_weather", description="Forecast."), ToolDocument("delete_repository")]
        index = LexicalRanker().index(catalog)
        for query in ("eather", "qeather", "ewather", "weathet", "weathre"):
            assert index.rank(query).indexes == (0,), query
        assert index.rank("rpeositroy").indexes == (1,)

    def test_what_says_nothing_in_a_language_is_found_by_no_letters_of_it(self):
        catalog = [
            ToolDocument("a", description="Zeigt, was jemand kann oder könnte, für den Kunden."),
            ToolDocument("b", description="Öffnet die Rechnung eines Kunden."),
        ]
        assert LexicalRanker().index(catalog).rank("kannst du mir bitte die Rechnungen öffnen").indexes == (1,)

    def test_a_word_that_is_spelt_right_is_bent_into_no_other(self):
        catalog = [ToolDocument("write_file"), ToolDocument("play_game"), ToolDocument("list_shops")]
        for query in ("a white ship came home", "pray with james", "a long way to pain"):
            assert LexicalRanker().index(catalog).rank(query).indexes == ()

    def test_words_of_other_scripts_are_found_in_other_forms(self):
        catalog = [
            ToolDocument("a", description="Erstellt eine Rechnung für einen Kunden"),
            ToolDocument("b", description="Удаляет файл по указанному пути"),
            ToolDocument("c", description="사용자에게 메시지를 보냅니다"),
            ToolDocument("d", description="উপযোগী প্রতিবেদন তৈরি করুন"),
            ToolDocument("e", description="Mở tài khoản ngân hàng"),
            ToolDocument("f", description="يلغي طلبا قبل شحنه"),
        ]
        index = LexicalRanker().index(catalog)
        asked = (
            "Kundenrechnungen",
            "удалить файлы",
            "메시지 보내줘",
            "প্রতিবেদনটি",
            "tai khoan",
            "إلغاء الطلب قبل الشحن",
        )
        assert [index.rank(query).indexes[:1] for query in asked] == [(n,) for n in range(6)]

    def test_a_clause_that_says_what_is_not_wanted_finds_nothing(self):
        catalog = [ToolDocument("send_mail"), ToolDocument("read_mail")]
        index = LexicalRanker().index(catalog)
        assert index.rank("never send mail, only read").indexes == (1,)
        assert index.rank("don't forget to send the mail").indexes[0] == 0

    def test_what_matched_is_said_in_the_requests_order(self):
        ranking = INDEX.rank("please list the newest commits")
        assert dict(zip(ranking.indexes, ranking.matched, strict=True))[PLACES["git_log"]] == (
            "list",
            "newest",
            "commits",
        )

    def test_nothing_in_common_is_nothing_claimed(self):
        for query in ["", "   ", "what can you do for me", "quantum chromodynamics", "?!"]:
            ranking = INDEX.rank(query)
            assert (ranking.indexes, ranking.abstained) == ((), True)

    def test_a_match_over_the_cut_is_claimed(self):
        ranking = INDEX.rank("count requests per client")
        assert ranking.scores[0] >= ranking.cut > 0
        assert (ranking.abstained, ranking.n_claimed) == (False, 1)

    def test_a_match_under_the_cut_is_ranked_and_not_claimed(self):
        ranking = INDEX.rank("explain lines of quantum chromodynamics and a baroque lute concerto to a sleepy child")
        assert 0 < ranking.scores[0] < ranking.cut
        assert (ranking.abstained, ranking.n_claimed) == (True, 0)

    def test_only_the_first_256_words_are_read(self):
        assert INDEX.rank("quantum " * 255 + "commits").indexes == (PLACES["git_log"],)
        assert INDEX.rank("quantum " * 256 + "commits").indexes == ()


class TestNames:
    def test_a_name_as_it_is_written_wins(self):
        for query in ["run git_status, then list the newest commits", "git_status", "git/git_status"]:
            assert first(query) == "git_status"

    def test_a_name_that_is_just_a_word_does_not(self):
        catalog = [ToolDocument("search"), ToolDocument("find_restaurant", description="Search for a restaurant")]
        index = LexicalRanker().index(catalog)
        assert index.rank("Search for a restaurant nearby").indexes[0] == 1
        assert index.rank("call `search` for a restaurant").indexes[0] == 0

    def test_behind_a_gateway_it_is_known_by_both_its_names(self):
        for query in ["git_git_status", "git_status", "git/git_status", "run git_status, then push"]:
            tools = [replace(tool, name=f"{tool.server}_{tool.name}", own_name=tool.name) for tool in TOOLS]
            assert LexicalRanker().index(tools).rank(query).indexes[0] == PLACES["git_status"]

    def test_a_denied_name_wins_nothing(self):
        assert PLACES["git_status"] not in INDEX.rank("git_status", permitted=[1, 2]).indexes


class TestServers:
    def test_of_equal_tools_that_of_the_better_server_wins(self):
        catalog = [
            ToolDocument("list", description="List things", server="zoo"),
            ToolDocument("feed", description="Feed an animal", server="zoo"),
            ToolDocument("list", description="List things", server="music"),
            ToolDocument("play", description="Play a song", server="music"),
        ]
        assert LexicalRanker().index(catalog).rank("list every song").indexes[:2] == (2, 0)

    def test_the_prefix_of_a_gateway_changes_no_rank(self):
        tools = [replace(tool, name=f"{tool.server}_{tool.name}", own_name=tool.name) for tool in TOOLS]
        index = LexicalRanker().index(tools)
        for query in ("git history", "files", "what changed in the log", "remove a directory"):
            assert index.rank(query) == INDEX.rank(query)

    def test_words_of_its_description_find_its_tools_after_those_that_say_them_themselves(self):
        clock = ToolServer("clock", "World Clock", "Time zones of every city. Installed in a minute.")
        catalog = [
            document({"name": "now", "description": "Return it."}, clock),
            document({"name": "list", "description": "List things."}, "things"),
            document({"name": "convert", "description": "Convert between zones."}, "units"),
        ]
        index = LexicalRanker().index(catalog)
        assert index.rank("which zones are there").indexes == (2, 0)
        assert index.rank("world clock").indexes == (0,)
        assert index.rank("how is it installed").indexes == ()

    def test_denied_neighbours_do_not_count(self):
        catalog = [
            ToolDocument("list", description="List things", server="zoo"),
            ToolDocument("list", description="List things", server="music"),
            ToolDocument("play", description="Play a song", server="music"),
        ]
        assert LexicalRanker().index(catalog).rank("list every song", permitted=[0, 1]).indexes == (0, 1)


class TestUsage:
    def test_a_past_request_is_found_again(self):
        index = LexicalRanker().index(TOOLS).learn(PastRequests.of({PLACES["top_clients"]: ["who is hammering us"]}))
        assert index.rank("somebody is hammering on it").indexes[0] == PLACES["top_clients"]

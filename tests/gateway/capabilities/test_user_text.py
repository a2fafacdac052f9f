"""What of a message its user wrote: neither blocks of XML nor what was pasted."""

from __future__ import annotations

import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.gateway.capabilities.router import intent_text, without_pastes
from tests.every import every

TRACE = """Traceback (most recent call last):
  File "/srv/app/sync.py", line 41, in run
    rows = self.slack.history(channel)
KeyError: 'messages' is missing"""
JAVA = """java.lang.IllegalStateException: no session
    at com.example.mail.Inbox.open(Inbox.java:77)
    ... 12 more
Caused by: java.net.ConnectException: refused"""
LOG = """2026-03-02 10:11:12,001 INFO  worker.7 starting
2026-03-02 10:11:13,907 ERROR worker.7 could not reach postgres
retrying in a moment
2026-03-02 10:11:15,120 WARN  worker.7 gave up"""
JSON = """{
  "service": "calendar",
  "status": "failed",
  "tags": [
    "prod"
  ]
}"""
DIFF = """diff --git a/mail.py b/mail.py
@@ -1,3 +1,3 @@
-    send(user)
+    send(user, subject)
     return True"""
TABLE = """NAME        READY   STATUS    RESTARTS
web-7c1f    1/1     Running   0
db-a90b     0/1     Pending   3"""
CODE = """const rows = await db.query("SELECT id FROM users");
for (const row of rows) {
  await mailer.send(row.email);
}"""
CSV = "order_id,customer,total\n10021,Marta Oliveira,39.80\n10022,J. Park,12.00"
SETTINGS = "APP_ENV=staging\nSLACK_CHANNEL=#alerts\nLOG_LEVEL=debug"
FENCED = "```\nthe docker container says\n\nno space left\n```"
PASTES = (TRACE, JAVA, LOG, JSON, DIFF, TABLE, CODE, CSV, SETTINGS, FENCED)


class TestBlocks:
    def test_go_with_what_is_in_them(self) -> None:
        for message, words in [
            ("<log>\nkubectl refused\n</log>\nwhy?", "why?"),
            ("<skill name=\"a > b\" kind='x'>deploy</skill> hello", "hello"),
            ("<a><a>inner</a>outer</a> words", "words"),
            ("<log>half <div> open</log> words", "words"),
            ("before <log>x</log> after", "before\nafter"),
            ("<LOG>x</log> words", "words"),
            ("<ns:log>x</ns:log> words", "words"),
            ("<log it's>x</log> words", "words"),
            ("words <log>x</log>", "words"),
            ("<log>all</log>", ""),
            ("<b>one</b> two <log>half <b>x</b> open</log> words", "two\nwords"),
            ("<log><img src='x'/><br></log> words", "words"),
            ("<log>refused</log> why?\nKeyError: 'id'\nopen an issue", "why?\nopen an issue"),
        ]:
            assert intent_text(message) == words

    def test_that_were_cut_off_take_all_that_follows(self) -> None:
        for message in ["<log>\nall that follows", "  <log>all", "<a>x</a>\n<log>\n<b>x</b> all"]:
            assert intent_text(message) == ""
        assert intent_text("list my pods\n<log>\nrefused") == "list my pods"

    def test_are_no_prose_code_or_elements_that_hold_nothing(self) -> None:
        for message in [
            "is a < b and c > d?",
            "why is List<int> no List<Object>",
            "Arc<Mutex<T>> or Rc<RefCell<T>>",
            "Map<int, string> x",
            "how do I centre a <div> here",
            "line one <br> line two",
            "mail <bob@example.org> or see <https://example.org>",
            "a </div> too many",
            "x<<1 <> <3",
            "",
            "  spaces stay ",
            "  beside a <b> too ",
        ]:
            assert intent_text(message) == message
        for element in ["<br>", "<log/>", "<br/>"]:
            assert intent_text(f"{element}\nwords after it") == "words after it"


class TestPastes:
    def test_go_where_they_are_all(self) -> None:
        assert [paste for paste in PASTES if without_pastes(paste)] == []

    @every("between", ["\n", "\n\n", "\r\n"])
    def test_go_and_the_request_around_them_stays(self, between: str) -> None:
        for paste in PASTES:
            message = between.join(["Why does this fail?", paste, "Please open an issue for it."])
            assert without_pastes(message) == "Why does this fail?\nPlease open an issue for it."

    def test_are_lines_of_a_program_alone_too(self) -> None:
        for line in [
            "[2026-03-02T10:11:12Z] worker.7 could not reach postgres",
            "ERROR: duplicate key value violates unique constraint",
            "[error] [client 10.0.0.7] file does not exist: /var/www/x.html",
            "TypeError: Cannot read properties of undefined (reading 'map')",
            "src/app.ts:14:7 - error TS2322: the type is not assignable",
            '{"error": "invalid_grant", "error_description": "the code has expired"}',
            "Traceback (most recent call last): File \"a.py\", line 1, in f KeyError: 'user'",
            "goroutine 7 [running]: main.main() /tmp/x.go:8 +0x1d",
        ]:
            assert without_pastes(line) == "", line

    def test_are_no_lines_of_a_person(self) -> None:
        for message in [
            "rename notes.txt to ideas.txt",
            "- open src/app.py\n- rename notes.txt to ideas.txt\n- merge feature/x into main",
            "1. list the pods\n2. post them to #ops\n\nthanks",
            'add a row with {"name": "Ana"} to the users table',
            "at 10:30 book a table for 4, then text Ana: 0171-555-01",
            "ERROR messages are too long, shorten them",
            "is postgres 15.2 faster than 14.9?\nand is v16 out?",
            "Subject: lunch\nsend it to Ana please",
            "Role: you are an accountant\nTask: refund the last charge of Bob Lee\nReason: the mug was broken, says he",
            "请打开文件，然后保存。",
            "ファイルを開いて、git_log を見せて。",
            "x<<1 <> <3",
            "",
            "  spaces stay \n\n",
        ]:
            assert without_pastes(message) == message


class TestLaws:
    @given(st.text(alphabet="<>/ab \n\"'="), st.text(alphabet="ab{}\"':. \n\t`"))
    def test_nothing_is_made_up(self, tagged: str, pasted: str) -> None:
        for message, kept in ((tagged, intent_text(tagged).replace("\n", "")), (pasted, without_pastes(pasted))):
            rest = iter(message)
            assert all(letter in rest for letter in kept)

    @given(st.text(alphabet="<>/ab \n\"'="), st.text(alphabet="xy \n"))
    def test_what_is_in_a_block_never_stays(self, before: str, block: str) -> None:
        assert "SECRET" not in intent_text(f"{before}\n<log>{block}SECRET{block}</log>")

    def test_time_grows_with_the_length_alone(self) -> None:
        def took_s(read: Callable[[str], str], message: str) -> float:
            started = time.process_time()
            read(message)
            return time.process_time() - started

        took_s(intent_text, "<x></x")
        # A quadratic time would be minutes.
        for part in ["<a>", "<a ", '<a "', "<a x='", "<a></a>", "<a><b></a>", "<", "</a>", "\n <a>", "<a:", "<a/", " "]:
            assert took_s(intent_text, f"<x>{part * 100_000}</x") < 1, part
        for part in ["1:", "a.", "Error", "x,1 ", "[", "a\n", "{\n", "```\n", "\n ", "  x"]:
            assert took_s(without_pastes, part * 50_000) < 3, part

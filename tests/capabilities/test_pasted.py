"""What of a message was pasted into it, and what stays."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.capabilities.intent import without_pastes

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


@pytest.mark.parametrize("paste", PASTES)
class TestPastes:
    def test_go_where_they_are_all(self, paste: str) -> None:
        assert without_pastes(paste) == ""

    @pytest.mark.parametrize("between", ["\n", "\n\n", "\r\n"])
    def test_go_and_the_request_around_them_stays(self, paste: str, between: str) -> None:
        message = between.join(["Why does this fail?", paste, "Please open an issue for it."])
        assert without_pastes(message) == "Why does this fail?\nPlease open an issue for it."


class TestLines:
    @pytest.mark.parametrize(
        "line",
        [
            "[2026-03-02T10:11:12Z] worker.7 could not reach postgres",
            "ERROR: duplicate key value violates unique constraint",
            "[error] [client 10.0.0.7] file does not exist: /var/www/x.html",
            "TypeError: Cannot read properties of undefined (reading 'map')",
            "src/app.ts:14:7 - error TS2322: the type is not assignable",
            '{"error": "invalid_grant", "error_description": "the code has expired"}',
            "Traceback (most recent call last): File \"a.py\", line 1, in f KeyError: 'user'",
            "goroutine 7 [running]: main.main() /tmp/x.go:8 +0x1d",
        ],
    )
    def test_of_a_program_go_alone(self, line: str) -> None:
        assert without_pastes(line) == ""

    @pytest.mark.parametrize(
        "message",
        [
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
        ],
    )
    def test_of_a_person_stay_as_they_are(self, message: str) -> None:
        assert without_pastes(message) == message


class TestLaws:
    @given(st.text(alphabet="ab{}\"':. \n\t`"))
    def test_nothing_is_made_up(self, message: str) -> None:
        rest = iter(message)
        assert all(letter in rest for letter in without_pastes(message))

    @pytest.mark.parametrize("part", ["1:", "a.", "Error", "x,1 ", "[", "a\n", "{\n", "```\n", "\n ", "  x"])
    def test_time_grows_with_the_length_alone(self, part: str) -> None:
        started = time.process_time()
        without_pastes(part * 50_000)
        assert time.process_time() - started < 3  # a quadratic time would be minutes

"""The words of a session, as they are handed to what looks through them for secrets."""

from __future__ import annotations

from agent_utilities.usage.feature import NOT_USED
from agent_utilities.usage.redaction import without_secrets
from tests.every import every

BLOB = "q7Xv2" * 2_000


@every("secret", ["anna.private@corp.example", "AKIAIOSFODNN7EXAMPLE", "https://bob:hunter2@host/"])
@every("end", [2_000, 4_096, 5_000])
@every("is_search", [False, True])
def test_no_part_of_a_secret_is_left_of_words_too_long_to_remember(secret: str, end: int, is_search: bool) -> None:
    left = set()
    for n_before_end in range(1, len(secret)):
        words = f"{BLOB[: end - n_before_end - 1]} {secret} please"
        use = NOT_USED.found_by(words, ["send"]) if is_search else NOT_USED.heard(words)
        left.add(without_secrets(use.words_for("send")))
    assert left <= {"", "please"}

"""Words in any script, and what a request says it does not want."""

from __future__ import annotations

import time

from agent_utilities.catalog.words import (
    STOPWORDS,
    asks_for_everything,
    bare,
    is_one_letter,
    stopwords_of,
    without_negated,
    words,
)
from tests.every import every


class TestScripts:
    @every("word", ["संदेश", "প্রতিবেদন", "மின்னஞ்சல்", "సందేశం", "رسالةٌ", "שָׁלוֹם", "می\u200cخواهم"])
    def test_a_word_keeps_its_marks_and_joiners(self, word: str) -> None:
        assert words(word) == [word]

    @every("text", ["ส่งข้อความถึงผู้ใช้", "ສົ່ງຂໍ້ຄວາມ", "ផ្ញើសារទៅអ្នកប្រើ", "မက်ဆေ့ခ်ျပို့ပါ", "が\u3099き\u3099く"])
    def test_an_unspaced_script_is_cut_into_pairs_and_never_before_a_mark(self, text: str) -> None:
        from unicodedata import category

        pairs = words(text)
        assert len(pairs) > 1
        assert not [pair for pair in pairs if category(pair[0])[0] == "M"]

    def test_hangul_stands_whole_and_in_pairs(self) -> None:
        assert words("메시지를") == ["메시지를", "메시", "시지", "지를"]

    def test_what_people_leave_out_as_they_type_tells_words_apart_no_more(self) -> None:
        assert [bare(word) for word in ("facturación", "hủy", "رِسالَة", "ё", "फ़ाइल")] == [
            "facturacion",
            "huy",
            bare("رسالة"),
            "е",
            "फाइल",
        ]


class TestStopwords:
    @every("text", ["turn off the light", "supprimer fichier", "send the café menu", "x"])
    def test_a_text_is_english_unless_more_of_its_words_can_not_be(self, text: str) -> None:
        assert stopwords_of(text) is STOPWORDS

    @every("text", ["in hóa đơn", "zeige mir die Rechnungen", "liste des fichiers", "查天气"])
    def test_english_stop_words_say_something_in_another_language(self, text: str) -> None:
        assert stopwords_of(text) is not STOPWORDS


class TestNegatedClauses:
    @every("letter", ["y", "и", "请"])
    def test_words_that_may_lead_one_are_read_once_however_many_they_are(self, letter: str) -> None:
        text = letter * 400_000 + " never"  # read again from each letter it would take half an hour
        assert without_negated(text) == text

    @every(
        ("text", "left"),
        [
            ("never send mail, only read", "only read"),
            ("read the mail but don't delete it", "read the mail"),
            ("Don’t send anything; just list the mails", "just list the mails"),
            ("read it without sending", "read it "),
            ("keine Mails senden, nur lesen", "nur lesen"),
            ("n'envoie pas de mail, lis seulement", "lis seulement"),
            ("no enviar correos, solo leer", "solo leer"),
            ("не отправляй письма, только читай", "только читай"),
            ("不要发送邮件，只读取", "只读取"),
            ("メールを送信しないで、読むだけ", "読むだけ"),
            ("메일을 보내지 말고 읽기만", "읽기만"),
        ],
    )
    def test_what_is_not_to_be_done_is_left_out(self, text: str, left: str) -> None:
        assert without_negated(text) == left

    @every(
        "text",
        [
            "don't forget to send the mail",
            "no longer than 5",
            "do not send more than 5 mails",
            "the server does not start",
            "users that never logged in",
            "list users without a license",
            "why don't you send a mail",
            "no space left on device",
            "vergiss nicht, die Mail zu senden",
            "n'oublie pas d'envoyer le mail",
            "no olvides enviar el correo",
            "не забудь отправить письмо",
            "不要忘记发送邮件",
        ],
    )
    def test_what_is_only_put_with_a_not_stays(self, text: str) -> None:
        assert without_negated(text) == text

    @every("text", [" " * 8000 + "x", "don't " * 1400, "ohne " * 1600, "、" * 8000, "i! " * 2600, "please " * 1200])
    def test_a_long_text_is_read_at_once(self, text: str) -> None:
        started = time.process_time()
        without_negated(text)
        assert time.process_time() - started < 0.2


class TestWhatIsNoQuery:
    @every("text", ["*", " * ", "what tools are there", "Which tools do you have?", "有哪些工具"])
    def test_some_leaf_through_everything(self, text: str) -> None:
        assert asks_for_everything(text)

    @every("text", ["what tools read files", "list tools of the git server", "**/x", "tools", ""])
    def test_others_ask_for_something(self, text: str) -> None:
        assert not asks_for_everything(text)

    def test_a_letter_is_none_and_a_sign_or_a_chinese_one_is(self) -> None:
        assert [is_one_letter(text) for text in ("a", " 7 ", "é", "я", "查", "🚀", "go", "")] == [True] * 4 + [
            False
        ] * 4

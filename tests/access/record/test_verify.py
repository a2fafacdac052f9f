"""What is found of tampering: by the lines alone, and beside a head that was kept elsewhere."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.access.record.chain import Head, Report, read_line, write_line
from agent_utilities.errors import InputError
from tests.access.record.records import chain_text, of_file
from tests.every import every

N = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def put(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(lines))


def about(report: Report, chain: str) -> list[str]:
    """Return what was found, without where and of which chain."""
    return [text.rpartition(chain)[2].lstrip(": ") for text in report.tampering]


def anew(lines: list[bytes], at: int, old: bytes, new: bytes) -> list[bytes]:
    """Return the lines with one changed and all hashes from there on made anew, as a forger would."""
    out, head = lines[:at], None
    for text in lines[at:]:
        line = read_line(text.rstrip(b"\n"))
        assert line is not None
        before = Head(line.head.chain, line.head.number - 1, line.before) if head is None else head
        number = int(text.split(b'"number":')[1].split(b",")[0].rstrip(b"}"))
        fields = {"event": "forged" if head is None else "call", "number": number}
        forged, head = write_line(before, 1_780_000_000 + line.head.number, fields)
        out.append(forged)
    return out


class TestByItself:
    def test_a_whole_chain_shows_nothing(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, lines)
        report = of_file(path)
        assert (report.tampering, report.torn) == ([], [])
        assert [(chain.n_lines, chain.head) for chain in report.chains.values()] == [(N, heads[-1])]

    @every("at", [0, 7, N - 1])
    def test_a_changed_line_is_found(self, tmp_path: Path, at: int) -> None:
        path = tmp_path / "audit.jsonl"
        lines, heads = chain_text(N)
        lines[at] = lines[at].replace(b'"call"', b'"cell"')
        put(path, lines)
        assert about(of_file(path), heads[0].chain) == [f"line {at} was changed"]

    def test_any_byte_of_a_line_counts(self, path: Path) -> None:
        lines, _ = chain_text(3)
        for place in range(len(lines[1]) - 1):
            changed = bytearray(lines[1])
            changed[place] ^= 1
            put(path, [lines[0], bytes(changed), lines[2]])
            report = of_file(path)
            assert report.tampering, bytes(changed)

    def test_a_changed_line_whose_hash_was_made_anew_is_found_by_the_next(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, [*lines[:7], anew(lines, 7, b"", b"")[7], *lines[8:]])
        expected = ["line 8 does not follow from line 7: that was changed, and its hash made anew"]
        assert about(of_file(path), heads[0].chain) == expected

    def test_a_line_that_was_taken_out_is_found(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, lines[:7] + lines[8:])
        assert about(of_file(path), heads[0].chain) == ["line 7 is missing"]

    def test_lines_that_were_taken_out_at_the_beginning_are_found(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, lines[5:])
        assert about(of_file(path), heads[0].chain) == ["lines 0 to 4 are missing"]

    def test_a_moved_line_is_found(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, [*lines[:7], *lines[8:12], lines[7], *lines[12:]])
        assert about(of_file(path), heads[0].chain) == ["line 7 is missing", "line 7 was moved here, or put in"]

    def test_a_line_that_is_there_twice_is_found(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, [*lines[:7], lines[3], *lines[7:]])
        assert about(of_file(path), heads[0].chain) == ["line 3 was moved here, or put in"]

    def test_what_is_no_line_is_found(self, path: Path) -> None:
        lines, _ = chain_text(N)
        put(path, [*lines[:7], b'{"event":"call"}\n', *lines[7:]])
        assert [text.rpartition(": ")[2] for text in of_file(path).tampering] == ["a line was changed, or put in"]

    def test_a_line_of_another_chain_does_not_count_for_one(self, path: Path) -> None:
        lines, _ = chain_text(N)
        others, _ = chain_text(N)
        put(path, [line for pair in zip(lines, others, strict=True) for line in pair])
        report = of_file(path)
        assert (report.tampering, [chain.n_lines for chain in report.chains.values()]) == ([], [N, N])

    def test_a_cut_end_is_not_found(self, path: Path) -> None:
        lines, _ = chain_text(N)
        put(path, lines[:15])
        assert of_file(path).tampering == []

    def test_a_chain_that_was_written_anew_is_not_found(self, path: Path) -> None:
        lines, _ = chain_text(N)
        put(path, anew(lines, 7, b"", b""))
        assert of_file(path).tampering == []


class TestWithAHead:
    def test_a_chain_that_went_on_is_whole(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, lines)
        assert of_file(path, heads[12], heads[-1]).tampering == []

    @every(("left", "gone"), [(15, "lines 15 to 19"), (19, "line 19")])
    def test_a_cut_end_is_found(self, tmp_path: Path, left: int, gone: str) -> None:
        path = tmp_path / "audit.jsonl"
        lines, heads = chain_text(N)
        put(path, lines[:left])
        expected = [f"{gone} {'are' if 'to' in gone else 'is'} cut off, as its head shows, or it was written anew"]
        assert about(of_file(path, heads[-1]), heads[0].chain) == expected

    def test_a_last_line_that_was_changed_and_hashed_anew_is_found(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, anew(lines, N - 1, b"", b""))
        expected = [f"line {N - 1} is not that of its head: it, or what is before it, was written anew"]
        assert about(of_file(path, heads[-1]), heads[0].chain) == expected

    def test_a_chain_that_was_written_anew_is_found(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, anew(lines, 7, b"", b""))
        assert len(of_file(path, heads[-1]).tampering) == 1

    def test_a_head_from_before_the_change_shows_nothing(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, anew(lines, 7, b"", b""))
        assert of_file(path, heads[6]).tampering == []

    def test_a_head_of_far_more_lines_than_there_are_is_compared_at_once(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, lines)
        far = Head(heads[0].chain, 10**17, heads[-1].hash)
        assert f"lines 20 to {10**17} are cut off" in of_file(path, far).tampering[0]

    def test_a_chain_that_is_gone_is_found(self, path: Path) -> None:
        _, gone = chain_text(N)
        lines, _ = chain_text(N)
        put(path, lines)
        assert "all of it is taken out" in of_file(path, gone[-1]).tampering[0]


class TestPieces:
    @every("cut", [1, 30, 90, 200])
    def test_a_piece_at_the_end_is_told_and_is_no_tampering(self, tmp_path: Path, cut: int) -> None:
        path = tmp_path / "audit.jsonl"
        lines, _ = chain_text(N)
        put(path, [*lines[:15], lines[15][:cut]])
        report = of_file(path)
        assert (report.tampering, len(report.torn)) == ([], 1)

    def test_a_piece_is_named_by_its_chain(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, [*lines[:15], lines[15][:90]])
        what = f"chain {heads[0].chain}: line 15 is in pieces, as a kill or a full disk leaves it"
        assert of_file(path).torn == [f"{path}:16: {what}"]

    def test_a_head_shows_that_the_piece_was_once_whole(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, [*lines[:15], lines[15][:90]])
        assert "line 15 is cut off" in of_file(path, heads[15]).tampering[0]

    def test_a_piece_with_lines_after_it_is_missing(self, path: Path) -> None:
        lines, heads = chain_text(N)
        put(path, [*lines[:15], lines[15][:90] + b"\n", *lines[16:]])
        assert about(of_file(path), heads[0].chain) == ["line 15 is missing"]

    def test_zeros_that_a_lost_disk_leaves_are_no_tampering(self, path: Path) -> None:
        lines, _ = chain_text(N)
        put(path, [*lines, bytes(100)])
        assert (of_file(path).tampering, len(of_file(path).torn)) == ([], 1)

    def test_a_piece_that_ends_with_an_argument_is_no_tampering(self, path: Path) -> None:
        lines, _ = chain_text(3, arguments={"a": {"b": "c"}}, bytes=7)
        end = lines[2].index(b'"}},"bytes"')
        for kept in (2, 3):
            put(path, [*lines[:2], lines[2][: end + kept]])
            assert (of_file(path).tampering, len(of_file(path).torn)) == ([], 1)

    def test_a_line_with_an_end_of_ones_own_is_no_piece(self, path: Path) -> None:
        lines, _ = chain_text(3)
        put(path, [*lines[:2], b'{"chain":"x' + lines[2][10:]])
        assert (len(of_file(path).tampering), of_file(path).torn) == (1, [])


class TestWhetherAChainHasEnded:
    def ended(self, path: Path, **fields: Any) -> list[bool]:
        lines, _ = chain_text(3, **fields)
        put(path, lines)
        report = of_file(path)
        assert report.tampering == []
        return [chain.has_ended for chain in report.chains.values()]

    def test_is_told_by_the_event_of_its_last_line(self, path: Path) -> None:
        assert self.ended(path, event="closed") == [True]

    @every(
        "fields",
        [
            {},
            {"arguments": {"event": "closed"}},
            {"arguments": {"v": [{"event": "closed"}]}},
            {"reason": '"event":"closed"'},
            {"event": "closed "},
            {"event": ["closed"]},
            {"Event": "closed"},
            {"event": {"event": "closed"}},
        ],
    )
    def test_is_not_told_by_what_a_caller_wrote(self, tmp_path: Path, fields: dict[str, Any]) -> None:
        path = tmp_path / "audit.jsonl"
        assert self.ended(path, **fields) == [False]

    def test_is_not_told_by_a_line_before_its_last(self, path: Path) -> None:
        head, lines = Head.of_new_chain(), []
        for event in ("closed", "call"):
            line, head = write_line(head, 1_780_000_000, {"event": event})
            lines.append(line)
        put(path, lines)
        assert [chain.has_ended for chain in of_file(path).chains.values()] == [False]

    @every("inside", [b'"event":"closed"x', b'"event":"closed","a":' + b"[" * 100_000, b"\xff"])
    def test_is_not_told_by_a_line_that_is_no_json(self, tmp_path: Path, inside: bytes) -> None:
        path = tmp_path / "audit.jsonl"
        text = b'{"chain":"%s","n":0,"prev":"%s","at":"now",%s' % (b"0" * 16, b"0" * 64, inside)
        put(path, [b'%s,"hash":"%s"}\n' % (text, sha256(text).hexdigest().encode())])
        assert [chain.has_ended for chain in of_file(path).chains.values()] == [False]


class TestHead:
    def test_is_read_as_it_is_printed(self) -> None:
        head = chain_text(3)[1][-1]
        assert Head.read(f" {head}\n", "option --head") == head

    @every("text", ["", "a:1:b", f"{'0' * 16}:-1:{'0' * 64}", f"{'0' * 16}:1:{'0' * 63}"])
    def test_another_text_is_refused(self, text: str) -> None:
        with pytest.raises(InputError, match="not a head"):
            Head.read(text, "option --head")

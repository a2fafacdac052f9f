"""kill -9 while three processes record 500 calls a second in one file: nothing that was told as written is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest

from agent_utilities.access.record.log import all_files, full_files
from tests.access.record.records import of_file
from tests.usage.test_log_kill import wait_for

ROOT = Path(__file__).parents[3]
N_PROCESSES = 3
CALLS_PER_S = 500
N_CALLS = 120
"""That a process has recorded at least when it is killed."""

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]


def told(output: Path) -> list[int]:
    return [int(line) for line in output.read_text().splitlines(keepends=True) if line.endswith("\n")]


def has_recorded(output: Path, n: int) -> bool:
    return len(told(output)) >= n


@pytest.mark.parametrize("n_rounds", [2, pytest.param(25, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])])
def test_a_chain_is_whole_up_to_where_its_process_was_killed(tmp_path: Path, n_rounds: int) -> None:
    path, random, outputs = tmp_path / "audit.jsonl", Random(n_rounds), []
    for number in range(n_rounds):
        running: list[tuple[Path, subprocess.Popen[bytes]]] = []
        try:
            for of_round in range(N_PROCESSES):
                output = tmp_path / f"{number}-{of_round}.txt"
                command = [sys.executable, "-m", "tests.access.record.record_victim", str(path)]
                with output.open("wb") as file:
                    process = subprocess.Popen([*command, str(CALLS_PER_S / N_PROCESSES)], cwd=ROOT, stdout=file)
                running.append((output, process))
            for output, process in running:
                wait_for(partial(has_recorded, output, random.randint(N_CALLS, 2 * N_CALLS)))
                process.kill()
        finally:
            for _, process in running:
                process.kill()
                process.wait()
        outputs += [output for output, _ in running]
    report = of_file(path)
    assert report.tampering == []
    assert len(report.torn) <= len(outputs)
    assert len(report.chains) == len(outputs)
    assert not any(chain.has_ended for chain in report.chains.values())
    written: dict[str, set[int]] = {}
    for file in all_files(path):
        for text in file.read_bytes().splitlines():
            if text.endswith(b'"}') and (line := json.loads(text))["event"] == "call":
                written.setdefault(line["chain"], set()).add(line["number"])
    n_lost = [min(len(set(told(output)) - numbers) for numbers in written.values()) for output in outputs]
    print(f"{len(outputs)} processes killed, {len(full_files(path))} full files, {len(report.torn)} lines in pieces")
    assert n_lost == [0] * len(outputs)


def test_a_line_that_is_cut_where_a_process_was_killed_is_told(tmp_path: Path) -> None:
    path, output = tmp_path / "audit.jsonl", tmp_path / "output.txt"
    command = [sys.executable, "-m", "tests.access.record.record_victim", str(path), str(CALLS_PER_S)]
    with output.open("wb") as file, subprocess.Popen(command, cwd=ROOT, stdout=file) as process:
        try:
            wait_for(partial(has_recorded, output, 20))
        finally:
            process.kill()
    head = next(iter(of_file(path).chains.values())).head
    path.write_bytes(path.read_bytes()[:-40])
    report = of_file(path)
    assert (report.tampering, len(report.torn)) == ([], 1)
    assert head is not None
    assert len(of_file(path, head).tampering) == 1

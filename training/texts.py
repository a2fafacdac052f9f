"""Requests and the tools that answer them, read from packages whose licences allow it.

Nothing of a set that this project is measured on is among them: no Azure, no metatool, no LiveMCPBench.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_utilities.catalog.document import ToolDocument, first_sentence, split_identifier

PACKAGES = {
    "awscli": ("1.46.3", "Apache-2.0"),
    "botocore": ("1.44.8", "Apache-2.0"),
    "bfcl-eval": ("2026.3.23", "Apache-2.0"),
}
"""What is read, with the version and its licence."""

N_REQUESTS = 6
"""The most that are kept of one tool."""
_N_PARAMETERS = 12
_N_DESCRIPTION = 600
_N_WORDS = range(3, 41)
_N_CALLS = 3
"""The most that a turn of a conversation calls: one that calls more says of none what it does."""
_FUNCTION_SETS = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool and requests that it answers.

    Args:
        source: the package it comes from.
        group: the tools it is told apart from first.
        document: what a ranker reads of it.
        requests: in people's words.
    """

    source: str
    group: str
    document: ToolDocument
    requests: tuple[str, ...]


def fetch(folder: Path) -> dict[str, Path]:
    """Return the wheel of each package, downloaded to a folder where it is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    wheels = {}
    for package, (version, _) in PACKAGES.items():
        pattern = f"{package.replace('-', '_')}-{version}-*.whl"
        if not list(folder.glob(pattern)):
            pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, "--only-binary", ":all:", "-d", folder, f"{package}=={version}"], check=True)
        wheels[package] = next(folder.glob(pattern))
    return wheels


def read(wheels: Mapping[str, Path]) -> list[Asked]:
    """Return all tools that have requests, in one order: the same from the same wheels."""
    operations = _aws_operations(wheels["botocore"])
    tools = [
        *_of_aws(operations, _titles_of_awscli(wheels["awscli"]), "awscli"),
        *_of_aws(operations, _titles_of_botocore(wheels["botocore"]), "botocore"),
        *_of_functions(wheels["bfcl-eval"]),
        *_of_conversations(wheels["bfcl-eval"]),
    ]
    return [each for each in map(_without_giveaways, tools) if each.requests]


def _without_giveaways(asked: Asked) -> Asked:
    """Return a tool without the requests that are its first sentence, or have all of its name as it stands."""
    document = asked.document
    told = _plain(first_sentence(document.description))
    name = split_identifier(document.name).lower()
    kept = [text for text in asked.requests if _plain(text) != told and name not in text.lower()]
    kept = [text for text in dict.fromkeys(kept) if len(text.split()) in _N_WORDS]
    return Asked(asked.source, asked.group, document, tuple(kept[:N_REQUESTS]))


def _plain(text: str) -> str:
    return text.lower().rstrip(". ")


def _document(name: str, description: str, parameters: Iterable[str], server: str) -> ToolDocument:
    names = tuple((each, "") for each in list(parameters)[:_N_PARAMETERS])
    return ToolDocument(name, description=description[:_N_DESCRIPTION], parameters=names, server=server)


def _json(wheel: zipfile.ZipFile, name: str) -> Any:
    content = wheel.read(name)
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


_TAG = re.compile(r"<[^>]+>")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SERVICE = re.compile(r"botocore/data/([^/]+)/[^/]+/service-2\.json(?:\.gz)?")
_SERVICE_EXAMPLES = re.compile(r"botocore/data/([^/]+)/[^/]+/examples-1\.json(?:\.gz)?")
_COMMAND_EXAMPLES = re.compile(r"awscli/examples/([^/]+)/([^/]+)\.rst")
_TITLE = re.compile(r"^\*\*(.+?)\*\*\s*$", re.MULTILINE)
_TITLE_NUMBER = re.compile(r"``|^Example \d+: ")
Operation = tuple[str, str]


def _words(text: str) -> str:
    return " ".join(_TAG.sub(" ", text).split())


def _command(operation: str) -> str:
    return _HUMP.sub("_", operation).lower()


def _request(title: str) -> str:
    return re.sub(r"^To ", "", _words(_TITLE_NUMBER.sub("", title)))


def _aws_operations(path: Path) -> dict[Operation, ToolDocument]:
    """Return the newest description of each operation, by service and name."""
    operations = {}
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if not (found := _SERVICE.fullmatch(name)):
                continue
            model = _json(wheel, name)
            for operation, told in model["operations"].items():
                shape = model["shapes"].get(told.get("input", {}).get("shape"), {})
                key = found[1], _command(operation)
                members = shape.get("members", {})
                operations[key] = _document(key[1], _words(told.get("documentation", "")), members, found[1])
    return operations


def _titles_of_awscli(path: Path) -> dict[Operation, list[str]]:
    titles = {}
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if found := _COMMAND_EXAMPLES.fullmatch(name):
                text = wheel.read(name).decode()
                titles[found[1], found[2].replace("-", "_")] = [_request(title) for title in _TITLE.findall(text)]
    return titles


def _titles_of_botocore(path: Path) -> dict[Operation, list[str]]:
    titles: defaultdict[Operation, list[str]] = defaultdict(list)
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if found := _SERVICE_EXAMPLES.fullmatch(name):
                for operation, examples in _json(wheel, name)["examples"].items():
                    texts = [_request(each.get("title", "")) for each in examples]
                    titles[found[1], _command(operation)] += texts
    return titles


def _of_aws(
    operations: Mapping[Operation, ToolDocument], titles: Mapping[Operation, Sequence[str]], source: str
) -> Iterator[Asked]:
    for operation, texts in titles.items():
        if document := operations.get(operation):
            yield Asked(source, f"aws.{operation[0]}", document, tuple(texts))


def _of_functions(path: Path) -> Iterator[Asked]:
    """Yield functions, with the requests that they are known to answer."""
    described: dict[tuple[str, str], tuple[str, ToolDocument]] = {}
    requests = defaultdict(list)
    with zipfile.ZipFile(path) as wheel:
        for name in _FUNCTION_SETS:
            answers = {row["id"]: row["ground_truth"] for row in _rows(wheel, f"possible_answer/BFCL_v4_{name}.json")}
            for row in _rows(wheel, f"BFCL_v4_{name}.json"):
                called = {function for call in answers.get(row["id"], ()) for function in call}
                said = " ".join(turn["content"] for turn in row["question"][0] if turn["role"] == "user")
                for function in row["function"]:
                    if function["name"] in called:
                        key = function["name"], function["description"]
                        parameters = function.get("parameters", {}).get("properties", {})
                        document = _document(function["name"], key[1], parameters, "")
                        described.setdefault(key, (name.partition("_")[0], document))
                        requests[key].append(" ".join(said.split()))
    for key, (group, document) in described.items():
        yield Asked("bfcl-eval", f"functions.{group}", document, tuple(requests[key]))


_CALL = re.compile(r"(\w+)\(")
_FUNCTION_DOCUMENT = re.compile(r"bfcl_eval/data/(multi_turn_func_doc/.+\.json)")
_TOLD_OF_ALL = re.compile(r"^This tool belongs to .*?Tool description: ", re.DOTALL)


def _of_conversations(path: Path) -> Iterator[Asked]:
    """Yield the functions of conversations, with what people say before they are called: often for two at once."""
    requests = defaultdict(list)
    described: defaultdict[str, dict[str, ToolDocument]] = defaultdict(dict)
    with zipfile.ZipFile(path) as wheel:
        for file in filter(None, map(_FUNCTION_DOCUMENT.fullmatch, sorted(wheel.namelist()))):
            for function in _rows(wheel, file[1]):
                parameters = function["parameters"]["properties"]
                description = _TOLD_OF_ALL.sub("", function["description"])
                described[function["name"]][file[1]] = _document(function["name"], description, parameters, "")
        set_name = "BFCL_v4_multi_turn_base.json"
        answers = {row["id"]: row["ground_truth"] for row in _rows(wheel, f"possible_answer/{set_name}")}
        for row in _rows(wheel, set_name):
            for turn, calls in zip(row["question"], answers[row["id"]], strict=True):
                called = dict.fromkeys(call[1] for call in map(_CALL.match, calls) if call)
                said = " ".join(message["content"] for message in turn if message["role"] == "user")
                for name in called if len(called) <= _N_CALLS else ():
                    requests[name].append(" ".join(said.split()))
    for name, texts in requests.items():
        if len(described[name]) == 1:  # of those that two systems have it can't be told which is called
            (document,) = described[name].values()
            for start in range(0, len(texts), N_REQUESTS):
                yield Asked("bfcl-eval", "functions.turns", document, tuple(texts[start : start + N_REQUESTS]))


def _rows(wheel: zipfile.ZipFile, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in wheel.read(f"bfcl_eval/data/{name}").splitlines() if line]

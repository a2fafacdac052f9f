"""Twelve tasks over real servers, each with the program that a model would write, and the files that they are about.

The programs are Python as it is, too: `programs.py` runs each a second time with one call a turn, to count what those
put into a prompt. No program makes more calls than one may, 100; the task of 190 files takes two.
"""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

SERVERS = ("filesystem", "git", "memory", "everything", "time")
N_COMMITS, N_LOGS, N_MODULES = 200, 190, 40
_AUTHORS = ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Edsger Dijkstra", "Barbara Liskov")
_CODES = ("E101 disk full", "E202 timed out", "E303 refused", "E404 no such record")
_WORDS = "reader parser writer index cache queue lock page block entry token field value table graph node edge".split()
_ROOT = "ROOT"
"""What stands in the programs for the folder of the files."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task.

    Args:
        programs: that do it, one after another.
    """

    name: str
    programs: tuple[str, ...]

    def at(self, root: Path) -> tuple[str, ...]:
        """Return the programs for the files of a folder."""
        return tuple(each.strip().replace(_ROOT, str(root)) for each in self.programs)


_SIZES = """
import asyncio
found = await filesystem_search_files(path="ROOT/logs", pattern="PART*.log")
paths = found["content"].splitlines()
infos = await asyncio.gather(*[filesystem_get_file_info(path=path) for path in paths])
sizes = [int(info["content"].splitlines()[0].removeprefix("size: ")) for info in infos]
{"files": len(sizes), "bytes": sum(sizes), "largest": paths[sizes.index(max(sizes))]}
"""

TASKS = (
    Task(
        "TODOs in 40 files",
        (
            """
import asyncio
paths = (await filesystem_search_files(path="ROOT/src", pattern="**/*.py"))["content"].splitlines()
files = await asyncio.gather(*[filesystem_read_text_file(path=path) for path in paths])
counts = {path.split("/")[-1]: file["content"].count("TODO") for path, file in zip(paths, files)}
sorted(((n, name) for name, n in counts.items()), reverse=True)[:5], sum(counts.values())
""",
        ),
    ),
    Task("sizes of 190 files", tuple(_SIZES.replace("PART", part) for part in ("0", "1"))),
    Task(
        "commits by author, 200 by pages",
        (
            """
from collections import Counter
from datetime import datetime, timedelta
authors, until = Counter(), "2030-01-01"
while True:
    page = await git_git_log(repo_path="ROOT", max_count=20, end_timestamp=until)
    lines = page.splitlines()
    names = [line[8:] for line in lines if line.startswith("Author: ")]
    if not names:
        break
    authors.update(names)
    last = [line[6:] for line in lines if line.startswith("Date: ")][-1]
    until = (datetime.fromisoformat(last) - timedelta(seconds=1)).isoformat()
dict(authors)
""",
        ),
    ),
    Task(
        "owners of what 30 commits changed",
        (
            """
import asyncio, re
log = await git_git_log(repo_path="ROOT", max_count=30)
shas = re.findall("Commit: ([0-9a-f]+)", log)
shown = await asyncio.gather(*[git_git_show(repo_path="ROOT", revision=sha) for sha in shas])
changed = sorted({path for text in shown for path in re.findall(r"[+]{3} b/(\\S+)", text)})
files = await asyncio.gather(*[filesystem_read_text_file(path="ROOT/" + path, head=5) for path in changed])
owners = {}
for path, file in zip(changed, files):
    owner = re.findall("owner: (.+)", file["content"])[0]
    owners[owner] = owners.get(owner, 0) + 1
owners
""",
        ),
    ),
    Task(
        "a tree of 60 folders",
        (
            """
from collections import Counter
kinds, deepest, folders = Counter(), "", ["ROOT/docs"]
while folders:
    folder = folders.pop()
    for line in (await filesystem_list_directory(path=folder))["content"].splitlines():
        kind, name = line.split(" ", 1)
        if kind == "[DIR]":
            folders.append(f"{folder}/{name}")
            deepest = max(deepest, folders[-1], key=lambda path: path.count("/"))
        else:
            kinds[name.split(".")[-1]] += 1
{"kinds": dict(kinds), "deepest": deepest}
""",
        ),
    ),
    Task(
        "a graph of 40 modules in memory",
        (
            """
import asyncio, re
paths = (await filesystem_search_files(path="ROOT/src", pattern="**/*.py"))["content"].splitlines()
files = await asyncio.gather(*[filesystem_read_text_file(path=path, head=12) for path in paths])
names = [path.split("/")[-1][:-3] for path in paths]
entities, relations = [], []
for name, file in zip(names, files):
    owner = re.findall("owner: (.+)", file["content"])[0]
    entities.append({"name": name, "entityType": "module", "observations": ["owner " + owner]})
    for other in re.findall("import (module_[0-9]+)", file["content"]):
        relations.append({"from": name, "to": other, "relationType": "imports"})
await memory_create_entities(entities=entities)
await memory_create_relations(relations=relations)
found = await asyncio.gather(*[memory_open_nodes(names=[name]) for name in names])
users = {name: sum(r["to"] == name for r in each["relations"]) for name, each in zip(names, found)}
most = max(names, key=lambda name: users[name])
await memory_delete_entities(entityNames=names)
{"used most": most, "by": users[most]}
""",
        ),
    ),
    Task(
        "a meeting in 20 time zones",
        (
            """
import asyncio
zones = [
    "America/Los_Angeles", "America/Denver", "America/Chicago", "America/New_York", "America/Sao_Paulo",
    "Atlantic/Azores", "Europe/London", "Europe/Berlin", "Europe/Athens", "Africa/Nairobi", "Asia/Dubai",
    "Asia/Karachi", "Asia/Kolkata", "Asia/Dhaka", "Asia/Bangkok", "Asia/Shanghai", "Asia/Tokyo",
    "Australia/Sydney", "Pacific/Auckland", "Pacific/Honolulu",
]
times = await asyncio.gather(
    *[time_convert_time(source_timezone="UTC", time="14:00", target_timezone=zone) for zone in zones]
)
[each["target"]["timezone"] for each in times if 9 <= int(each["target"]["datetime"][11:13]) < 18]
""",
        ),
    ),
    Task(
        "sales of 30 days by product",
        (
            """
import asyncio
paths = (await filesystem_search_files(path="ROOT/sales", pattern="*.csv"))["content"].splitlines()
files = await asyncio.gather(*[filesystem_read_text_file(path=path) for path in paths])
totals = {}
for file in files:
    for line in file["content"].splitlines()[1:]:
        _, product, n, cents = line.split(",")
        totals[product] = totals.get(product, 0) + int(n) * int(cents)
totals
""",
        ),
    ),
    Task(
        "versions in 25 manifests",
        (
            """
import asyncio, json
paths = (await filesystem_search_files(path="ROOT/services", pattern="**/package.json"))["content"].splitlines()
files = await asyncio.gather(*[filesystem_read_text_file(path=path) for path in paths])
manifests = [json.loads(file["content"]) for file in files]
[each["name"] for each in manifests if each["dependencies"]["express"].startswith("4.")]
""",
        ),
    ),
    Task(
        "errors at the end of 95 logs",
        (
            """
import asyncio, re
from collections import Counter
paths = (await filesystem_search_files(path="ROOT/logs", pattern="0*.log"))["content"].splitlines()
tails = await asyncio.gather(*[filesystem_read_text_file(path=path, tail=20) for path in paths])
dict(Counter(code for tail in tails for code in re.findall("ERROR (E[0-9]+)", tail["content"])))
""",
        ),
    ),
    Task(
        "summaries of 20 modules, written",
        (
            """
import asyncio, re
names = [f"module_{i}" for i in range(20)]
files = await asyncio.gather(*[filesystem_read_text_file(path=f"ROOT/src/{name}.py") for name in names])
async def write(name, text):
    functions = re.findall("def ([a-z_0-9]+)", text)
    lines = [f"# {name}", re.findall("owner: .+", text)[0], *[f"- {each}" for each in functions]]
    await filesystem_write_file(path=f"ROOT/out/{name}.md", content="\\n".join(lines))
    return len(functions)
sum(await asyncio.gather(*[write(name, file["content"]) for name, file in zip(names, files)]))
""",
        ),
    ),
    Task(
        "the weather of three cities",
        (
            """
cities = ["New York", "Chicago", "Los Angeles"]
seen = {city: await everything_get_structured_content(location=city) for city in cities}
pair = await everything_get_sum(a=seen["New York"]["temperature"], b=seen["Chicago"]["temperature"])
both = float(pair.split()[-1].strip("."))
whole = await everything_get_sum(a=both, b=seen["Los Angeles"]["temperature"])
{"warmest": max(cities, key=lambda city: seen[city]["temperature"]), "sum": whole}
""",
        ),
    ),
)


def make_files(root: Path) -> None:
    """Write the files that the tasks are about, the same ones each time: a history, logs, tables and manifests."""
    draw = random.Random(11)
    _git(root, "init", "-q", "-b", "main")
    _git(root, "fast-import", "--quiet", stdin=_history(draw))
    _git(root, "reset", "-q", "--hard", "main")
    for i in range(N_LOGS):
        said = (f"ERROR {draw.choice(_CODES)}" if n % 7 == i % 7 else "INFO ok" for n in range(draw.randrange(60, 240)))
        lines = (f"2026-03-01T08:{n // 60:02}:{n % 60:02}Z {text}" for n, text in enumerate(said))
        _write(root / "logs" / f"{i // 95}{i:03}.log", "\n".join(lines))
    for day in range(30):
        rows = (
            f"{day:02}-{n:03},{draw.choice(_WORDS[:8])},{draw.randrange(1, 9)},{draw.randrange(100, 9_999)}"
            for n in range(80)
        )
        _write(root / "sales" / f"day_{day:02}.csv", "\n".join(["order,product,n,cents", *rows]))
    for i, service in enumerate(f"{one}-{other}" for one in _WORDS[:5] for other in _WORDS[5:10]):
        named = {name: f"{draw.randrange(1, 9)}.{draw.randrange(20)}.0" for name in ("zod", "pino", "undici", *_WORDS)}
        manifest = {"name": service, "version": "1.0.0", "scripts": {"start": "node dist/index.js", "test": "vitest"}}
        manifest |= {"dependencies": {**named, "express": "4.19.2" if i % 6 == 2 else "5.1.0"}}
        _write(root / "services" / service / "package.json", json.dumps(manifest, indent=2))
    for i in range(60):
        folder = root / "docs" / "/".join(f"part_{digit}" for digit in f"{i:03b}"[: 1 + i % 6]) / f"chapter_{i}"
        for n in range(draw.randrange(4, 16)):
            _write(folder / f"{draw.choice(_WORDS)}_{n}.{draw.choice(('md', 'rst', 'png', 'svg'))}", "")
    (root / "out").mkdir()


def _history(draw: random.Random) -> bytes:
    """Return commits as `git fast-import` reads them: the first adds the modules, others change one."""
    modules = {f"src/module_{i}.py": _module(i, draw) for i in range(N_MODULES)}
    commits = []
    for i in range(N_COMMITS):
        changed = modules if i == 0 else {path: modules[path] for path in [draw.choice(sorted(modules))]}
        if i:
            path = next(iter(changed))
            changed = {path: f"{changed[path]}\n\ndef added_{i}(value: int) -> int:\n    return value + {i}\n"}
            modules |= changed
        author = draw.choice(_AUTHORS)
        message = f"{draw.choice(('Mend', 'Extend', 'Shorten'))} the {draw.choice(_WORDS)} of the {draw.choice(_WORDS)}"
        email = author.split()[0].lower() + "@example.org"
        head = f"commit refs/heads/main\ncommitter {author} <{email}> {1767225600 + 3600 * i} +0000\n"
        commits.append(f"{head}data {len(message)}\n{message}\n")
        commits += [f"M 100644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in changed.items()]
    return "".join(commits).encode()


def _module(i: int, draw: random.Random) -> str:
    imports = "".join(f"import module_{draw.randrange(N_MODULES)}\n" for _ in range(3))
    functions = "".join(
        f"\n\ndef {draw.choice(_WORDS)}_{n}(value: int, scale: int = {n}) -> int:\n"
        f'    """Return the {draw.choice(_WORDS)} of a {draw.choice(_WORDS)}, scaled."""\n'
        + ("    # TODO: bound the value\n" if draw.random() < 0.2 else "")
        + f"    return value * scale + {draw.randrange(1_000)}\n"
        for n in range(12)
    )
    return f'"""Module {i}."""\n# owner: {_AUTHORS[i % len(_AUTHORS)]}\n{imports}{functions}'


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _git(root: Path, *arguments: str, stdin: bytes = b"") -> None:
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", *arguments], cwd=root, input=stdin, check=True, capture_output=True)

"""Generated catalogs and selections, and the plain reading of the contract that the laws are checked against.

Selections are generated as text and read by the real readers, so that a law covers parsing too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlencode

from hypothesis import strategies as st

from agent_utilities.catalog.model import Catalog, Entry, entry
from agent_utilities.selection.channels import FIELDS, META_KEY, Field
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import CHANNELS, WRITTEN, Channel, FieldName, Selection
from agent_utilities.selection.parse import read_cli, read_env, read_meta, read_request
from agent_utilities.selection.profiles import FileChannel, FileFields, SettingsFiles, read_fields
from tests.resolutions import answer_of

NAMES = [
    "git_log",
    "Git_Push",
    "git_push",
    "ls",
    "rm",
    "rm_all",
    "straße",
    "ﬁle",
    "file",
    "İstanbul",
    "x.y",
    "日本",
    "\u01f0_log",
    "\u0390_log",
]
TAGS = ["read", "write", "Delete", "git", "fs", "ls", "ﬁle"]
PATTERNS = [
    *NAMES,
    *TAGS,
    "GIT_LOG",
    "git*",
    "*push",
    "*i*",
    "r*l",
    "**",
    "*",
    "all",
    "none",
    "nonesuch",
    "STRASSE",
    "J\u030c_LOG",
    "\u03aa\u0301_LOG",
]
FOLDED = {
    "Git_Push": "git_push",
    "GIT_LOG": "git_log",
    "Delete": "delete",
    "straße": "strasse",
    "STRASSE": "strasse",
    "ﬁle": "file",
    "İstanbul": "i\u0307stanbul",
    "\u01f0_log": "\u01f0_log",
    "J\u030c_LOG": "\u01f0_log",
    "\u0390_log": "\u0390_log",
    "\u03aa\u0301_LOG": "\u0390_log",
}
"""The form under which those compare that are not in it already, written out so that it is not the code's own."""

entries = st.builds(
    lambda name, tags, read_only, version, destructive: entry(
        "tool", name, tags=tags, read_only=read_only, version=version, destructive=destructive
    ),
    st.sampled_from(NAMES),
    st.sets(st.sampled_from(TAGS), max_size=3),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, None, "1", "2"]),
    st.booleans(),
)
catalogs = st.lists(entries, max_size=8).map(lambda found: Catalog(tuple(found)))
name_lists = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3).map(",".join)
resolutions = st.builds(
    answer_of,
    st.sampled_from(["off", "fresh", "stale", "ranked", "no_match", "unavailable"]),
    st.lists(st.sampled_from([*NAMES, "gone"]), max_size=6, unique=True).map(tuple),
)


PROFILES: dict[FileChannel, dict[str, dict[str, str]]] = {
    "file": {
        "review": {"tools": "git*,ls", "read-only": "true", "disabled_tags": "write"},
        "Straße": {"toolsets": "git,fs", "disabled-tools": "rm*", "read_only": "false"},
        "open": {"tools": "all", "tags": "all", "read_only": "false", "tool_search": "on", "pin": "rm"},
        "shut": {"tools": "none"},
        "safe": {"no-destructive": "true"},
        "empty": {},
    },
    "project": {
        "review": {"tools": "*", "disabled_toolsets": "git_push", "q": "logs", "top_k": "2"},
        "lean": {"tags": "read,git", "disabled_tags": "Delete", "read_only": "true"},
        "open": {"enabled-tools": "*i*", "tool-search": "off"},
    },
}
"""The profiles of the user's file and of the project's, as a person writes them."""
PROFILE_NAMES = ["review", "REVIEW", "Straße", "STRASSE", "open", "shut", "safe", "empty", "lean", "none"]


@dataclass(frozen=True)
class Spelled:
    """One setting as a person writes it."""

    channel: Channel
    key: str
    text: str


@dataclass
class Asked:
    """The plain reading of a field in a channel: patterns by name, patterns by name or tag, or everything."""

    names: set[str] = field(default_factory=set)
    toolsets: set[str] = field(default_factory=set)
    everything: bool = False


@st.composite
def settings_in(draw: st.DrawFn, channels: tuple[Channel, ...] = WRITTEN) -> Spelled:
    """One setting in one of some channels, by any of its spellings."""
    channel = draw(st.sampled_from(channels))
    row = draw(st.sampled_from([row for row in FIELDS if channel in row.channels]))
    key = draw(st.sampled_from(row.spellings(channel)))
    if row.kind in ("names", "tags"):
        text = draw(name_lists)
    elif row.kind == "flag":
        text = draw(st.sampled_from(["true", "false", "1", "0", "ON"]))
    elif row.kind in ("count", "number"):
        text = str(draw(st.integers(1, 9)))
    elif row.kind in ("threshold", "budget"):
        own = ("on", "auto:2") if row.kind == "threshold" else ("200", "20000")
        text = draw(st.sampled_from(["off", "auto", *own]))
    elif row.kind == "active":
        text = draw(st.sampled_from(["git_log", "git_log,tail_log", "+git_log;turns=1;of=01234567"]))
    elif row.kind == "capabilities":
        text = draw(st.sampled_from(["git", "git,browser", "none"]))
    elif row.kind == "profile":
        text = draw(st.sampled_from(PROFILE_NAMES))
    else:
        text = draw(st.sampled_from(["logs", "git history", "日本"]))
    if channel in ("query", "file", "project"):
        key = draw(st.sampled_from([key, key.upper(), key.replace("_", "-")]))
    elif channel == "header":
        key = draw(st.sampled_from([key, key.title()]))
    return Spelled(channel, key, text)


def spelled_lists(*channels: Channel) -> st.SearchStrategy[list[Spelled]]:
    """Lists of settings in some channels; in env, files and `_meta` a key stands once, and a profile in any channel."""
    found = st.lists(settings_in(channels or WRITTEN), max_size=6)
    return found.map(lambda given: [s for i, s in enumerate(given) if not _again(given, i)])


def _again(given: list[Spelled], i: int) -> bool:
    same = [s for s in given[:i] if s.channel == given[i].channel]
    if given[i].channel in ("env", "meta", "file", "project") and any(given[i].key == s.key for s in same):
        return True
    return _is_profile(given[i]) and any(map(_is_profile, same))


def _is_profile(setting: Spelled) -> bool:
    return _plain_key(setting.key).endswith("profile")


def read(given: list[Spelled]) -> Selection:
    """Read settings by the real readers of their channels, the profiles that they name taken in."""
    by = {channel: [(s.key, s.text) for s in given if s.channel == channel] for channel in WRITTEN}
    files = tuple(_file(dict(by[channel]), channel) for channel in PROFILES)
    headers = tuple((key.lower().encode(), value.encode()) for key, value in by["header"])
    request = read_request(urlencode(by["query"]).encode(), headers)
    operator = merge(*(file.selection for file in files), read_env(dict(by["env"])), read_cli(by["cli"]))
    caller = merge(request, read_meta({META_KEY: dict(by["meta"])}))
    profiles = SettingsFiles(files)
    return merge(profiles.for_operator(operator), profiles.for_caller(caller))


def _file(table: dict[str, str], channel: FileChannel) -> FileFields:
    return read_fields({**table, "profiles": PROFILES[channel]}, f"{channel}.toml", channel, ())


def with_profiles(given: list[Spelled]) -> list[Spelled]:
    """Return settings with what the profiles they name come to, by the words of the contract, channel by channel."""
    named = {s.channel: _folded_profile(s.text) for s in given if _is_profile(s)}
    own = [s for s in given if not _is_profile(s)]
    launched = named.get("cli") or named.get("env")
    of_user = launched or named.get("file")
    of_project = launched or named.get("project") or named.get("file")
    user = _profile("file", of_user)
    project = _profile("project", of_project)
    if of_project != of_user:  # the project's file chose it: what the user's file says of it is as if written there
        project = _over(_profile("file", of_project), project)
    own = (
        _over([s for s in own if s.channel == "file"], _in("file", user))
        + _over([s for s in own if s.channel == "project"], _in("project", project))
        + [s for s in own if s.channel not in PROFILES]
    )
    for name in {named[c] for c in ("file", "project", "env", "cli") if c in named}:
        own += [s for c in PROFILES for s in _in(c, _profile(c, name)) if _is_deny(s)]
    callers = [named[c] for c in ("query", "header", "meta") if c in named]
    for i, name in enumerate(callers):
        for file, channel in (("file", "profile"), ("project", "project_profile")):
            held = _in(channel, _profile(file, name))  # type: ignore[arg-type]
            own += [s for s in held if i == len(callers) - 1 or _is_deny(s)]
    return own


def _profile(file: FileChannel, name: str | None) -> list[Spelled]:
    table = {_folded_profile(title): fields for title, fields in PROFILES[file].items()}.get(name or "none", {})
    return [Spelled(file, key, text) for key, text in table.items()]


def _in(channel: Channel, settings: list[Spelled]) -> list[Spelled]:
    return [Spelled(channel, s.key, s.text) for s in settings]


def _over(lower: list[Spelled], upper: list[Spelled]) -> list[Spelled]:
    replaced = {_field(s) for s in upper if not _is_deny(s)}
    return [s for s in lower if _field(s) not in replaced] + upper


def _field(s: Spelled) -> FieldName:
    return next(row.name for row in FIELDS if _plain_key(s.key) in row.stems)


def _is_deny(s: Spelled) -> bool:
    return _field(s) in ("deny_tools", "deny_tags")


def _folded_profile(text: str) -> str:
    return {"REVIEW": "review", "Straße": "strasse", "STRASSE": "strasse"}.get(text, text)


def plain(given: list[Spelled], name: FieldName, channel: Channel) -> Asked | None:
    """Read a names field by the words of the contract, without the code under test."""
    row = next(row for row in FIELDS if row.name == name)
    asked: Asked | None = None
    for s in given:
        if s.channel != channel or _plain_key(s.key) not in map(_plain_key, _spellings(row, channel)):
            continue
        asked = asked or Asked()
        parts = {_folded(part) for part in s.text.split(",")}
        if "all" in parts or ("*" in parts and row.kind == "names"):
            asked.everything = True
        parts -= {"all", "none"} | ({"*"} if row.kind == "names" else set())
        of_toolsets = {
            part for part in parts if "toolsets" in s.key.lower() or (name == "deny_tools" and "*" not in part)
        }
        asked.toolsets |= of_toolsets
        asked.names |= parts - of_toolsets
    return asked


_SIDES: tuple[tuple[tuple[Channel, ...], ...], ...] = (
    (("cli",), ("env",), ("file", "project")),
    (("meta",), ("header",), ("query",), ("profile", "project_profile")),
)
"""Each side's channels, the highest first; those in one place hold beside each other."""


def plain_permits(given: list[Spelled], tool: Entry) -> bool:
    """Whether a tool is permitted under `narrow`, by the words of the contract."""
    given = with_profiles(given)
    if _denied(given, tool):
        return False
    for side in _SIDES:
        if _flagged(given, side, "read_only") and not tool.read_only:
            return False
        if _flagged(given, side, "no_destructive") and not tool.read_only and tool.destructive:
            return False
        for name, fits in (("allow_tools", _named), ("allow_tags", _tagged)):
            lists = ([a for c in rank if (a := plain(given, name, c)) is not None] for rank in side)  # type: ignore[arg-type]
            if not all(fits(asked, tool) for asked in next(filter(None, lists), [])):
                return False
    return True


def plain_permitted(given: list[Spelled], catalog: Catalog) -> tuple[int, ...]:
    """The permitted indexes: an entry that a call of another's name could reach is permitted only with it."""
    alone = [plain_permits(given, tool) for tool in catalog.entries]
    kept = []
    for i, tool in enumerate(catalog.entries):
        same = [j for j, other in enumerate(catalog.entries) if other.name == tool.name]
        first = next(j for j in same if catalog.entries[j].version == tool.version)
        versions = [j for j in same if catalog.entries[j].version is not None]
        reached = [i, first, *(versions if tool.version is None else [])]
        if all(alone[j] for j in reached):
            kept.append(i)
    return tuple(kept)


def plain_stands_in(given: list[Spelled], n_permitted: int, status: str) -> bool:
    """Whether tool search's entry tools stand for a list of more than two tools, by the words of the contract.

    The operator chose `no_match=search`, and nobody said when tools are deferred.
    """
    given = with_profiles(given)
    is_said = any(_says(given, name) for name in ("tool_search", "max_tools"))
    is_denied = _denied(given, entry("tool", "tool_search", read_only=True))
    return status in ("no_match", "unavailable") and n_permitted > 2 and not is_said and not is_denied


def plain_pinned(given: list[Spelled], tool: Entry) -> bool:
    """Whether any channel pins a tool, by the words of the contract."""
    given = with_profiles(given)
    pins = (asked for channel in CHANNELS if (asked := plain(given, "pins", channel)) is not None)
    return any(asked.everything or _named(_either(asked), tool) for asked in pins)


def _either(asked: Asked) -> Asked:
    """Return a pin as it is read: each name may be a tag."""
    return Asked(toolsets=asked.names | asked.toolsets)


def _says(given: list[Spelled], name: FieldName) -> bool:
    row = next(row for row in FIELDS if row.name == name)
    return any(_plain_key(s.key) in map(_plain_key, _spellings(row, s.channel)) for s in given)


def _denied(given: list[Spelled], tool: Entry) -> bool:
    by_name = (plain(given, "deny_tools", channel) for channel in CHANNELS)
    by_tag = (plain(given, "deny_tags", channel) for channel in CHANNELS)
    return any(a is not None and _named(a, tool) for a in by_name) or any(
        a is not None and _tagged(a, tool) for a in by_tag
    )


def _flagged(given: list[Spelled], side: tuple[tuple[Channel, ...], ...], name: FieldName) -> bool:
    """Whether a flag holds on a side: where the highest channels that give it say true."""
    return any(next((f for rank in side if (f := [x for c in rank if (x := _flag(given, c, name)) is not None])), []))


def _flag(given: list[Spelled], channel: Channel, name: FieldName) -> bool | None:
    keys = {_plain_key(k) for row in FIELDS if row.name == name for k in _spellings(row, channel)}
    texts = [s.text for s in given if s.channel == channel and _plain_key(s.key) in keys]
    return any(text.lower() in ("true", "1", "on") for text in texts) if texts else None


def _spellings(row: Field, channel: Channel) -> tuple[str, ...]:
    return row.stems if channel in ("profile", "project_profile") else row.spellings(channel)


def _plain_key(key: str) -> str:
    return key.lower().replace("-", "_")


def _folded(text: str) -> str:
    return FOLDED.get(text.strip(), text.strip())


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _named(asked: Asked, tool: Entry) -> bool:
    name, tags = _folded(tool.name), {_folded(tag) for tag in tool.tags}
    by_name = any(_fits(pattern, name) for pattern in asked.names | asked.toolsets)
    return asked.everything or by_name or any(_fits(p, tag) for p in asked.toolsets for tag in tags)


def _tagged(asked: Asked, tool: Entry) -> bool:
    return asked.everything or any(_fits(p, _folded(tag)) for p in asked.names for tag in tool.tags)

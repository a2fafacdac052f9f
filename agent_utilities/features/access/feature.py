"""Who may call a server, and what: the operator's settings of login, and their rules of access."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_utilities.access.rules import LOCAL, Rules, rules_of
from agent_utilities.access.token_file import Token, read_tokens
from agent_utilities.catalog.model import ComponentKind
from agent_utilities.errors import AgentUtilitiesError, InputError, SettingsError
from agent_utilities.features.access.login import FileTokens, Login, login_of
from agent_utilities.mcp.events import PolicyChanged, TokensRevoked
from agent_utilities.mcp.feature import Feature, Grant
from agent_utilities.mcp.request import Request
from agent_utilities.mcp.sessions import Caller
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.process_io import expanded, looked_at
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import fold
from agent_utilities.selection.profiles import EVERYTHING, NO_PROFILE, SettingsFiles
from agent_utilities.visibility.decision import Decision

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider

    from agent_utilities.mcp.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.access")

_GRANTS_BYTES = 16 << 20
"""What the grants of the callers seen last may take together, their tokens and claims with them."""


class AccessControl(Feature):
    """Lets in whom the operator's settings know, and permits each what the first rule that fits them says."""

    name = "access"

    def __init__(self) -> None:
        self.tokens: FileTokens | None = None
        self._auth: Login | None = None
        self._rules, self._files = Rules(), SettingsFiles()
        self._watched: list[Path] = []
        self._trouble = ""
        self._taken: frozenset[Token] = frozenset()
        # Claims are text of their token, as objects.
        self._grants: BoundedCache[str, tuple[Mapping[str, Any], Grant | None]] = BoundedCache(
            _GRANTS_BYTES, lambda token, _: 4096 + 4 * len(token)
        )

    def attach(self, host: AgentServer) -> None:
        """Read the rules and the tokens.

        Raises:
            InputError: they can't be read, or can't hold.
        """
        super().attach(host)
        operator = host.surface.operator
        settings = operator.settings
        given = settings.auth_tokens or settings.auth_issuer
        if given and host.author_auth is not None:
            hint = "leave auth_tokens and auth_issuer out: rules of access hold for the author's own login too"
            raise SettingsError("a login beside the one of the server's author", given, "settings", hint)
        self._watched = [Path(file.name) for file in operator.files.files]
        if settings.auth_tokens:
            self._watched.append(path := expanded(settings.auth_tokens))
            self.tokens = FileTokens(path, host.state.is_revoked if host.state is not None else None)
            self._taken = self.tokens.taken()
        self._take(rules_of(settings, operator.files), operator.files)

    def _take(self, rules: Rules, files: SettingsFiles) -> None:
        for later, wider in rules.shadowed():
            logger.warning("%s can never hold: %s fits everybody whom it fits", later.where, wider.where)
        self._rules, self._files = rules, files
        self._grants.clear()

    def check(self) -> None:
        """Make the login before anything is served: what it can't be made of is told in a line."""
        _ = self.host.auth

    def auth(self) -> AuthProvider | None:
        """Return what verifies who calls; nothing over stdio, where there is no token.

        Raises:
            SettingsError: there are rules, and nobody logs in, or the login can't be served.
        """
        if self.host.transport != "stdio" and self._auth is None:
            self._auth = login_of(self.host.surface.operator.settings, self.tokens, self.host.state)
            if self._auth is None:
                hint = "set auth_tokens or auth_issuer; see agent-utilities token new"
                raise SettingsError("rules of access, and nobody logs in", len(self._rules.rules), "settings", hint)
        return self._auth

    def grant(self, caller: Caller) -> Grant | None:
        """Return what a caller's rule and token permit them, the same while neither changes."""
        known = self._grants.get(caller.token)
        if known is None or known[0] != caller.claims:
            known = caller.claims, self._granted(caller)
            self._grants.keep(caller.token, known)
        return known[1]

    def _granted(self, caller: Caller) -> Grant | None:
        of_token = self._profile_of_token(caller) or EVERYTHING
        if not self._rules.rules and fold(of_token) == EVERYTHING:
            return None
        access = self._rules.access({**caller.claims, "client": caller.client or None})
        may, number = (access.rule.may, access.rule.number) if access.rule else (frozenset[str](), None)
        beside = self._files.for_access(of_token, "token", f"token {caller.subject}")
        profiles = frozenset((fold(access.profile), fold(of_token)))
        return Grant(merge(access.bounds(self._files), beside), may, number, profiles)

    def _profile_of_token(self, caller: Caller) -> str:
        """Return the profile of a token of the file, if it has one; `none` for one that is there, or taken, no more."""
        if self.tokens is None or caller.issuer != LOCAL:
            return ""
        token = self.tokens.find(caller.token)  # by name it could be one that was made since
        return NO_PROFILE if token is None or token.is_over() else token.profile

    async def run(self) -> None:
        """Follow the files of rules and tokens: what holds by them holds for requests from then on."""
        async for has_changed, is_settled in looked_at(self._watched):
            if has_changed or self._trouble:
                await self._read_tokens()
            if is_settled:
                await self._follow_rules()
            taken = self.tokens.taken() if self.tokens else self._taken
            if taken != self._taken:  # streams of one that was revoked or ended are to be told nothing more
                over, self._taken = self._taken - taken, taken
                gone = ", ".join(sorted({token.name for token in over})) or "none"
                self._changed("tokens", f"{len(taken)} tokens; expired or revoked: {gone}")
                revoked = frozenset(token.sha256 for token in over if not token.is_over())
                is_there = await in_daemon_thread(self._watched[-1].exists)
                if revoked and is_there:  # a folder that is not mounted for a moment revokes nothing
                    self.host.notify(TokensRevoked(revoked))

    async def _read_tokens(self) -> None:
        try:
            if self.tokens is not None:
                self.tokens.file = await in_daemon_thread(partial(read_tokens, self.tokens.path))
            self._trouble = ""
        except InputError as error:
            if self._trouble != error.what:
                logger.error("%s; what it held before still holds", error)
            self._trouble = error.what

    async def _follow_rules(self) -> None:
        operator = self.host.surface.operator.again()
        try:
            rules = await in_daemon_thread(lambda: rules_of(operator.settings, operator.files))
            if rules == self._rules and operator.files == self._files:
                return
            if self._rules.rules and not rules.rules:
                raise SettingsError("no rule of access any more", "", "settings", "start anew to do without rules")
            self._take(rules, operator.files)
        except AgentUtilitiesError as error:
            logger.error("%s; the rules of access stay as they were", error)
        else:
            self._changed("rules", f"{len(rules.rules)} rules of access")

    def _changed(self, what: str, told: str) -> None:
        logger.info("%s changed: %s", what, told)
        self._grants.clear()
        self.host.notify(PolicyChanged(what, told))
        self.host.changes.regrant()

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        grant = self.host.callers.grant_of(request.caller)
        return {} if grant is None or not self._rules.rules else {"access": {"rule": grant.rule}}

    def health(self) -> Mapping[str, Any]:
        told = {"login": self._auth.trouble} if self._auth is not None and self._auth.trouble else {}
        return {**told, "tokens": f"{self._trouble}; what the file held before holds"} if self._trouble else told

    def start_lines(self) -> Sequence[str]:
        if self.host.transport == "stdio":
            return ["rules of access do not apply over stdio: there is no token"]
        if not self._rules.rules:
            return ["no rules of access: whoever gets in may use everything permitted"]
        return [f"{len(self._rules.rules)} rules of access: whoever fits none may use nothing"]

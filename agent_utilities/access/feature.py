"""Access control of a server: the login that its settings configure, and their rules of access."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from fastmcp.server.auth import AccessToken, AuthProvider, MultiAuth, RemoteAuthProvider, TokenVerifier
from starlette.middleware import Middleware
from starlette.routing import Route

from agent_utilities.access import refusals
from agent_utilities.access.issuer import Issuer, IssuerUnreachable, as_spelled
from agent_utilities.access.oidc import OidcVerifier
from agent_utilities.access.refusals import TellsWhy, note
from agent_utilities.access.rules import LOCAL, RIGHTS, Rules, rules_of
from agent_utilities.access.token_file import PREFIX, Token, read_tokens
from agent_utilities.catalog.model import ComponentKind
from agent_utilities.errors import AgentUtilitiesError, InputError, SettingsError
from agent_utilities.policy.decision import Decision
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.hosts import is_loopback
from agent_utilities.runtime.process_io import expanded, looked_at
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.caller import Caller, Grant
from agent_utilities.seam.events import PolicyChanged, TokensRevoked
from agent_utilities.seam.feature import NOT_TAKEN, Feature
from agent_utilities.seam.host import Host, SharedState, find
from agent_utilities.seam.request import Request
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import fold
from agent_utilities.selection.profiles import EVERYTHING, NO_PROFILE, SettingsFiles
from agent_utilities.settings import Settings

if TYPE_CHECKING:
    from agent_utilities.state.redis_state import RedisState


class FileTokens(TokenVerifier):
    """Verifies tokens of a file, and notes the reason of a refusal.

    Args:
        path: the file.
        is_revoked: whether another replica removed a token with this SHA-256 from its file.

    Raises:
        InputError: the file can't be read.
    """

    def __init__(self, path: Path, is_revoked: Callable[[str], bool] | None = None) -> None:
        super().__init__()
        self.path, self.file, self._is_revoked = path, read_tokens(path), is_revoked or (lambda _: False)

    def find(self, text: str) -> Token | None:
        """Return the token of a text, even if expired; None for an unknown or revoked one."""
        token = self.file.find(text)
        return None if token is None or self._is_revoked(token.sha256) else token

    def taken(self) -> frozenset[Token]:
        """Return the tokens that are neither expired nor revoked."""
        return frozenset(token for token in self.file.taken() if not self._is_revoked(token.sha256))

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the identity of a token; None for an unknown, revoked or expired one."""
        known = self.find(token)
        if known is None or known.is_over():
            note(refusals.EXPIRED if known else refusals.UNKNOWN)
            return None
        return AccessToken(
            token=token,
            client_id=known.name,
            scopes=[],
            expires_at=int(known.expires.timestamp()) if known.expires else None,
            subject=known.name,
            claims={"iss": LOCAL, "sub": known.name},
        )


class Login(MultiAuth):
    """Authenticates callers by tokens of a file, of an issuer, or of both.

    FastMCP's `MultiAuth` tries one source after another and renames clients; here a token's prefix selects the source,
    and the client keeps its name.

    Args:
        tokens: verifies tokens of the operator's file.
        verifier: verifies the issuer's tokens.
        server: accepts the issuer's tokens, and directs clients to the login.
    """

    def __init__(
        self, tokens: TokenVerifier | None, verifier: OidcVerifier | None = None, server: AuthProvider | None = None
    ) -> None:
        # Scopes are checked by the issuer's verifier alone: tokens of the file have none.
        named = {"file": tokens} if tokens else None
        super().__init__(
            server=server, server_source_id="issuer" if server else None, verifiers=named, required_scopes=[]
        )
        self._tokens, self._verifier = tokens, verifier

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the identity of a token, or None, with the reason noted."""
        if self.server is not None and (self._tokens is None or not token.startswith(PREFIX)):
            return await self.server.verify_token(token)
        return await self._tokens.verify_token(token) if self._tokens is not None else None

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of the login, and set the endpoint's URL as the audience."""
        if self._verifier is not None:
            self._verifier.bind(f"{str(self.base_url).rstrip('/')}/{(mcp_path or '').lstrip('/')}")
        return super().get_routes(mcp_path)

    def get_challenge_scopes(self, required_scopes: list[str] | None = None) -> list[str]:
        """Return the scopes that a client has to request from the issuer."""
        return self.server.get_challenge_scopes() if self.server else []

    def get_middleware(self) -> list[Middleware]:
        """Return the middleware that reads tokens, inside the one that gives reasons for refusals."""
        return [Middleware(TellsWhy), *super().get_middleware()]

    @property
    def trouble(self) -> str:
        """What `/ready` says while tokens can't be checked as they should be; without names."""
        is_down = self._verifier is not None and self._verifier.issuer.trouble
        return "the issuer of tokens can't be asked; known keys are taken for 24 h" if is_down else ""


class Remote(RemoteAuthProvider):
    """Directs clients to the issuer's login, whose tokens are accepted here."""

    @property
    def scopes_supported(self) -> list[str] | None:  # type: ignore[override]  # FastMCP's own routes take None
        """The scopes to request; None rather than an empty list, which clients take literally."""
        return self.token_verifier.required_scopes or None


def login_of(settings: Settings, tokens: TokenVerifier | None = None, state: RedisState | None = None) -> Login | None:
    """Return the login that settings configure, or None.

    Clients log in at an issuer that registers them, or accepts their metadata documents. For any other issuer, where a
    client id and secret are configured, this server is a proxy and the issuer's one client. The kind has to be known at
    the start: with a login of the other kind clients would lose the tokens that they have.

    Args:
        settings: the operator's settings.
        tokens: verifies tokens of the operator's file.
        state: the state that replicas share, if any; it has the logins through this server.

    Raises:
        SettingsError: the settings can't be served.
    """
    _check(settings)
    if not settings.auth_issuer:
        return Login(tokens) if tokens else None
    secret = settings.auth_client_secret.get_secret_value()
    client = (settings.auth_client_id, secret) if secret else None
    scopes = settings.auth_scopes.replace(",", " ").split()
    verifier = OidcVerifier(Issuer(settings.auth_issuer), settings.auth_audience, scopes, client)
    document = _document_of(settings.auth_issuer) if client else {"registration_endpoint": "not needed"}
    if document.get("registration_endpoint") or document.get("client_id_metadata_document_supported"):
        servers = [as_spelled(settings.auth_issuer)]
        return Login(tokens, verifier, Remote(verifier, servers, base_url=settings.auth_base_url))
    from agent_utilities.access.proxy import Proxy  # FastMCP takes most of a second to load it

    return Login(tokens, verifier, Proxy(settings, document, verifier, state))


def _document_of(url: str) -> Mapping[str, Any]:
    with ThreadPoolExecutor(1) as thread:  # There may be a loop in this one.
        try:
            return thread.submit(anyio.run, Issuer(url).keys).result().document
        except IssuerUnreachable as error:
            hint = f"with a client id it must answer at the start, whether it registers clients: {error}"
            raise SettingsError("the issuer can't be asked", url, "auth_issuer", hint) from None


def _check(settings: Settings) -> None:
    issuer, secret = settings.auth_issuer, settings.auth_client_secret.get_secret_value()
    if not issuer:
        values = {name: getattr(settings, name) for name in ("auth_audience", "auth_client_id", "auth_scopes")}
        for alone, value in {**values, "auth_client_secret": secret}.items():
            if value:
                raise SettingsError("nothing is verified by it", alone, alone, "set auth_issuer too, or leave it out")
        return
    if not settings.auth_base_url:
        hint = "set it to this server's URL without /mcp as callers reach it, such as https://tools.example"
        raise SettingsError("the issuer's tokens are for nobody", "", "auth_base_url", hint)
    for name, url in (("auth_issuer", issuer), ("auth_base_url", settings.auth_base_url)):
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or "?" in url:
            hint = "write it as https://login.example/realms/team"
            raise SettingsError("not a URL that will do", url.rpartition("@")[2], name, hint)
    if issuer.startswith("http:") and not is_loopback(urlsplit(issuer).hostname or ""):
        logger.warning("the issuer %s is asked over plain HTTP: whoever stands between can let anybody in", issuer)
    if bool(settings.auth_client_id) != bool(secret):
        missing = "auth_client_secret" if settings.auth_client_id else "auth_client_id"
        raise SettingsError("it is missing", "", missing, "auth_client_id and auth_client_secret go together")


logger = logging.getLogger("agent_utilities.access")

_GRANTS_BYTES = 16 << 20
"""The most bytes of the cached grants of recent callers, with their tokens and claims."""


class AccessControl(Feature):
    """Authenticates callers by the operator's settings, and grants each what the first rule that fits them permits."""

    name = "access"
    after = ("fleet",)

    def __init__(self) -> None:
        self.tokens: FileTokens | None = None
        self._auth: Login | None = None
        self._rules, self._files = Rules(), SettingsFiles()
        self._watched: list[Path] = []
        self._trouble, self._is_refused = "", False
        self._taken: frozenset[Token] = frozenset()
        # The claims come from the text of the token, and take some times its length.
        self._grants: BoundedCache[str, tuple[Mapping[str, Any], Grant | None]] = BoundedCache(
            _GRANTS_BYTES, lambda token, _: 4096 + 4 * len(token)
        )

    def attach(self, host: Host) -> None:
        """Read the rules and the tokens.

        Raises:
            InputError: one can't be read, or can't hold.
        """
        super().attach(host)
        operator = host.operator
        settings = operator.settings
        self.rights = (*RIGHTS, *(right for each in host.offered(Feature) for right in each.rights))
        configured = settings.auth_tokens or settings.auth_issuer
        has_login = find(host, AuthProvider) is not None  # the author's own
        if configured and has_login:
            hint = "leave auth_tokens and auth_issuer out: rules of access hold for the author's own login too"
            raise SettingsError("a login beside the one of the server's author", configured, "settings", hint)
        self._watched = [Path(file.name) for file in operator.files.files]
        if settings.auth_tokens:
            self._watched.append(path := expanded(settings.auth_tokens))
            self.tokens = FileTokens(
                path, shared.redis.is_revoked if (shared := find(host, SharedState)) is not None else None
            )
            self._taken = self.tokens.taken()
        self._take(rules_of(settings, operator.files, self.rights), operator.files)
        if not has_login:
            host.offer(AuthProvider, self.auth)

    def _take(self, rules: Rules, files: SettingsFiles) -> None:
        for later, wider in rules.shadowed():
            logger.warning("%s can never hold: %s fits everybody whom it fits", later.where, wider.where)
        self._rules, self._files = rules, files
        self._grants.clear()

    def check(self) -> None:
        """Make the login before anything is served, so that a wrong setting is one line of error."""
        find(self.host, AuthProvider)

    def auth(self) -> AuthProvider | None:
        """Return the login, or None over stdio, where there is no token.

        Raises:
            SettingsError: there are rules without a login, or the login can't be served.
        """
        if self.host.transport != "stdio" and self._auth is None:
            shared = find(self.host, SharedState)
            self._auth = login_of(self.host.operator.settings, self.tokens, shared.redis if shared else None)
            if self._auth is None:
                hint = "set auth_tokens or auth_issuer; see agent-utilities token new"
                raise SettingsError("rules of access, and nobody logs in", len(self._rules.rules), "settings", hint)
        return self._auth

    def grant(self, caller: Caller) -> Grant | None:
        """Return the grant of a caller by their rule and token; cached while neither changes."""
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
        """Return the profile of a token of the file, if any; `none` for a token that was removed or is not valid."""
        if self.tokens is None or caller.issuer != LOCAL:
            return ""
        token = self.tokens.find(caller.token)  # a look-up by name could give a newer token
        return NO_PROFILE if token is None or token.is_over() else token.profile

    async def run(self) -> None:
        """Watch the files of rules and tokens; changes hold for requests from then on."""
        async for has_changed, is_settled in looked_at(self._watched):
            if has_changed or self._trouble:
                await self._read_tokens()
            if is_settled:
                await self._follow_rules()
            taken = self.tokens.taken() if self.tokens else self._taken
            if taken != self._taken:  # streams of a revoked or expired token get no more notices
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
        operator = self.host.operator.again()
        try:
            rules = await in_daemon_thread(lambda: rules_of(operator.settings, operator.files, self.rights))
            self._is_refused = False
            if rules == self._rules and operator.files == self._files:
                return
            if self._rules.rules and not rules.rules:
                raise SettingsError("no rule of access any more", "", "settings", "start anew to do without rules")
            self._take(rules, operator.files)
        except AgentUtilitiesError as error:
            self._is_refused = True
            logger.error("%s; the rules of access stay as they were", error)
        else:
            self._changed("rules", f"{len(rules.rules)} rules of access")

    def _changed(self, what: str, text: str) -> None:
        logger.info("%s changed: %s", what, text)
        self._grants.clear()
        self.host.notify(PolicyChanged(what, text))

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        grant = self.host.grant_of(request.caller)
        return {} if grant is None or not self._rules.rules else {"access": {"rule": grant.rule}}

    def health(self) -> Mapping[str, Any]:
        parts = {"login": self._auth.trouble} if self._auth is not None and self._auth.trouble else {}
        parts |= {"rules": NOT_TAKEN} if self._is_refused else {}
        return {**parts, "tokens": f"{self._trouble}; what the file held before holds"} if self._trouble else parts

    def start_lines(self) -> Sequence[str]:
        if self.host.transport == "stdio":
            return ["rules of access do not apply over stdio: there is no token"]
        if not self._rules.rules:
            return ["no rules of access: whoever gets in may use everything permitted"]
        return [f"{len(self._rules.rules)} rules of access: whoever fits none may use nothing"]

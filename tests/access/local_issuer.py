"""An issuer of tokens over real HTTP, whose keys, answers and being there a test decides."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwk, jws
from joserfc.errors import SecurityWarning

RESOURCE = "http://tools.example/mcp"
"""The endpoint that tokens are for."""
Key = jwk.RSAKey | jwk.ECKey | jwk.OKPKey | jwk.OctKey


@cache
def rsa(kid: str, whose: str = "the issuer") -> jwk.RSAKey:
    """Return somebody's RSA key of a name, which is made once."""
    return jwk.RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


def ec(kid: str, curve: Any = "P-256") -> jwk.ECKey:
    """Return a new key on a curve."""
    return jwk.ECKey.generate_key(curve, {"kid": kid, "use": "sig"})


class LocalIssuer:
    """An issuer on a loopback port.

    Args:
        path: where on its host it is.
    """

    def __init__(self, path: str = "") -> None:
        self.keys: list[Key] = [rsa("k1"), ec("e1")]
        self.extra_keys: list[dict[str, Any]] = []
        self.introspected: dict[str, Any] = {}
        self.answers_strangers = threading.Event()
        """Until it is set nobody is told of tokens that are not in `introspected`."""
        self.answers_strangers.set()
        self.waiting: Counter[str] = Counter()
        """How often each of them is being asked about."""
        self.credentials: list[str | None] = []
        self.asked: Counter[str] = Counter()
        self._path = path
        self._port = 0
        self.up()
        self.said: dict[str, Any] = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            "introspection_endpoint": f"{self.url}/introspect",
        }
        self.discovery = f"{path}/.well-known/openid-configuration"

    @property
    def url(self) -> str:
        """The issuer, as its tokens spell it."""
        return f"http://127.0.0.1:{self._port}{self._path}"

    def up(self) -> None:
        """Answer, on the port that it had before."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler())
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def down(self) -> None:
        """Refuse connections."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Return what a good token says, with claims changed, or left out where None."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": "ann", "aud": RESOURCE, "exp": now + 600, "iat": now, "client_id": "editor"}
        return {name: value for name, value in (claims | {"scope": "read"} | changed).items() if value is not None}

    def token(
        self, key: Key | None = None, alg: str = "RS256", header: Mapping[str, Any] | None = None, **changed: Any
    ) -> str:
        """Return a token: a good one but for what is changed.

        Args:
            key: what it is signed with; the issuer's first where None.
            alg: the algorithm.
            header: fields of the header, in place of others.
            changed: claims, in place of others; None leaves one out.
        """
        key = key or self.keys[0]
        fields = {"alg": alg, "kid": key.kid, "typ": "at+jwt", **(header or {})}
        return signed(key, {name: value for name, value in fields.items() if value is not None}, self.claims(**changed))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked[self.path] += 1
                if self.path == issuer.discovery:
                    self.answer(issuer.said)
                elif self.path == f"{issuer._path}/jwks":
                    public = [key.as_dict(private=False) for key in issuer.keys]
                    self.answer({"keys": [*issuer.extra_keys, *public]})
                else:
                    self.send_error(404)

            def do_POST(self) -> None:
                issuer.asked[self.path] += 1
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                if self.path != f"{issuer._path}/introspect":
                    self.send_error(404)
                    return
                issuer.credentials.append(self.headers["authorization"])
                if (token := form["token"][0]) not in issuer.introspected:
                    issuer.waiting[token] += 1
                    issuer.answers_strangers.wait(60)
                    issuer.waiting.pop(token, None)
                self.answer(issuer.introspected.get(token, {"active": False}))

            def answer(self, said: Mapping[str, Any]) -> None:
                body = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def signed(key: Key, header: Mapping[str, Any], claims: object) -> str:
    """Return a JWT of any header and claims."""
    registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
    registry.max_header_length = registry.max_payload_length = 1 << 20
    with warnings.catch_warnings(action="ignore", category=SecurityWarning):  # EdDSA, which issuers use all the same.
        return jws.serialize_compact(dict(header), json.dumps(claims).encode(), key, registry=registry)

"""`agent-utilities approve`: list the calls that wait for a person's yes at a running server, and answer one.

It goes through the page as a browser does, so that it takes the same right, and a server has no second way in.
"""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

import typer

from agent_utilities.cli.asking import ServerError, pairs, server_url
from agent_utilities.runtime.hosts import is_loopback
from agent_utilities.server.command_line.terminal import AsJson, plain, terminal

app = typer.Typer(add_completion=False)

_PANEL = "page/approvals"
_KEY = re.compile(r'name="form_key" value="([^"]+)"')
_TOLD = re.compile(r'<pre class="told[^>]*>(.*?)</pre>', re.DOTALL)


@app.command()
def approve(
    url: str,
    question: Annotated[str, typer.Argument(metavar="[ID]")] = "",
    answer: Annotated[Literal["yes", "no"] | None, typer.Argument(metavar="[yes|no]")] = None,
    header: list[str] | None = None,
    as_json: AsJson = False,
) -> None:
    """List the calls that wait for a person's yes at a running server, or answer one of them.

    Args:
        url: A running server, such as http://127.0.0.1:8001.
        question: The id of the call to answer; all that wait are listed without it.
        answer: What to answer.
        header: A header to send, as name=value, such as authorization="Bearer …"; may be repeated.
    """
    import httpx2

    base, headers = f"{server_url(url).base}/", dict(pairs(header, "--header"))
    try:
        with httpx2.Client(headers=headers, timeout=10, follow_redirects=True) as web:
            _enter(web, url, base)
            if question and answer is not None:
                print(_answered(web, base, question, answer))
                return
            listed = web.get(f"{base}{_PANEL}?format=json")
            if listed.status_code != 200:
                raise _refused(listed)
            _show(listed.json(), as_json=as_json)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise ServerError(f"can't ask {url!r}: {error or type(error).__name__}; is the server running?") from None


def _enter(web: Any, url: str, base: str) -> None:
    """Log in as a browser does: with the token that is sent, or with the link that the server's start printed."""
    scheme, _, token = web.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        web.post(f"{base}page/login", data={"token": token.strip()}, headers=_origin(base), follow_redirects=False)
        return
    parts = urlsplit(url)
    key = dict(parse_qsl(parts.query)).get("key", "")
    if not key and is_loopback(parts.hostname or ""):
        from agent_utilities.page.feature import link_file  # the host takes a second to import

        if (kept := link_file(str(parts.port))).exists():
            key = dict(re.findall(r"[?&](key)=([\w-]+)", kept.read_text())).get("key", "")
    if key:
        web.get(base, params={"key": key}, follow_redirects=False)


def _answered(web: Any, base: str, question: str, answer: str) -> str:
    place, form = f"{base}{_PANEL}/{answer}", {"id": question}
    asked = web.get(place, params=form)
    if (key := _KEY.search(asked.text)) is None or asked.status_code != 200:
        raise _refused(asked)
    done = web.post(place, data={**form, "form_key": key[1]}, headers=_origin(base))
    if done.status_code != 200:
        raise _refused(done)
    return _text_of(done)


def _origin(base: str) -> dict[str, str]:
    parts = urlsplit(base)
    return {"origin": f"{parts.scheme}://{parts.netloc}"}


def _text_of(answer: Any) -> str:
    found = _TOLD.search(answer.text)
    return plain(unescape(found[1])) if found is not None else ""


def _refused(answer: Any) -> ServerError:
    if text := _text_of(answer):
        return ServerError(text)
    hint = "send --header authorization=…, of whom a rule of access gives page.operate, or the page's link with ?key=…"
    return ServerError(f"the server answered {answer.status_code} without its list of approvals; {hint}")


def _show(tables: dict[str, list[dict[str, Any]]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(tables))
        return
    console = terminal()
    for name, rows in tables.items():
        console.print(plain(f"{name}: {len(rows)}"))
        for row in rows:
            facts = f"{row['since']}  {row['tool']} of {row['server']}, for {row['caller']}, sha256 {row['sha256']}"
            console.print(f"\n{plain(row['id'])}  {plain(facts)}", soft_wrap=True)
            for line in row["arguments"].split("\n"):
                console.print(f"  {plain(line)}", soft_wrap=True)

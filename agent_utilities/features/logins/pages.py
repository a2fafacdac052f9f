"""The pages of a login: plain HTML without a script, that no other page can frame, and no cache keeps."""

from __future__ import annotations

from html import escape

from starlette.responses import HTMLResponse

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
}
_TOKEN = (
    "<p><label>The token that your agent calls this server with:"
    ' <input type="password" name="token" autocomplete="off" required></label></p>'
)


def _page(title: str, body: str, status: int = 200) -> HTMLResponse:
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><main><h1>{title}</h1>{body}</main></html>"
    )
    return HTMLResponse(html, status, headers=HEADERS)


def _form(step: str, key: str, more: str = "", action: str = "") -> str:
    to = f' action="{escape(action)}"' if action else ""
    return (
        f'<form method="post"{to}><input type="hidden" name="step" value="{step}">'
        f'<input type="hidden" name="key" value="{key}">{more}<button>Continue</button></form>'
    )


def first(upstream: str, key: str, *, by_token: bool) -> HTMLResponse:
    """Return what a link shows first: what for, and how one shows who one is."""
    name = escape(upstream)
    told = f"<p>Your agent is to use <strong>{name}</strong> with your own account. First show who you are here.</p>"
    return _page(f"Log in at {name}", told + (_form("token", key, _TOKEN) if by_token else _form("prove", key)))


def confirm(upstream: str, person: tuple[str, str], action: str, key: str) -> HTMLResponse:
    """Return what somebody is shown who has shown who they are, before their account is asked for."""
    issuer, subject = map(escape, person)
    told = (
        f"<p>You are <strong>{subject}</strong> ({issuer}). What you log in at next is used for your calls, and for"
        " nobody else's. If that is not you, close this page.</p>"
    )
    return _page(f"Log in at {escape(upstream)}", told + _form("go", key, action=action))


def done(upstream: str) -> HTMLResponse:
    """Return what is shown at the end."""
    return _page(f"Logged in at {escape(upstream)}", "<p>You can close this page, and go back to your agent.</p>")


def spent() -> HTMLResponse:
    """Return what a link shows that was used, is too old or was never made, and what comes from another browser."""
    told = "<p>It serves once, for ten minutes, in one browser. Call again to be given another one.</p>"
    return _page("This link does not serve any more", told, 410)


def not_theirs() -> HTMLResponse:
    """Return what is shown to whoever is not the person that a link was made for."""
    return _page("This link is not yours", "<p>It was made for somebody else. Nothing was bound to anything.</p>", 403)


def failed(why: str) -> HTMLResponse:
    """Return what is shown where a login could not be made."""
    told = f"<p>{escape(why)}</p><p>Call again to be given another link.</p>"
    return _page("The login failed", told, 502)

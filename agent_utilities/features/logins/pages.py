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
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><main><h1>{title}</h1><p>{told}</p>{form}</main></html>"""
_FORM = """<form method="post" action="{action}"><input type="hidden" name="step" value="{step}">
<input type="hidden" name="key" value="{key}">{more}<button>Continue</button></form>"""
_TOKEN = """<p><label>The token that your agent calls this server with:
<input type="password" name="token" autocomplete="off" required></label></p>"""


def page(title: str, told: str, status: int = 200, form: str = "") -> HTMLResponse:
    """Return a page.

    Args:
        told: what it says, as text.
        form: what is pressed on it, as HTML.
    """
    html = _PAGE.format(title=escape(title), told=escape(told), form=form)
    return HTMLResponse(html, status, headers=HEADERS)


def form(step: str, key: str, action: str) -> str:
    """Return a form that leads to a step: `token`, which it asks for, `prove` or `go`."""
    more = _TOKEN if step == "token" else ""
    return _FORM.format(step=step, key=key, action=escape(action), more=more)


def spent() -> HTMLResponse:
    """Return what a link shows that was used, is too old or was never made, and what comes from another browser."""
    told = "It serves once, for ten minutes, in one browser. Call again to be given another one."
    return page("This link does not serve any more", told, 410)


def failed(why: str) -> HTMLResponse:
    """Return what is shown where a login could not be made."""
    return page("The login failed", f"{why}. Call again to be given another link.", 502)

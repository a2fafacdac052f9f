"""Texts that try to be more than texts, and a server whose tools are named and described by them.

Each that comes to life leaves a trace: a dialog, a request, an error on the console, or something named `pwned`.
Run as `python -m tests.page.hostile`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from tests.gateway.upstreams import faulty_server

TEXTS = (
    "<script>alert('pwned')</script>",
    "</script><script>alert('pwned')</script>",
    "<SCRIPT SRC=//pwned.invalid/x.js></SCRIPT>",
    "<scr<script>ipt>alert('pwned')</scr</script>ipt>",
    "<img src=x onerror=alert('pwned')>",
    "<svg onload=alert('pwned') class=pwned></svg>",
    "<svg><script>alert('pwned')</script></svg>",
    "<math class=pwned><mtext><style><img src=x onerror=alert(1)></style></mtext></math>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<object data=javascript:alert('pwned')></object>",
    "<style>body{display:none}</style>",
    "<link rel=stylesheet href=//pwned.invalid/x.css>",
    "<base href=//pwned.invalid/>",
    "<meta http-equiv=refresh content='0;url=//pwned.invalid/'>",
    "<form action=//pwned.invalid/ class=pwned><button autofocus>Press</button></form>",
    "<a class=pwned href=javascript:alert('pwned')>here</a>",
    "<a href=//pwned.invalid/ class=pwned>here</a>",
    "<details open ontoggle=alert('pwned') class=pwned>",
    "<template class=pwned><p>x</p></template>",
    "<!-- pwned",
    "--><b class=pwned>bold</b>",
    "]]><b class=pwned>bold</b>",
    "<b class=pwned>bold",
    "</td></tr></table><b class=pwned>out</b>",
    "</title></textarea></select></pre><b class=pwned>out</b>",
    '" onmouseover="alert(1)" autofocus onfocus="alert(2)" class="pwned',
    "' onmouseover='alert(1)' autofocus onfocus='alert(2)' class='pwned",
    "` onmouseover=alert(1) class=pwned `",
    "javascript:alert('pwned')",
    "JaVaScRiPt:alert('pwned')//",
    "data:text/html,<script>alert('pwned')</script>",
    "{{7*7}} {% raw %} {# pwned #}",
    "{{ ''.__class__.__mro__ }} ${7*7} #{7*7} <%= 7*7 %>",
    "&lt;b class=pwned&gt; &amp; &#60;b&#62; &quot;",
    "a\u202eb\u2066c\u200dd\u200ee\u00adf",
    "bell\x07 escape\x1b[2J nul\x01 line\u2028separator",
    "data: pwned\nevent: behind\n\nid: 9",
    '=HYPERLINK("//pwned.invalid","here")',
    "null undefined NaN true [object Object]",
    "W" * 5_000,
)
N_LONGEST_NAME = 120
"""Characters of a name that is made of one."""
assert len(TEXTS) == 40


def names(texts: Sequence[str] = TEXTS) -> list[str]:
    """Return the names that servers may have by these texts: printable, without commas."""
    cut = (text[:N_LONGEST_NAME].replace(",", ";").strip() for text in texts)
    return [name for name in dict.fromkeys(cut) if name.isprintable()]


class HostileServer(faulty_server.Server):
    """A server of as many tools as there are texts, each named, titled, described and tagged by one."""

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Its tools; what it was told to list otherwise is passed over."""
        return [self._tool(text) for text in TEXTS]

    @tools.setter
    def tools(self, given: list[dict[str, Any]]) -> None:
        return None

    @staticmethod
    def _tool(text: str) -> dict[str, Any]:
        property = {"type": "string", "description": text, "default": text, "title": text}
        schema = {"type": "object", "title": text, "description": text, "properties": {text[:200]: property}}
        tags = {"fastmcp": {"tags": [text[:200]]}, "_fastmcp": {"tags": [text[:200]]}}
        return {"name": text[:N_LONGEST_NAME], "title": text, "description": text, "inputSchema": schema, "_meta": tags}


if __name__ == "__main__":
    for line in TEXTS:
        print(line, file=sys.stderr, flush=True)
    HostileServer().run()
    sys.exit(os.EX_OK)

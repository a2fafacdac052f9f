"""Servers from npm and PyPI that need no account, each with a call that does no harm and needs no network.

`README.md` beside this has them as a table. Each is installed into a folder or an environment of its own, with what it
depends on as its authors let it be resolved: what it gives is compared with what it gives through the gateway.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.conformance import node
from tests.gateway.upstreams.real_servers import SCRIPTS, make_workspace, python_environment

WORK = "{work}"
"""What stands for the folder of files that servers work on."""


@dataclass(frozen=True)
class Published:
    """A server, as its authors publish it, and a call of it.

    Args:
        package: its name in its registry.
        version: the version that is installed.
        registry: where it comes from.
        program: npm: the file to run, from the package's folder. PyPI: its command.
        tool: the tool that is called.
        arguments: what that is given; some are wrong, and are answered with an error.
        args: of its command line.
        env: its variables.
        beside: PyPI: what else is installed, since it needs that and does not say so.
        is_quick: whether it is tried in every run: it is small and starts in a second or two.
        cannot: why it can't be tried here; empty where it can.
    """

    package: str
    version: str
    registry: Literal["npm", "PyPI"]
    program: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    is_quick: bool = False
    cannot: str = ""

    def entry(self, work: Path, home: Path) -> dict[str, Any]:
        """Return it as a config has it, installed if it isn't yet; one that keeps anything does so in `home`."""
        if self.registry == "npm":
            command = [node.node(), str(node.installed(self.package, self.version) / self.program)]
        else:
            installed = python_environment(f"{self.package}=={self.version}", *self.beside)
            command = [str(installed / SCRIPTS / self.program)]
        home.mkdir(exist_ok=True)
        args = [_filled(each, work) for each in (*command[1:], *self.args)]
        env = {
            "HOME": str(home),
            "PYTHONHASHSEED": "0",
            **{key: _filled(value, work) for key, value in self.env.items()},
        }
        return {"command": command[0], "args": args, "env": env, "cwd": str(work)}

    def given(self, work: Path) -> dict[str, Any]:
        """Return the arguments of the call."""
        filled: dict[str, Any] = json.loads(_filled(json.dumps(dict(self.arguments)), work))
        return filled


def _filled(text: str, work: Path) -> str:
    return text.replace(WORK, str(work))


def files(folder: Path) -> Path:
    """Return the folder that servers work on, made if it isn't there."""
    work = make_workspace(folder)
    (work / "page.html").write_text("<h1>Grüße</h1><p>世界</p>", encoding="utf-8")
    (work / "code.js").write_text("const unused = 1;\n")
    (work / "eslint.config.js").write_text('export default [{ rules: { "no-unused-vars": "error" } }];\n')
    cell = '<mxGraphModel><root><mxCell id="0"/></root></mxGraphModel>'
    (work / "drawn.drawio").write_text(f'<mxfile><diagram id="a" name="One">{cell}</diagram></mxfile>')
    return work


def _npm(package: str, version: str, program: str, tool: str, **more: Any) -> Published:
    return Published(package, version, "npm", program, tool, **more)


def _pypi(package: str, version: str, tool: str, program: str = "", **more: Any) -> Published:
    return Published(package, version, "PyPI", program or package, tool, **more)


def _app(name: str, version: str, tool: str, **more: Any) -> Published:
    return _npm(f"@modelcontextprotocol/server-{name}", version, "dist/index.js", tool, args=("--stdio",), **more)


_SDK_1 = ("mcp<2",)
"""What servers of the first SDK do not say that they need."""

PUBLISHED = (
    _app("pdf", "2.0.4", "list_pdfs"),
    _app("budget-allocator", "2.0.3", "get-budget-data", is_quick=True),
    _app("map", "2.0.3", "geocode"),
    _app("sheet-music", "2.0.3", "play-sheet-music"),
    _npm(
        *("@modelcontextprotocol/server-github", "2025.4.8", "dist/index.js", "get_file_contents"),
        arguments={"owner": "nobody"},
        is_quick=True,
    ),
    _npm(
        "@playwright/mcp",
        "0.0.83",
        "cli.js",
        "browser_resize",
        cannot="of a browser that is not there it says one of two things",
    ),
    _npm("chrome-devtools-mcp", "1.11.0", "build/src/bin/chrome-devtools-mcp.js", "click"),
    _npm("@upstash/context7-mcp", "4.1.1", "dist/index.js", "query-docs", arguments={"libraryId": 1}),
    _npm(
        "@wonderwhy-er/desktop-commander",
        "0.2.52",
        "dist/index.js",
        "list_searches",
        cannot="something else that it sends is taken for its list by the caller here",
    ),
    _npm(
        *("mcp-server-kubernetes", "4.1.7", "dist/index.js", "kubectl_context"),
        arguments={"operation": "list"},
    ),
    _npm(
        *("@eslint/mcp", "0.3.13", "src/mcp-cli.js", "lint-files"),
        arguments={"filePaths": [f"{WORK}/code.js"]},
        is_quick=True,
    ),
    _npm("@antv/mcp-server-chart", "0.9.10", "build/index.js", "generate_liquid_chart"),
    _npm("@mui/mcp", "0.1.6", "stdio.js", "generateReactCode"),
    _npm(
        *("@drawio/mcp", "1.6.1", "src/index.js", "list_pages"),
        arguments={"path": f"{WORK}/drawn.drawio"},
        is_quick=True,
    ),
    _npm(
        *("@bytebase/dbhub", "1.4.0", "dist/index.js", "execute_sql"),
        arguments={"sql": "select 1 as a"},
        args=("--demo",),
    ),
    _npm("mongodb-mcp-server", "3.0.4", "dist/esm/index.js", "disconnect"),
    _npm("@cyanheads/git-mcp-server", "2.15.3", "dist/index.js", "git_checkout"),
    _npm("@kazuph/mcp-taskmanager", "1.1.1", "dist/index.js", "list_requests"),
    _npm(
        *("figma-developer-mcp", "0.13.2", "dist/bin.js", "get_figma_data"),
        args=("--stdio", "--figma-api-key=none"),
    ),
    _npm(
        *("firecrawl-mcp", "3.26.0", "dist/index.js", "firecrawl_check_crawl_status"),
        env={"FIRECRAWL_API_KEY": "none"},
    ),
    _npm(
        *("@sveltejs/mcp", "0.1.26", "dist/index.mjs", "list-sections"),
        cannot="it ends at its start where its authors' site can't be reached",
    ),
    _npm(
        *("mcp-server-sqlite-npx", "0.8.0", "dist/index.js", "list-tables"),
        cannot="its database is downloaded by an install script from elsewhere than npm",
    ),
    _pypi("markitdown-mcp", "0.0.1a8", "convert_to_markdown", arguments={"uri": f"file://{WORK}/page.html"}),
    _pypi("duckduckgo-mcp-server", "0.7.0", "expand_link", arguments={"token": "none"}),
    _pypi("arxiv-mcp-server", "0.8.2", "list_papers"),
    _pypi(
        *("awslabs-aws-documentation-mcp-server", "1.2.3", "read_documentation"),
        program="awslabs.aws-documentation-mcp-server",
        arguments={"url": "https://example.org/"},
    ),
    _pypi("excel-mcp-server", "2.2.2", "list_workbooks", args=("stdio",)),
    _pypi("mcp-server-calculator", "0.2.1", "calculate", arguments={"expression": "2**70/3"}, is_quick=True),
    _pypi(
        *("mcp-alchemy", "2026.10.15.202659", "execute_query"),
        arguments={"query": "select 1 as a, 'ü' as b"},
        env={"DB_URL": f"sqlite:///{WORK}/alchemy.db"},
    ),
    _pypi("mcp-nixos", "3.1.0", "nix", arguments={"action": "none"}),
    _pypi("code-index-mcp", "2.17.1", "get_file_summary"),
    _pypi("wikipedia-mcp", "2.0.1", "get_article"),
    _pypi("mcp-server-analyzer", "0.4.1", "ruff-check", cannot="it needs Python 3.13"),
    _pypi("mcp-server-sqlite", "2025.4.25", "list_tables", args=("--db-path", f"{WORK}/lite.db"), beside=_SDK_1),
    _pypi("cli-mcp-server", "0.2.5", "show_security_rules", env={"ALLOWED_DIR": WORK}, beside=_SDK_1),
    _pypi(
        *("mcp-server-duckdb", "1.1.0", "query"),
        arguments={"query": "select 1 as a, 'ü' as b"},
        args=("--db-path", f"{WORK}/duck.db"),
        beside=_SDK_1,
    ),
    _pypi("networkx-mcp-server", "2.0.0", "none", program="networkx-mcp", cannot="its command imports what it has not"),
)

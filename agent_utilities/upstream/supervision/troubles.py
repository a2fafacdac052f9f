"""What went wrong with an upstream, said by its name, in a word and for a person, with no secret in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp import MCPError
from pydantic import ValidationError

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.connections.negotiation import has_ended
from agent_utilities.upstream.errors import Cause, UpstreamError
from agent_utilities.upstream.http.http_errors import http_trouble
from agent_utilities.upstream.secrets import secrets_of, without

if TYPE_CHECKING:
    from agent_utilities.upstream.processes.stderr_log import StderrLog

N_LINES = 5
"""Lines of stderr that an error quotes."""
MAX_CHARS = 2_000


class Troubles:
    """Makes the errors of one upstream.

    Args:
        config: the upstream's.
        stderr: what it writes to stderr.
    """

    def __init__(self, config: UpstreamConfig, stderr: StderrLog) -> None:
        self.config, self._stderr = config, stderr

    def error(self, cause: Cause, detail: str) -> UpstreamError:
        """Return an error with what it says on stderr, where it says something."""
        text = without(secrets_of(self.config), detail)[:MAX_CHARS]
        if self.config.transport == "stdio" and cause not in ("off", "stopping", "not found"):
            lines = [line.strip()[:400] for line in self._stderr.last_lines(N_LINES) if line.strip()]
            text += f"; stderr ends with: {' | '.join(lines)}" if lines else "; it wrote nothing to stderr"
        return UpstreamError(self.config.name, cause, text)

    def of_start(self, error: BaseException, exit_text: str) -> UpstreamError:
        """Return why a connection could not be made.

        Args:
            error: what was raised.
            exit_text: how its process ended; empty where it did not.
        """
        error = root_error(error)
        if isinstance(error, UpstreamError):
            return error
        if isinstance(error, TimeoutError):
            return self.error("did not start", f"it has not answered within {self.config.start_timeout_s:g} s")
        if isinstance(error, MCPError) and (trouble := http_trouble(error)) is not None:
            return self.error(trouble.cause, trouble.detail)
        if exit_text or (isinstance(error, Exception) and has_ended(error)):
            return self.error("did not start", f"it {exit_text or 'ended the connection'} before it had answered")
        if isinstance(error, MCPError):
            return self.error("not MCP", f"it answers the handshake with an error: {error.message}")
        if isinstance(error, ValidationError | RuntimeError | ValueError):
            return self.error("not MCP", f"it answers the handshake with what is none: {_line(error)}")
        return self.error("unreachable", f"{type(error).__name__}: {_line(error)}")

    def of_listing(self, error: BaseException) -> UpstreamError:
        """Return why what it has could not be listed."""
        error = root_error(error)
        if isinstance(error, TimeoutError):
            return self.error("did not answer", f"listing what it has took over {self.config.list_timeout_s:g} s")
        if isinstance(error, MCPError) and (trouble := http_trouble(error)) is not None:
            return self.error(trouble.cause, trouble.detail)
        if isinstance(error, MCPError):
            return self.error("not MCP", f"it answers a list with an error: {error.message}")
        return self.error("not MCP", f"it answers a list with what is none: {_line(error)}")

    def no_progress(self) -> UpstreamError:
        """Return what a call is answered with that has shown no progress for too long."""
        return self.error(
            "did not answer", f"the call showed no progress for {self.config.timeout_s:g} s and is given up"
        )

    def too_long(self) -> UpstreamError:
        """Return what a call is answered with that has taken as long as one may in all."""
        limit_s = self.config.limits.call_s
        return self.error(
            "did not answer",
            f"the call took over {limit_s:g} s in all and is given up; `maxCallSeconds` of its config raises that",
        )

    def died(self, exit_text: str, *, in_call: bool) -> UpstreamError:
        """Return what is said of a connection that has ended by itself."""
        doubt = " in the middle of the call, which it may have carried out, or not" if in_call else ""
        return self.error("died", f"it {exit_text or 'ended the connection'}{doubt}")


def root_error(error: BaseException) -> BaseException:
    """Return what was raised first, out of the groups that task groups put it into."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]

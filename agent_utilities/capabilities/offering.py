"""What an operator offers: the capabilities of folders, read when the gateway starts and when they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_utilities.capabilities.model import MAX_ACTIVE, Capabilities
from agent_utilities.capabilities.servers import CapabilityServers, servers_of
from agent_utilities.capabilities.tap import edited, read_capabilities
from agent_utilities.errors import SettingsError
from agent_utilities.selection.model import nearest
from agent_utilities.upstream.config import UpstreamConfig


@dataclass(frozen=True, eq=False)
class Offer:
    """What the operator offers, and where it comes from.

    Args:
        fixed: those that are on for everybody.
        most: the most that one caller may have on besides.
        routes: whether words switch capabilities on.
        folders: each a tap or the folder of its bundles, later over earlier; none where all stays as it is.
        folder: the gateway's working folder, where servers run.
        providers: by capability, the provider that the user chose.
        allow_install: whether what is missing is installed when a capability is switched on.
    """

    capabilities: Capabilities = field(default_factory=Capabilities)
    servers: CapabilityServers = field(default_factory=CapabilityServers)
    fixed: tuple[str, ...] = ()
    most: int = MAX_ACTIVE
    routes: bool = True
    folders: Sequence[Path] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)
    providers: Mapping[str, str] = field(default_factory=dict)
    allow_install: bool = False

    def read(self, own: Sequence[UpstreamConfig]) -> Offer:
        """Return what there is now, beside the servers of a gateway's own configuration.

        Raises:
            InputError: a folder is not there or can't be listed, or a capability that is to be on is not in any.
        """
        return self.having(self.read_folders(), own)

    def read_folders(self) -> Capabilities:
        """Return what the folders have now; of what there was, a half-finished edit takes nothing away."""
        capabilities = edited(self.capabilities, read_capabilities(self.folders, providers=self.providers))
        for name in self.fixed:
            if name not in capabilities.by_name:
                problem = next((line for line in capabilities.problems if name in line), None)
                near, known = nearest(name, list(capabilities.by_name)), ", ".join(list(capabilities.by_name)[:10])
                hint = problem or (f"did you mean {near}?" if near else f"there are: {known or 'none'}")
                raise SettingsError("no such capability", name, "--capability, MCP_BOOT_CAPABILITIES", hint)
        return capabilities

    def having(self, capabilities: Capabilities, own: Sequence[UpstreamConfig]) -> Offer:
        """Return an offer of other capabilities, beside the servers of a gateway's own configuration."""
        servers = servers_of(capabilities, own, self.environ, self.folder)
        return replace(self, capabilities=capabilities, servers=servers)

"""What the operator gave: the selection and the settings in environment and command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_utilities.activation.deferral import OFF
from agent_utilities.selection.final_off import final_off
from agent_utilities.selection.merge import Effective, effective, merge
from agent_utilities.selection.model import NO_NAMES, NOTHING, Selection
from agent_utilities.selection.parse import read_env
from agent_utilities.settings import VARIABLES, Settings, read_settings


class Operator:
    """Reads the operator's side, when it is first needed.

    Args:
        environ: the environment to read; the process's by default.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._given_environ = environ
        self._launch = NOTHING
        self._selection: Selection | None = None
        self._settings: Settings | None = None
        self.pins = NO_NAMES
        """Tools that are in every list which permits them."""
        self.defers_by_default = OFF
        """When tools are deferred where nobody says."""
        self.has_configured_denies = False
        """Whether components may bring denies of his along; set before anything is served."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that values are read from."""
        return os.environ if self._given_environ is None else self._given_environ

    @property
    def selection(self) -> Selection:
        """The operator's selection: environment and command line.

        Raises:
            SelectionError: an environment variable can't be read; nothing is served until it can (law L5).
        """
        if self._selection is None:
            self._selection = merge(read_env(self.environ, known=VARIABLES), self._launch)
        return self._selection

    @property
    def notices(self) -> list[str]:
        """What the command line asks for and does not get, a line each.

        Raises:
            SelectionError: an environment variable can't be read.
        """
        line = final_off(self.selection)
        return [] if line is None else [line]

    @property
    def settings(self) -> Settings:
        """The operator's settings.

        Raises:
            SettingsError: a value can't be read.
        """
        if self._settings is None:
            self._settings = read_settings(self.environ)
        return self._settings

    def effective(self, caller: Selection) -> Effective:
        """Return what holds for a caller: what the operator gave and what the caller did, under the policy."""
        return self._with_configured(effective(merge(self.selection, caller), self.settings.selection_policy))

    def alone(self, selection: Selection) -> Effective:
        """Return what holds of a selection of the operator's where no caller gives any."""
        return self._with_configured(effective(selection))

    def _with_configured(self, settings: Effective) -> Effective:
        return replace(settings, configured=True) if self.has_configured_denies else settings

    def launch(self, selection: Selection, **settings: Any) -> None:
        """Take the command line's selection and settings, for all requests to come."""
        self._launch, self._selection = selection, None
        self._settings = self.settings.model_copy(update=settings)

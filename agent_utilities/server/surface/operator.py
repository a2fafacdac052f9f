"""What the operator gave: the selection and the settings in files, environment and command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from agent_utilities.policy.curation import bound_to_tags
from agent_utilities.selection.active import OFF
from agent_utilities.selection.merge import Effective, effective, final_off, merge, off_for_no_match
from agent_utilities.selection.model import NO_NAMES, NOTHING, Selection
from agent_utilities.selection.parse import read_env
from agent_utilities.selection.profiles import SettingsFiles
from agent_utilities.settings import VARIABLES, Settings, read_settings
from agent_utilities.settings_file import VARIABLE as CONFIG_FILE
from agent_utilities.settings_file import read_files


class Operator:
    """Reads the operator's side, when it is first needed.

    Args:
        environ: the environment to read; the process's by default. Beside one that is given, no file is looked for.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._given_environ = environ
        self._launch, self._launch_settings = NOTHING, dict[str, Any]()
        self.pins = NO_NAMES
        """Tools that are in every list which permits them."""
        self.own_tags: frozenset[str] | None = None
        """The tags that they gave, folded, and that their pins may fit; None where whoever tags a tool is trusted."""
        self.defers_by_default = OFF
        """When tools are deferred where nobody says."""
        self.has_configured_denies = False
        """Whether components may bring denies of theirs along; set before anything is served."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that values are read from."""
        return os.environ if self._given_environ is None else self._given_environ

    @cached_property
    def files(self) -> SettingsFiles:
        """What the settings files say, read once.

        Raises:
            InputError: one can't be read, or says what it may not; nothing is served until it can be (law L5).
        """
        return read_files(self._given_environ)

    @cached_property
    def selection(self) -> Selection:
        """The operator's selection: files, environment and command line, their profile taken in.

        Raises:
            InputError: a value can't be read; nothing is served until it can be (law L5).
        """
        in_environ = read_env(self.environ, known=(*VARIABLES, CONFIG_FILE))
        return self.files.for_operator(merge(self.files.selection, in_environ, self._launch))

    @property
    def notices(self) -> list[str]:
        """Which settings files were read, and what the command line asks for and does not get, a line each.

        Raises:
            InputError: a value can't be read.
        """
        names = [file.name for file in self.files.files]
        told = [f"settings of {', '.join(names)}" if names else None, final_off(self.selection)]
        if self.settings.no_match == "search":
            told.append(off_for_no_match(self.alone(self.selection)))
        return [line for line in told if line is not None]

    @cached_property
    def settings(self) -> Settings:
        """The operator's settings.

        Raises:
            SettingsError: a value can't be read.
        """
        settings = read_settings(self.environ, [file.settings for file in self.files.files])
        return settings.model_copy(update=self._launch_settings)

    def effective(self, caller: Selection) -> Effective:
        """Return what holds for a caller: what the operator gave and what the caller did, under the policy.

        Raises:
            SelectionError: the caller names a profile that there is not; see `check`.
        """
        asked = self.files.for_caller(caller) if caller.gives("profile") else caller
        held = effective(merge(self.selection, asked), self.settings.selection_policy)
        if self.own_tags is not None:
            held = bound_to_tags(held, self.own_tags)
        return self._with_configured(held)

    def check(self, caller: Selection) -> None:
        """Check that what a caller names of the operator's is there.

        Raises:
            SelectionError: it is not.
        """
        if caller.gives("profile"):
            self.files.for_caller(caller)

    def alone(self, selection: Selection) -> Effective:
        """Return what holds of a selection of the operator's where no caller gives any."""
        return self._with_configured(effective(selection))

    def _with_configured(self, settings: Effective) -> Effective:
        if settings.capabilities is None and settings.configured == self.has_configured_denies:
            return settings
        return replace(settings, configured=self.has_configured_denies, capabilities=None)

    def again(self) -> Operator:
        """Return the same operator with files and environment read anew."""
        other = Operator(self._given_environ)
        other.launch(self._launch, **self._launch_settings)
        return other

    def launch(self, selection: Selection, **settings: Any) -> None:
        """Take the command line's selection and settings, for all requests to come."""
        self._launch, self._launch_settings = selection, self._launch_settings | settings
        for read_before in ("selection", "settings"):
            vars(self).pop(read_before, None)

"""The operator's configuration: the selection and the settings in files, environment and command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel

from agent_utilities.errors import SettingsError
from agent_utilities.policy.curation import bound_to_tags
from agent_utilities.seam.events import Pinned
from agent_utilities.selection.active import OFF
from agent_utilities.selection.channels import field_of
from agent_utilities.selection.merge import Effective, effective, final_off, merge, off_for_no_match
from agent_utilities.selection.model import NO_NAMES, NOTHING, Selection
from agent_utilities.selection.parse import read_env
from agent_utilities.selection.profiles import FileSetting, SettingsFiles
from agent_utilities.settings import OPTIONS, TABLES, VARIABLES, Settings, option, read_settings, variable
from agent_utilities.settings_file import VARIABLE as CONFIG_FILE
from agent_utilities.settings_file import named_features, read_files

_M = TypeVar("_M", bound=BaseModel)


class Operator:
    """Reads the operator's side, when it is first needed.

    Args:
        environ: the environment to read; the process's by default. With any other, settings files are not searched for.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._given_environ = environ
        self._launch, self._launch_settings = NOTHING, dict[str, Any]()
        self.pinned = Pinned(NO_NAMES, None, OFF)
        """What the configuration of servers says of lists."""
        self._is_declared = False
        self.models: tuple[type[BaseModel], ...] = ()
        """Of the settings that features declare."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that values are read from."""
        return os.environ if self._given_environ is None else self._given_environ

    @property
    def named_features(self) -> tuple[list[str], str]:
        """The names of features that the operator gives, and where."""
        if (named := named_features(self._given_environ)) is None:
            return [], ""
        names = named.value.replace(",", " ").split() if isinstance(named.value, str) else named.value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise SettingsError("not a list of names", named.value, named.source, 'write it as ["office-hours"]')
        return names, named.source

    def declare(self, models: Iterable[type[BaseModel]]) -> None:
        """Have the settings of some models be known beside those of every server.

        Raises:
            SettingsError: a name is taken.
        """
        self._is_declared, self.models = True, tuple(models)
        known = {*Settings.model_fields, *TABLES, *OPTIONS}
        for model in self.models:
            for name in model.model_fields:
                if name in known or field_of(name, "file") is not None:
                    raise SettingsError("two settings have this name", name, model.__name__, "rename the feature's")
                known.add(name)
        for read_before in ("files", "selection", "settings"):
            vars(self).pop(read_before, None)

    @cached_property
    def files(self) -> SettingsFiles:
        """What the settings files say, read once.

        Raises:
            InputError: one can't be read, or says what it may not; nothing is served until it can be (law L5).
        """
        names = [name for kind in self.models for name in kind.model_fields]
        return read_files(self._given_environ, names if self._is_declared else None)

    @cached_property
    def selection(self) -> Selection:
        """The operator's selection: files, environment and command line, their profile taken in.

        Raises:
            InputError: a value can't be read; nothing is served until it can be (law L5).
        """
        declared = [variable(name) for kind in self.models for name in kind.model_fields]
        in_environ = read_env(self.environ, known=(*VARIABLES, CONFIG_FILE, *declared))
        return self.files.for_operator(merge(self.files.selection, in_environ, self._launch))

    @property
    def notices(self) -> list[str]:
        """The settings files that were read, and the options of the command line without effect, a line each.

        Raises:
            InputError: a value can't be read.
        """
        names = [file.name for file in self.files.files]
        lines = [f"settings of {', '.join(names)}" if names else None, final_off(self.selection)]
        if self.settings.no_match == "search":
            lines.append(off_for_no_match(self.alone(self.selection)))
        return [line for line in lines if line is not None]

    @cached_property
    def settings(self) -> Settings:
        """The operator's settings.

        Raises:
            SettingsError: a value can't be read.
        """
        settings: Settings = read_settings(self.environ, [file.settings for file in self.files.files])
        own = {name: value for name, value in self._launch_settings.items() if name in Settings.model_fields}
        return settings.model_copy(update=own)

    def declared(self, kind: type[_M]) -> _M:
        """Return the settings that a feature declares.

        Raises:
            SettingsError: a value can't be read.
        """
        options = {name: FileSetting(value, f"option {option(name)}") for name, value in self._launch_settings.items()}
        return read_settings(self.environ, [*(file.settings for file in self.files.files)], kind, options)

    def effective(self, caller: Selection) -> Effective:
        """Return the effective settings of a caller: the operator's and the caller's, merged under the policy.

        Raises:
            SelectionError: the caller names an unknown profile; see `check`.
        """
        own = self.files.for_caller(caller) if caller.gives("profile") else caller
        held = effective(merge(self.selection, own), self.settings.selection_policy)
        if self.pinned.own_tags is not None:
            held = bound_to_tags(held, self.pinned.own_tags)
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

    @property
    def _has_configured_denies(self) -> bool:
        """Whether components may bring denies of theirs along."""
        return self.pinned.own_tags is not None

    def _with_configured(self, settings: Effective) -> Effective:
        if settings.capabilities is None and settings.configured == self._has_configured_denies:
            return settings
        return replace(settings, configured=self._has_configured_denies, capabilities=None)

    def again(self) -> Operator:
        """Return the same operator with files and environment read anew."""
        other = Operator(self._given_environ)
        other._is_declared, other.models = self._is_declared, self.models
        other.launch(self._launch, **self._launch_settings)
        return other

    def launch(self, selection: Selection, **settings: Any) -> None:
        """Set the command line's selection and settings, for all requests to come."""
        self._launch, self._launch_settings = selection, self._launch_settings | settings
        for read_before in ("selection", "settings"):
            vars(self).pop(read_before, None)

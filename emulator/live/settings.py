"""Configuration files of the live fleet's processes: YAML (or JSON), checked before anything starts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from balancer.wrong_values import sentences
from balancer.yaml_text import read_yaml
from emulator.text.file_errors import refusal

if TYPE_CHECKING:
    from pathlib import Path


class SettingsError(ValueError):
    """The file cannot be used; the text names the file and the fields."""


class Settings(BaseModel):
    """A section of a configuration file; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise ValueError(f"these nodes are listed twice: {', '.join(twice)}")
    return names


NodeNames = Annotated[tuple[str, ...], AfterValidator(_each_once)]
"""A field with names of nodes, each of them once."""
SettingsType = TypeVar("SettingsType", bound=Settings)


def load_settings(path: Path, model: type[SettingsType]) -> SettingsType:
    """The file's content as `model`; raises SettingsError."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: cannot be read: {refusal(error)}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: must be a mapping of settings, not {type(content).__name__}")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise SettingsError("\n".join(f"{path}: {each}" for each in sentences(error))) from error

"""What is wrong with a value is said in plain words, with the value unless it is long or may be secret."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import yaml
from pydantic import BaseModel, Field, ValidationError

from balancer.wrong_values import not_yaml, sentence, sentences


class Part(BaseModel, extra="forbid"):
    nodes: int = Field(default=1, ge=1, le=10)
    speed: float = Field(default=1, gt=0)
    mood: Literal["calm", "wild"] = "calm"
    on: bool = True
    file: Path = Path()
    names: list[str] = Field(default_factory=list, min_length=0, max_length=1)


def wrong(**values):
    with pytest.raises(ValidationError) as error:
        Part.model_validate(values)
    return error.value


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"nodes": 0}, "nodes: must be at least 1, not 0"),
        ({"nodes": 11}, "nodes: must be at most 10, not 11"),
        ({"nodes": "four"}, "nodes: must be a whole number, not 'four'"),
        ({"nodes": 1.5}, "nodes: must be a whole number, not 1.5"),
        ({"speed": 0}, "speed: must be more than 0, not 0"),
        ({"mood": "odd"}, "mood: must be 'calm' or 'wild', not 'odd'"),
        ({"on": "maybe"}, "on: must be true or false, not 'maybe'"),
        ({"names": 4}, "names: must be a list, not 4"),
        ({"file": 4}, "file: must be the name of a file, not 4"),
        ({"nods": 4}, "nods: there is no such key"),
        ({"nodes": "x" * 100}, "nodes: must be a whole number"),
    ],
)
def test_a_wrong_value_is_said_plainly(values, said):
    assert sentences(wrong(**values)) == [said]


def test_a_value_that_may_be_secret_is_left_out():
    assert sentence(wrong(nodes="hunter2").errors()[0], with_value=False) == "nodes: must be a whole number"


def test_wrong_yaml_is_told_with_its_line():
    with pytest.raises(yaml.YAMLError) as error:
        yaml.safe_load("a: 1\n  b: 2\n")
    assert not_yaml(error.value) == ", line 2: not valid YAML: mapping values are not allowed here"
    assert not_yaml(error.value, with_line=False).startswith(": not valid YAML")


def test_a_file_in_another_encoding_is_told_with_line_and_byte():
    with pytest.raises(UnicodeDecodeError) as error:
        b"name: a\nabout: caf\xe9\n".decode()
    said = "not valid YAML: byte 0xe9 is no UTF-8; save the file in that encoding"
    assert not_yaml(error.value) == f", line 2: {said}"
    assert not_yaml(error.value, with_line=False) == f": {said}"

"""Plug-ins of all kinds: found by name, made with the parameters that a file or a command gives them.

A kind is an entry-point group. A plug-in is a class (its parameters are those of its constructor), or a function or
an object that is used as it is. It comes with an installed package, which declares it in the group, or from a file
(`balancer/plugin_files.py`). Wherever one is named, the syntax is `name` or `{name: {parameter: value}}`.
"""

from __future__ import annotations

import inspect
import json
import sys
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from importlib.metadata import EntryPoint, distributions
from itertools import chain
from math import isfinite
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from pydantic import (
    ConfigDict,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)

from balancer.wrong_values import reason, sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALGORITHMS = "balancer.algorithms"
PREDICTORS = "balancer.predictors"
BATCH_DRIVERS = "balancer.batch_drivers"
CLOUD_DRIVERS = "balancer.cloud_drivers"
CLOCKS = "balancer.clocks"

KINDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    ALGORITHMS: (("plan",), ("plan(view)",)),
    PREDICTORS: (("predict",), ("predict(history, slot)",)),
    BATCH_DRIVERS: (("reclaim_nodes", "restore_nodes", "get_status_of_nodes", "get_status_of_all_nodes"),),
    CLOUD_DRIVERS: (("get_status_of_hosts",),),
    CLOCKS: (("now_us", "not_before", "alarm", "paused"),),
}
"""What a plug-in of each kind of the Balancer must have: all the methods of one of the tuples.

`plan(view)` stands for a function with this parameter, which is the method `plan` of a plug-in that has no other one.
"""


class PluginError(ValueError):
    """No such plug-in, one that cannot be loaded, or a wrong parameter; says which and what to do."""


@dataclass(frozen=True, slots=True)
class FromFile:
    """A plug-in that a user's file brought."""

    group: str
    name: str
    source: str
    """FILE:NAME."""
    sha256: str
    """Of the file."""
    thing: Any = field(compare=False, repr=False)
    identity: int = 0
    """Of what a program gave: which thing it is. Its text says nothing of values that it closes over."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plug-ins from files that are in use. Never changed: others are another value."""

    things: tuple[FromFile, ...] = ()

    def find(self, group: str, name: str) -> FromFile | None:
        return next((each for each in self.things if (each.group, each.name) == (group, name)), None)


_NONE = Plugins()
IN_USE: ContextVar[Plugins] = ContextVar("plug-ins from files", default=_NONE)
"""Set by `plugin_files.in_use` for as long as a command or a run lasts, and only there."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a plug-in may be told."""

    name: str
    default: Any = MISSING
    annotation: Any = Any


def plugin_names(group: str) -> list[str]:
    """The names of this kind: of installed packages, and of files that are in use; sorted."""
    return sorted(
        installed(group).keys() | {each.name for each in IN_USE.get().things if each.group == group}
    )


def find_plugin(group: str, name: str) -> Any:
    """The class, function or object behind a name. Raises PluginError; for an unknown name with the nearest one."""
    found = IN_USE.get().find(group, name)
    return found.thing if found is not None else _installed(group, name)


def make_plugin(group: str, item: object) -> Any:
    """The plug-in that a file or a command asks for.

    An item is a name (`daily_batch`), a name with parameters (`window: {begin_s: 0, end_s: 3600}`), or, where there
    is exactly one parameter or exactly one must be given, a name with its value (`limit: 1000`). Values are converted
    to the declared types.
    Raises PluginError, or the TypeError or ValueError of a class that does not like its parameters.
    """
    name, values = name_and_values(group, item)
    return made(group, name, find_plugin(group, name), values)


def made(group: str, name: str, plugin: Any, values: Any = None) -> Any:
    """The plug-in with these parameters; raises as `make_plugin` does."""
    owner = f"{noun(group)} {name}"
    known = parameters_of(plugin)
    values = {} if values is None else values
    if not isinstance(values, dict):
        needed = known if len(known) == 1 else [each for each in known if each.default is MISSING]
        if len(needed) != 1:
            names = ", ".join(each.name for each in known)
            takes = f"takes parameters by name ({names})" if known else "has no parameters"
            raise PluginError(f"{owner} {takes}, not {values!r}")
        values = {needed[0].name: values}
    for key in values:
        if key not in {each.name for each in known}:
            hint = nearest(str(key), [each.name for each in known], none="it has none")
            raise PluginError(f"{owner} has no parameter {key!r}{hint}")
    for each in known:
        if each.default is MISSING and each.name not in values:
            raise PluginError(f"{owner} needs the parameter {each.name!r}")
    thing = plugin
    if isinstance(plugin, FunctionType):
        thing = from_function(_bound(owner, plugin, values, known), KINDS.get(group, ()))
    elif inspect.isclass(plugin):
        settings_type = getattr(plugin, "settings_type", None)
        thing = _called(owner, settings_type or plugin, values, known)
        thing = thing if settings_type is None else cast("Any", plugin)(thing)
    if group in KINDS and not is_like(thing, KINDS[group]):
        raise PluginError(f"{owner} is no {noun(group)}: it has no {' and '.join(KINDS[group][0])}")
    return thing


def is_like(thing: Any, alternatives: Iterable[Iterable[str]]) -> bool:
    """Whether it has all the methods of one of the alternatives.

    `plan`: a method; `plan(view)`: it is a function with this parameter; `.plan(view)`: a method with it.
    """
    return any(all(_has(thing, name) for name in names) for names in alternatives)


def _has(thing: Any, name: str) -> bool:
    method, is_form, parameters = name.partition("(")
    if not is_form:
        return hasattr(thing, method)
    if method.startswith("."):
        function = getattr(getattr(thing, method[1:], None), "__func__", getattr(thing, method[1:], None))
        return isinstance(function, FunctionType) and (
            _form(function) == f"({parameters}" or _form(function).partition(", ")[2] == parameters
        )
    return isinstance(thing, FunctionType) and _form(thing) == f"({parameters}"


@lru_cache(maxsize=256)
def _form(function: FunctionType) -> str:
    """Its parameters, but for those that have defaults; `now_us` and `_view` are `now` and `view`."""
    names = [
        each.name.lstrip("_").removesuffix("_us")
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty
    ]
    return f"({', '.join(names)})"


def from_function(thing: Any, alternatives: Iterable[Iterable[str]]) -> Any:
    """A function as the plug-in with the one method that it stands for; anything else as it is."""
    function = thing.func if isinstance(thing, partial) else thing
    for name in chain.from_iterable(alternatives):
        method, is_form, _ = name.partition("(")
        if method and is_form and method[0] != "." and _has(function, name):
            return SimpleNamespace(**{method: thing})
    return thing


def _bound(owner: str, function: FunctionType, values: Mapping[str, Any], known: Iterable[Parameter]) -> Any:
    """The function with what a file says of its parameters with defaults."""
    if not values:
        return function
    return partial(function, **_called(owner, dict, values, known, function))


def parameters_of(plugin: Any) -> tuple[Parameter, ...]:
    """What the plug-in may be told: what its constructor takes, or what the dataclass `settings_type` of it has.

    Of a function its parameters with defaults.
    """
    if isinstance(plugin, FunctionType):
        return tuple(
            Parameter(each.name, each.default, Any if each.annotation is each.empty else each.annotation)
            for each in inspect.signature(plugin).parameters.values()
            if each.default is not each.empty
        )
    if not inspect.isclass(plugin):
        return ()
    of = getattr(plugin, "settings_type", plugin)
    if of.__init__ is object.__init__:
        return ()
    defaults = {each.name: each.default_factory for each in fields(of)} if is_dataclass(of) else {}
    found = []
    for each in inspect.signature(of).parameters.values():
        if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            continue
        default = MISSING if each.default is each.empty else each.default
        factory = defaults.get(each.name, MISSING)
        if callable(factory):
            default = factory()
        annotation = Any if each.annotation is each.empty else each.annotation
        found.append(Parameter(each.name, default, annotation))
    return tuple(found)


def name_and_values(group: str, item: object) -> tuple[str, Any]:
    """The two halves of `name` or `{name: parameters}`. Raises PluginError."""
    if isinstance(item, str):
        return item, None
    if isinstance(item, dict) and len(item) == 1:
        ((name, values),) = item.items()
        return str(name), values
    if isinstance(item, dict) and item:
        names = ", ".join(map(str, item))
        raise PluginError(f"{a_noun(group)} has one name, and here are {len(item)}: {names}")
    raise PluginError(f"{a_noun(group)} is written as `name` or `name: {{parameter: value}}`, not {item!r}")


def name_of(group: str, item: object) -> str:
    """The name alone. Raises PluginError."""
    return name_and_values(group, item)[0]


def about(plugin: Any) -> str:
    """What it says of itself; empty for a dataclass that only repeats its fields."""
    text = inspect.getdoc(plugin) or ""
    is_made_up = inspect.isclass(plugin) and text.startswith(f"{plugin.__name__}(")
    return "" if is_made_up else text.strip()


def listing(group: str) -> dict[str, dict[str, Any]]:
    """What there is of a kind: first line about it, parameters with defaults (`...`: needed), and whence it comes."""
    found = {}
    for name in plugin_names(group):
        plugin = find_plugin(group, name)
        from_file = IN_USE.get().find(group, name)
        entry = installed(group).get(name)
        found[name] = {
            "about": about(plugin).split("\n")[0],
            "parameters": {
                each.name: "..." if each.default is MISSING else each.default
                for each in parameters_of(plugin)
                if not each.name.startswith("_")
            },
            "from": from_file.source if from_file is not None else entry.value if entry is not None else "",
        }
    return found


def noun(group: str) -> str:
    """The kind in words: `balancer.batch_drivers` is `batch driver`."""
    text = group.rpartition(".")[2].replace("_", " ")
    return f"{text[:-3]}y" if text.endswith("ies") else text.removesuffix("s")


def whose(group: str, thing: object) -> str:
    """Kind, name and place of a plug-in, for errors."""
    for each in IN_USE.get().things:
        if each.group == group and (each.thing is thing or each.thing is type(thing)):
            return f"{noun(group)} {each.name} ({each.source})"
    return f"{noun(group)} {type(thing).__module__}:{type(thing).__qualname__}"


def a_noun(group: str) -> str:
    return f"{'an' if noun(group)[0] in 'aeiou' else 'a'} {noun(group)}"


def nearest(name: str, known: Iterable[str], *, none: str = "there are: none") -> str:
    """What was probably meant, or all there is."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(names)}" if names else f"; {none}"


def check_number(
    owner: str,
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    whole: bool = False,
) -> None:
    """Raise ValueError unless the parameter is a finite number within its bounds."""
    kind = "a whole number" if whole else "a number"
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value):  # type: ignore[arg-type]
        raise ValueError(f"{owner}: {name} must be {kind}, not {value!r}")
    if above is not None and not value > above:  # type: ignore[operator]
        raise ValueError(f"{owner}: {name} must be more than {above:g}, not {value!r}")
    if at_least is not None and not value >= at_least:  # type: ignore[operator]
        raise ValueError(f"{owner}: {name} must be at least {at_least:g}, not {value!r}")
    if at_most is not None and not value <= at_most:  # type: ignore[operator]
        raise ValueError(
            f"{owner}: {name} must be at most {int(at_most) if whole else f'{at_most:g}'}, not {value!r}"
        )


def installed(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a kind by name: those of installed packages."""
    return _entry_points(tuple(sys.path), group.partition(".")[0]).get(group, {})


@cache
def _entry_points(_: tuple[str, ...], product: str) -> dict[str, dict[str, EntryPoint]]:
    """By group and name. Looking through what is installed takes longer than a small run: once for each `sys.path`."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for distribution in distributions():
        text = distribution.read_text("entry_points.txt") or ""
        if f"[{product}." in text:  # hardly any; parsing all takes most of the time
            for entry in distribution.entry_points:
                found.setdefault(entry.group, {}).setdefault(entry.name, entry)
    return found


@cache
def _installed(group: str, name: str) -> Any:
    entry = installed(group).get(name)
    if entry is not None:
        try:
            return entry.load()
        except ModuleNotFoundError as error:
            raise PluginError(
                f"{noun(group)} {name} ({entry.value}) cannot be loaded: {error}; "
                f"one of the project's own: install this package with its extra, FILE.whl[{name}]"
            ) from error
        except Exception as error:
            raise PluginError(f"{noun(group)} {name} ({entry.value}) cannot be loaded: {error}") from error
    raise PluginError(
        f"there is no {noun(group)} {name!r}{_of_another_kind(group, name) or nearest(name, plugin_names(group))}"
    )


def _of_another_kind(group: str, name: str) -> str:
    """What a plug-in of this name is taken for, by what it has; '' if no file has one."""
    for each in IN_USE.get().things:
        if each.group != group and name in {each.name, getattr(each.thing, "__name__", "")}:
            return f"; {each.source} has what {a_noun(each.group)} has"
    return ""


def _called(
    owner: str, made_of: Any, values: Mapping[str, Any], known: Iterable[Parameter], declared_by: Any = None
) -> Any:
    """The class, called. What it says itself about a value of a wrong type goes before what can be said here."""
    wrong: PluginError | None = None
    converted = {}
    for each in known:
        if each.name in values:
            converted[each.name] = value = values[each.name]
            try:
                converted[each.name] = _converted(value, _type_of(declared_by or made_of, each))
            except ValidationError as error:
                wrong = wrong or PluginError(f"{owner}: {each.name}: {_why(error, value)}")
    try:
        thing = made_of(**converted)
    except Exception as error:
        if wrong is not None and not isinstance(error, ValueError):
            raise wrong from error
        raise
    if wrong is not None:
        raise wrong
    return thing


def _why(error: ValidationError, value: Any) -> str:
    """What is wrong with a value; of keys that are not known the first."""
    found = error.errors()
    unknown = next((each for each in found if each["type"] == "unexpected_keyword_argument"), None)
    return reason({**found[0], "input": value}) if unknown is None else sentence(unknown)


_NO_OTHER_KEYS = ConfigDict(extra="forbid")
_YAML_WORDS = {False: ("off", "no"), True: ("on", "yes")}
"""Words that YAML reads as truth values."""


def _converted(value: Any, annotation: Any) -> Any:
    """The value, as files have it, in the declared type. Raises ValidationError.

    Text is no number, nor is a truth value; a list becomes the tuple, a word the constant that is wanted. A whole
    number stays one where a fraction could be. What YAML takes for a truth value (`off`) is the word, where that is
    wanted. A key that a table of settings does not have is an error.
    """
    try:
        if not isinstance(annotation, type):
            adapter = TypeAdapter(annotation, config=_NO_OTHER_KEYS)
        elif value is None:
            adapter = TypeAdapter(annotation)
        else:  # a class that stands alone has no configuration in pydantic
            adapter = TypeAdapter(annotation | None, config=_NO_OTHER_KEYS)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return value  # a type that is not for files: the class knows what to do
    try:
        found = adapter.validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError:
        for word in _YAML_WORDS[value] if isinstance(value, bool) else ():
            with suppress(ValidationError):
                return adapter.validate_python(word, strict=True)
        raise
    return value if type(value) is int and type(found) is float else found


def _type_of(owner: Any, parameter: Parameter) -> Any:
    """The declared type; Any if that is known to type checkers only.

    A field that a class inherits is declared by the names of the module of the class that declares it.
    """
    declares = next(
        (each for each in getattr(owner, "__mro__", ()) if parameter.name in inspect.get_annotations(each)),
        owner,
    )
    try:
        names = vars(sys.modules[declares.__module__])
        holder = type("_", (), {"__annotations__": {parameter.name: parameter.annotation}})
        return get_type_hints(holder, globalns=dict(names), include_extras=True)[parameter.name]
    except NameError:
        return Any

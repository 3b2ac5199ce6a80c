"""Plug-ins from files of the user's own: `my.py:MyThing`, with nothing installed.

What kind of plug-in it is can be seen from its methods (`balancer.plugins.KINDS`), or it says so itself
(`plugin_kind = "transform"`). It is known by its attribute `name`, else as `my_thing`. Which files are in use is a
value of the context: set for as long as a command or a run lasts, so that two runs of one process may have others.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from threading import Lock
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, field_serializer, model_validator

from balancer.plugins import (
    IN_USE,
    KINDS,
    FromFile,
    PluginError,
    Plugins,
    a_noun,
    installed,
    is_like,
    nearest,
    noun,
)

if TYPE_CHECKING:
    import click

IN_PYTHON = "python"
"""Instead of a file: what a program gave."""

_LOADING = Lock()
"""Two threads of one process must not make two modules of one file."""


class PluginFile(BaseModel):
    """A plug-in in a file: as written, `FILE.py:NAME`; as stored with results, also the hash of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    file: Path
    name: str
    sha256: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, written: Any) -> Any:
        if isinstance(written, str):
            file, colon, name = written.rpartition(":")
            if colon and file and name.isidentifier():
                return {"file": file, "name": name}
        elif not isinstance(written, dict) or {"file", "name"} <= written.keys():
            return written
        raise ValueError(f"a plug-in is given as FILE.py:NAME, for example my.py:MyThing, not {written!r}")

    @field_serializer("file")
    def _text(self, file: Path) -> str:
        return str(file)

    @property
    def source(self) -> str:
        return f"{self.file}:{self.name}"


class Pluggable(BaseModel):
    """Settings with a key `plugins`: a list of `FILE.py:NAME`. What the command gave (`--plugin`) is added to it."""

    model_config = ConfigDict(defer_build=True)  # what checks is made when the first one is checked

    plugins: tuple[PluginFile, ...] = ()

    plugin_kinds: ClassVar[Mapping[str, tuple[tuple[str, ...], ...]]] = KINDS

    @model_validator(mode="wrap")
    @classmethod
    def _plugged_in(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(values, dict) or not (values.get("plugins") or IN_USE.get().things):
            return handler(values)
        entries = values.get("plugins") or ()
        if isinstance(entries, str) or not isinstance(entries, list | tuple):
            raise ValueError(f"plugins: a list of FILE.py:NAME is expected, not {entries!r}")  # noqa: TRY004 - a border: one kind of error
        files = [PluginFile.model_validate(each) for each in entries]
        plugins = load(files, cls.plugin_kinds, IN_USE.get())
        with in_use(plugins):
            return handler({**values, "plugins": files_of(plugins)})

    @contextmanager
    def plugged_in(self) -> Iterator[None]:
        """For as long as the block lasts, these plug-ins are known by their names. Raises PluginError."""
        with in_use(load(self.plugins, self.plugin_kinds)):
            yield


@contextmanager
def in_use(plugins: Plugins) -> Iterator[None]:
    """These plug-ins, and no others from files, are known in the block."""
    before = IN_USE.set(plugins)
    try:
        yield
    finally:
        IN_USE.reset(before)


def files_of(plugins: Plugins, groups: Sequence[str] | None = None) -> tuple[PluginFile, ...]:
    """As they are stored; only those of these kinds if some are given."""
    found = []
    for each in plugins.things:
        if groups is None or each.group in groups:
            file, _, name = each.source.rpartition(":")
            found.append(PluginFile(file=Path(file), name=name, sha256=each.sha256))
    return tuple(found)


def load(
    files: Sequence[PluginFile],
    kinds: Mapping[str, tuple[tuple[str, ...], ...]] = KINDS,
    besides: Plugins | None = None,
) -> Plugins:
    """The plug-ins of these files, after those of `besides`. Raises PluginError, naming file and line."""
    plugins = besides or Plugins()
    for file in files:
        plugins = with_one(plugins, _load(file, kinds))
    return plugins


def with_one(plugins: Plugins, found: FromFile) -> Plugins:
    """These and one more, if it is not there already. Raises PluginError where its name is taken."""
    if found in plugins.things:
        return plugins
    registered, entry = plugins.find(found.group, found.name), installed(found.group).get(found.name)
    if registered is not None or entry is not None:
        source = registered.source if registered is not None else entry.value if entry is not None else ""
        raise PluginError(
            f"{found.source}: there is {a_noun(found.group)} {found.name!r} already ({source}); "
            "give it another name with an attribute `name`"
        )
    return Plugins((*plugins.things, found))


def use_files(
    context: click.Context,
    texts: Sequence[str],
    kinds: Mapping[str, tuple[tuple[str, ...], ...]] = KINDS,
) -> None:
    """`--plugin FILE.py:NAME`: from here to its end the command knows the plug-ins. Raises PluginError."""
    context.with_resource(in_use(load_plugin_files(texts, kinds, IN_USE.get())))


def load_plugin_files(
    texts: Iterable[str],
    kinds: Mapping[str, tuple[tuple[str, ...], ...]] = KINDS,
    besides: Plugins | None = None,
) -> Plugins:
    """The plug-ins of `FILE.py:NAME`, relative to where the user stands, after `besides`. Raises PluginError."""
    try:
        files = [_absolute(PluginFile.model_validate(each), Path()) for each in texts]
    except ValueError as error:
        raise PluginError(reason(error)) from error
    return load(files, kinds, besides)


def resolved(written: Any, folder: Path) -> Any:
    """The key `plugins` of a file with its paths taken relative to the file's folder, or to where the user stands."""
    if not isinstance(written, list):
        return written
    return [_absolute(PluginFile.model_validate(each), folder).model_dump(mode="json") for each in written]


def _absolute(file: PluginFile, folder: Path) -> PluginFile:
    if str(file.file) == IN_PYTHON:
        return file
    there = folder / file.file
    return file.model_copy(update={"file": (there if there.exists() else file.file).absolute()})


def reason(error: ValueError) -> str:
    """What is wrong, in one line, whoever found it."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    first = errors()[0]
    words = {"missing": "there is no {}", "extra_forbidden": "unknown key {}"}.get(first["type"])
    if words is not None:
        return words.format(repr(".".join(map(str, first["loc"]))))
    return str(first["msg"]).removeprefix("Value error, ")


def with_plugin_object(
    plugins: Plugins,
    thing: Any,
    kinds: Mapping[str, tuple[tuple[str, ...], ...]],
    *,
    may_rename: bool = True,
) -> tuple[Plugins, str]:
    """These and one that a program has in its hands (a function, a class, an object); and its name. Raises PluginError.

    It is known in this process alone, for as long as it is in use, and is written down as `python:NAME`. Where its
    name is taken it gets another one, unless somebody has to say it (`may_rename`).
    """
    for each in plugins.things:
        if each.thing is thing:
            return plugins, each.name
    written = getattr(thing, "__name__", type(thing).__name__)
    written = written if written.isidentifier() else "unnamed"  # a lambda
    group = _group(written, thing, kinds)
    base = name = _name(written, thing)
    count = 1
    while plugins.find(group, name) is not None or name in installed(group):
        if not may_rename:
            raise PluginError(
                f"there is {a_noun(group)} {name!r} already; give {written} another name with an attribute `name`"
            )
        count += 1
        name = f"own_{base}" if count == 2 else f"own_{base}_{count}"  # noqa: PLR2004 - the second of its name
    try:
        text = inspect.getsource(thing if hasattr(thing, "__name__") else type(thing))
    except (OSError, TypeError):
        text = repr(thing)
    if not hasattr(thing, "__name__"):
        thing = copy.deepcopy(thing)  # so that one run does not go on with what another has left in it
    found = FromFile(
        group, name, f"{IN_PYTHON}:{name}", hashlib.sha256(text.encode()).hexdigest(), thing, id(thing)
    )
    return Plugins((*plugins.things, found)), name


def _load(file: PluginFile, kinds: Mapping[str, tuple[tuple[str, ...], ...]]) -> FromFile:
    if str(file.file) == IN_PYTHON:
        for each in IN_USE.get().things:
            if each.source == file.source:
                return each
        raise PluginError(
            f"the plug-in {file.name} was given in Python and is in no file: give it there again, or as FILE.py:NAME"
        )
    module, sha256 = _module(file.file)
    if file.sha256 not in ("", sha256):
        raise PluginError(
            f"{file.file} has changed since it was written down (it was {file.sha256[:12]}, it is {sha256[:12]}); "
            "take its `sha256` out of the scenario to use it as it is now"
        )
    names = {
        name: thing
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", module.__name__) == module.__name__
    }
    if file.name not in vars(module):
        raise PluginError(f"{file.file} has no {file.name!r}{nearest(file.name, names)}")
    thing = vars(module)[file.name]
    return FromFile(_group(file.source, thing, kinds), _name(file.name, thing), file.source, sha256, thing)


def _group(source: str, thing: Any, kinds: Mapping[str, tuple[tuple[str, ...], ...]]) -> str:
    """What kind of plug-in it is. Raises PluginError where that cannot be told."""
    words = {noun(group).replace(" ", "_"): group for group in kinds}
    kind = getattr(thing, "plugin_kind", None)
    if kind is not None:
        if kind not in words:
            raise PluginError(f"{source}: there is no kind of plug-in {kind!r}{nearest(str(kind), words)}")
        return words[kind]
    found = [group for group, alternatives in kinds.items() if is_like(thing, alternatives)]
    if len(found) > 1:  # one that asks for the parameters, too, is more exact
        by_form = [
            group for group in found if any(name[0] == "." for names in kinds[group] for name in names)
        ]
        found = by_form if len(by_form) == 1 else found
    if len(found) == 1:
        return found[0]
    if found:
        could = " or ".join(a_noun(group) for group in found)
        raise PluginError(
            f"{source} could be {could}; say which with `plugin_kind = {noun(found[0]).replace(' ', '_')!r}`"
        )
    if isinstance(thing, FunctionType):
        forms = sorted(
            f"({name.partition('(')[2]} {noun(group)}"
            for group, alternatives in kinds.items()
            for name in chain.from_iterable(alternatives)
            if "(" in name and not name.startswith(".")
        )
        raise PluginError(
            f"{source}: a function's arguments say by their names what it is, and {inspect.signature(thing)} says "
            f"nothing; name them as in one of: {'; '.join(forms)}"
        )
    needs = "; ".join(
        f"{noun(group)}: {' or '.join(_methods(names) for names in alternatives)}"
        for group, alternatives in kinds.items()
    )
    raise PluginError(f"{source}: what kind of plug-in is it? It has not what one of them needs ({needs})")


def _methods(names: tuple[str, ...]) -> str:
    return ", ".join(
        f"a function of ({name.partition('(')[2]}"
        if "(" in name and name[0] != "."
        else name.removeprefix(".")
        for name in names
    )


def _name(written: str, thing: Any) -> str:
    """Its attribute `name`, unless that is a parameter; else the name in the file, in lower case with underscores."""
    is_parameter = is_dataclass(thing) and any(each.name == "name" for each in fields(thing))
    name = getattr(thing, "name", None)
    if isinstance(name, str) and name and not is_parameter:
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", written).lower()


def _module(path: Path) -> tuple[ModuleType, str]:
    """The file as a module, by its content: one that has changed is another module. Raises PluginError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise PluginError(f"{path}: {error.strerror or error}") from error
    sha256 = hashlib.sha256(text).hexdigest()
    name = f"plugin_{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}_{sha256[:16]}"
    with _LOADING:
        if name not in sys.modules:
            module = ModuleType(name, f"{path}")
            module.__file__ = str(path)
            sys.modules[name] = module  # dataclasses look their own module up
            try:
                exec(compile(text, str(path), "exec"), module.__dict__)  # nosec B102 # noqa: S102 - the user's own file
            except BaseException as error:
                del sys.modules[name]
                if not isinstance(error, Exception):
                    raise
                raise PluginError(f"{_place(error, path)}: {type(error).__name__}: {error}") from error
        return sys.modules[name], sha256


def _place(error: Exception, path: Path) -> str:
    """File and line of an error at import: the last line of the file that was being done."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}, line {error.lineno}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    return f"{path}, line {lines[-1]}" if lines else str(path)

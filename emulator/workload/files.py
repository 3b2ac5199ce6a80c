"""Opening trace files, plain or compressed, and writing them so that nothing half-written is left."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import zlib
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any, cast

from balancer.whole_file import replacing
from emulator.text.file_errors import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from _typeshed import WriteableBuffer

_DECODER = json.JSONDecoder()
_WORDS = ("true", "false", "null", "-")
"""Values of JSON, apart from texts, that are none before they are whole."""
_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_BUFFER = 1 << 17


WATCH: ContextVar[Callable[[Path, float], None] | None] = ContextVar("WATCH", default=None)
"""Is told now and then which file is being read, and what share of it was."""


class _WatchedFile(io.FileIO):
    """A file that tells how much of it was read."""

    def __init__(self, path: Path, watch: Callable[[Path, float], None]) -> None:
        super().__init__(path)
        self._path, self._watch = path, watch
        self._size = max(os.fstat(self.fileno()).st_size, 1)

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        found = super().readinto(buffer)
        self._watch(self._path, self.tell() / self._size)
        return found


def _opened(path: Path) -> IO[bytes]:
    watch = WATCH.get()
    return path.open("rb") if watch is None else io.BufferedReader(_WatchedFile(path, watch), _BUFFER)


class TraceError(ValueError):
    """A trace that cannot be used. The text names the file, the line where there is one, and what to do."""


@contextmanager
def open_trace(path: Path) -> Iterator[IO[bytes]]:
    """The uncompressed bytes of a file: gzip and xz are known by their first bytes, whatever the file's name.

    Raises TraceError when the file cannot be opened or when compressed data is cut off or damaged.
    """
    if path.is_fifo():  # also /dev/stdin behind a `|`, and `<(...)`
        raise TraceError(
            f"{path}: a pipe, and a log is read more than once: write it into a file and name that"
        )
    try:
        with _opened(path) as raw:
            magic = raw.read(len(_XZ_MAGIC))
            raw.seek(0)
            if magic.startswith(_GZIP_MAGIC):
                with gzip.GzipFile(fileobj=raw) as stream:
                    yield cast("IO[bytes]", stream)
            elif magic == _XZ_MAGIC:
                with lzma.LZMAFile(raw) as xz_stream:
                    yield cast("IO[bytes]", xz_stream)
            else:
                yield raw
    except EOFError as error:
        raise TraceError(f"{path}: the compressed data is cut off; fetch the file again") from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise TraceError(f"{path}: the compressed data is damaged ({error}); fetch the file again") from error
    except OSError as error:
        raise TraceError(f"{path}: {refusal(error)}") from error


def has_returns_alone(start: bytes) -> bool:
    """Whether lines of a file that begins like that end in carriage returns without line feeds."""
    return b"\r" in start and b"\n" not in start


def read_json(path: Path) -> Any:
    """The JSON document that a file is. Raises TraceError naming the place of bad JSON, or of a second document."""
    first, *more = read_json_documents(path)
    if more:
        raise TraceError(
            f"{path}: {1 + len(more)} JSON documents one behind the other; put each in its own file"
        )
    return first


def read_json_documents(path: Path) -> list[Any]:
    """At least one JSON document, as of several answers one behind the other. Raises TraceError as `read_json`."""
    with open_trace(path) as stream:
        content = stream.read()
    found: list[Any] = []
    try:
        encoding = json.detect_encoding(content)
        # One name of another encoding is no reason to read none of it; lines of text are read likewise.
        errors = "surrogateescape" if encoding.startswith("utf-8") else "surrogatepass"
        text = content.decode(encoding, errors)
        at = _past_space(text, 0)
        while at < len(text) or not found:
            document, at = _DECODER.raw_decode(text, at)
            found.append(document)
            at = _past_space(text, at)
    except json.JSONDecodeError as error:
        before = len(text[: error.pos].encode(encoding, errors))
        raise TraceError(f"{path}: {_json_fault(error, len(found), before)}") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: not valid JSON: {error}; write the file again") from error
    return found


def _json_fault(error: json.JSONDecodeError, whole_documents: int, at_byte: int) -> str:
    """What is wrong with a file of JSON, where, and what to do."""
    where, rest = f"line {error.lineno} column {error.colno}, byte {at_byte}", error.doc[error.pos :]
    if rest.startswith("\0"):
        return (
            f"not valid JSON: NUL bytes in it ({where}): remove them (tr -d '\\000'), or write the file again"
        )
    if is_cut(error):
        return f"not valid JSON: it ends in the middle of a document ({where}): fetch it or write it again, whole"
    if whole_documents and not rest.startswith(("{", "[")) and error.msg == "Expecting value":
        return f"not valid JSON: {rest[:40]!r} follows the document ({where}): delete that, or write the file again"
    return f"not valid JSON: {error.msg} ({where}): mend it there, or write the file again"


def is_cut(error: json.JSONDecodeError) -> bool:
    """Whether JSON is faulty because its end is missing."""
    rest = error.doc[error.pos :].strip()
    return error.msg.startswith("Unterminated") or any(word.startswith(rest) for word in _WORDS)


def _past_space(text: str, at: int) -> int:
    # Between files that were put together there may be the mark of a beginning.
    while at < len(text) and (text[at].isspace() or text[at] == "\N{ZERO WIDTH NO-BREAK SPACE}"):
        at += 1
    return at


@contextmanager
def write_whole(path: Path) -> Iterator[IO[bytes]]:
    """A stream into `path` (compressed when its name ends in .gz or .xz) that appears only when complete."""
    with replacing(path) as draft, draft.open("wb") as raw:
        if path.suffix == ".gz":
            # No name and no time inside: equal data gives equal bytes.
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as stream:
                yield cast("IO[bytes]", stream)
        elif path.suffix == ".xz":
            with lzma.LZMAFile(raw, mode="wb") as xz_stream:
                yield cast("IO[bytes]", xz_stream)
        else:
            yield raw

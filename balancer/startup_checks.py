"""What the service itself needs to start: token file, TLS files, ledger, places to listen. Looked at, not changed."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import ssl
import stat
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.tokens import TokenFile
from balancer.config import Config, ConfigError
from balancer.drivers.base import SiteCheck
from balancer.ledger.errors import LedgerError, OlderError
from balancer.ledger.filesystem import check_has_room, check_is_local
from balancer.ledger.home import is_left_here
from balancer.ledger.reader import open_to_read
from balancer.secret_files import AuthFileError
from balancer.service.reconfigure import Configured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def check_tls(config: Config) -> None:
    """Raises ConfigError for files that cannot be used."""
    if config.tls_cert is None or config.tls_key is None:
        return
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        made.load_cert_chain(config.tls_cert, config.tls_key)
    except OSError as error:
        raise ConfigError(
            f"tls_cert, tls_key: {config.tls_cert} and its key cannot be used: {error}"
        ) from error
    if config.tls_client_ca is not None:
        try:
            made.load_verify_locations(config.tls_client_ca)
        except OSError as error:
            raise ConfigError(f"tls_client_ca: {config.tls_client_ca} cannot be used: {error}") from error


def check_tokens(config: Config) -> str:
    """What is missing; "": nothing. Raises ConfigError for files that cannot be used."""
    if not config.authenticates:
        return ""
    try:
        tokens = TokenFile(config.tokens_path).tokens()
        HookKeyFile(config.hook_keys_path).keys_of("any")
    except AuthFileError as error:
        raise ConfigError(str(error)) from error
    make = "`balancer token create --config FILE --role operator` (FILE: this configuration)"
    return "" if tokens else f"there is no token yet in {config.tokens_path}: make one with {make}"


def own_checks(config: Config) -> Iterator[SiteCheck]:
    """A line for each thing without which `serve` would not start, or would serve nobody."""
    if config.tls_cert is not None:
        yield SiteCheck("the TLS files can be used", _problem(lambda: check_tls(config)))
    if config.authenticates:
        yield SiteCheck("the token file can be read and has a token", _problem(lambda: check_tokens(config)))
    configured = _configured(config)
    yield SiteCheck("the ledger can be opened", _ledger(config, configured))
    yield SiteCheck(f"{config.host}:{config.port} can be listened on", _address(config))
    if config.unix_socket is not None:
        yield SiteCheck(f"{config.unix_socket} can be listened on", _unix_socket(config, config.unix_socket))
    if config.ready_file is not None:
        yield SiteCheck("the ready file can be written", _file("ready_file", config.ready_file))
    if config.freeze_file is not None:
        yield SiteCheck("the freeze file can be written", _file("freeze_file", config.freeze_file))


def _problem(check: Callable[[], str | None]) -> str:
    """What this check says or raises."""
    try:
        return check() or ""
    except ConfigError as error:
        return str(error)


def _configured(config: Config) -> Configured:
    """Raises ConfigError or ValueError where `serve` would, whatever the ledger has."""
    config.make_clock()
    configured = Configured(
        nodes=tuple(config.node_names()),
        algorithm=config.make_algorithm(),
        algorithm_name=config.algorithm_name,
        settings=config.lifecycle_settings(),
    )
    configured.restored(None)
    return configured


def _ledger(config: Config, configured: Configured) -> str:
    path = None if "://" in config.db else Path(config.db).absolute()
    problem = "" if path is None else _folder("db", path.parent)
    try:
        if path is not None and not problem:
            check_is_local(path.parent)
            check_has_room(path)
        if problem or (path is not None and not _is_there(path)):
            return problem  # `serve` makes a new one
        if path is not None and not os.access(path, os.R_OK | os.W_OK):
            return f"db: {path} may not be read and written by this user: run `balancer check` as the service's user"
        with closing(open_to_read(config.db)) as reader:
            configured.restored(reader.load())
    except OlderError:
        return ""  # `serve` brings it up to date
    except LedgerError as error:
        return str(error)
    return ""


def ledger_id(config: Config) -> str:
    """The ledger's name in its marks; "": there is none that can be read."""
    if "://" not in config.db and not _is_there(Path(config.db)):
        return ""
    try:
        with closing(open_to_read(config.db, may_be_older=True)) as reader:
            return reader.writer().ledger_id
    except LedgerError:
        return ""  # a line of its own says why


def may_be_copy(config: Config) -> bool:
    """Whether another service may have a ledger of the same name."""
    return "://" not in config.db and _is_there(Path(config.db)) and not is_left_here(Path(config.db))


def _is_there(path: Path) -> bool:
    """Not where it cannot be looked for: a line of its own says why."""
    try:
        return path.exists()
    except OSError:
        return False


def _file(key: str, path: Path) -> str:
    problem = _folder(key, path.absolute().parent)
    return problem or (f"{key}: {path} is a folder: name a file in it" if path.is_dir() else "")


def _folder(key: str, folder: Path) -> str:
    try:
        is_folder = folder.is_dir()
    except OSError as error:
        return f"{key}: {folder}: {error.strerror}: run `balancer check` as the service's user"
    if not is_folder:
        return f"{key}: there is no folder {folder}: make it"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{key}: this user may not write in {folder}: run `balancer check` as the service's user"
    return ""


def _address(config: Config) -> str:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.host, config.port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and is_running(config):
                return ""
            return (
                f"host, port: {config.host}:{config.port}: {error.strerror or error}; choose another `port`"
            )
    return ""


def _unix_socket(config: Config, path: Path) -> str:
    problem = _folder("unix_socket", path.absolute().parent)
    if problem or not path.exists():
        return problem
    if not stat.S_ISSOCK(path.stat().st_mode):
        return f"unix_socket: {path} is there and is no socket: choose another path"
    if is_answered(path) and not is_running(config):
        return f"unix_socket: another process listens on {path}: choose another path"
    return ""


def is_answered(path: Path) -> bool:
    """Whether a process listens on this Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def is_running(config: Config) -> bool:
    """Whether a service has this very ledger open: then its addresses are in use, as they should be."""
    if "://" in config.db:
        try:
            with closing(open_to_read(config.db)) as reader:
                return reader.writer().holder != ""
        except LedgerError:
            return False
    try:
        descriptor = os.open(f"{config.db}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False

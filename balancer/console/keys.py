"""`balancer token` and `balancer hook-key`: work on the files of tokens and keys; the service sees it at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.identity import Role
from balancer.auth.tokens import Token, TokenFile
from balancer.clock import micros, seconds, utc_us
from balancer.console.places import DEFAULT_CONFIG, missing_ledger, service_config
from balancer.console_kit import SOME_SECONDS, one_line, show
from balancer.nodelist import expand, some
from balancer.secret_files import AuthFileError
from balancer.timestamps import iso, iso_or_none, iso_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from balancer.config import Config


def where(function: Callable[..., None]) -> Callable[..., None]:
    """Which service's files: those its configuration names, or those beside its ledger."""
    function = click.option("--db", help="The service's ledger.  [default: ./balancer.db, if it is there]")(
        function
    )
    return click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"The service's configuration.  [default: {DEFAULT_CONFIG}, if it is there]",
    )(function)


def _path(read: Config, db: str | None, key: str) -> Path:
    """The file of tokens or keys of this service; `db`: the ledger that was given with the command."""
    path = read.tokens_path if key == "token_file" else read.hook_keys_path
    missing = missing_ledger(read)
    if missing is not None and not path.exists():
        if db is None and not path.is_absolute():
            raise ValueError(
                f"{key}: {path} depends on the folder, and there is no ledger {missing}: no service would know what "
                "is written here. Run this where the service runs, or give `db` or this key with its whole path"
            )
        click.echo(
            f"balancer: there is no ledger {missing} yet: a service that is started with it reads {path.absolute()}",
            err=True,
        )
    return path


def _tokens(config: Path | None, db: str | None) -> TokenFile:
    return TokenFile(_path(service_config(config, db), db, "token_file"))


_clearly = one_line(AuthFileError, ValueError)


@click.group()
def token() -> None:
    """Make, list and revoke the tokens with which callers say who they are."""


@token.command("create")
@where
@click.option("--role", required=True, type=click.Choice([role.value for role in Role]))
@click.option(
    "--name", help="Whose it is; a new token of the same role and name succeeds it.  [default: role]"
)
@click.option("--expires-s", type=SOME_SECONDS, help="[default: never]")
@_clearly
def create(config: Path | None, db: str | None, role: str, name: str | None, expires_s: float | None) -> None:
    """Make a token and print it: this once, it is not kept."""
    now_us = utc_us()
    expires_us = None if expires_s is None else now_us + micros(expires_s)
    made, text = _tokens(config, db).create(Role(role), name or role, now_us=now_us, expires_us=expires_us)
    click.echo(text)
    click.echo(f"token {made.id}: {made.role} {made.name}, expires {_until(made)}", err=True)


@token.command("list")
@where
@click.option("--json", "as_json", is_flag=True)
@_clearly
def list_tokens(config: Path | None, db: str | None, as_json: bool) -> None:
    """List the tokens. Their secrets are not stored."""
    now_us = utc_us()
    found = _tokens(config, db).tokens()
    if as_json:
        click.echo(json.dumps([_json(each, now_us) for each in found]))
        return
    rows = []
    for each in found:
        expires = _until(each) + (" (expired)" if each.is_expired(now_us) else "")
        rows.append([each.id, each.role.value, each.name, iso_s(each.created_us), expires])
    show(as_json, None, ["ID", "ROLE", "NAME", "CREATED", "EXPIRES"], rows)


@token.command("revoke")
@where
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@_clearly
def revoke(config: Path | None, db: str | None, ids: Sequence[str]) -> None:
    """End tokens, for the very next call."""
    tokens = _tokens(config, db)
    known = {each.id for each in tokens.tokens()}
    unknown = [each for each in ids if each not in known]
    if unknown:
        raise ValueError(
            f"there is no token {', '.join(unknown)}; none is revoked, see `balancer token list`"
        )
    for each in ids:
        tokens.revoke(each)


@click.command("hook-key")
@where
@click.option(
    "--rotate", is_flag=True, help="Make a new master key; old keys stay good until their line is removed."
)
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@_clearly
def hook_key(config: Path | None, db: str | None, rotate: bool, nodes: Sequence[str]) -> None:
    """Print the keys of nodes (names or patterns): the content of each node's own BALANCER_HOOK_KEY_FILE."""
    names = expand(",".join(nodes))
    read = service_config(config, db)
    keys = HookKeyFile(_path(read, db, "hook_key_file"))
    # A service that is found by its ledger alone has no list here.
    unknown = sorted(set(names) - set(read.node_names())) if "nodes" in read.model_fields_set else []
    if unknown:
        click.echo(
            f"balancer: not in `nodes` of the configuration: {some(unknown)}; the service does not know them",
            err=True,
        )
    for number, node in enumerate(names):
        click.echo(f"{node} {keys.issue(node, rotate=rotate and number == 0).hex()}")


def _json(each: Token, now_us: int) -> dict[str, Any]:
    return {
        "id": each.id,
        "role": each.role,
        "name": each.name,
        "created_at": iso(each.created_us),
        "expires_at": iso_or_none(each.expires_us),
        "expired": each.is_expired(now_us),
        "age_s": seconds(now_us - each.created_us),
    }


def _until(each: Token) -> str:
    return "never" if each.expires_us is None else iso_s(each.expires_us)

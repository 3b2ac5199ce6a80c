"""Which service's files a command works on: those its configuration names, or those beside its ledger.

Without either nothing is guessed that is not there: an order to a ledger that nobody has would be given to nobody.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from balancer.config import Config

DEFAULT_CONFIG = Path("/etc/balancer/balancer.yaml")
"""Where the unit has the service's configuration."""


def service_config(config: Path | None, db: str | None) -> Config:
    """The configuration that the options name, or the one that is found. Raises ConfigError: none is, or more."""
    from balancer.config import Config, ConfigError, read_config  # noqa: PLC0415 - `balancer --help` starts without it

    if config is not None:
        return read_config(config, {"db": db})
    if db is not None:
        return Config.model_construct(db=db)
    here = Path(Config.model_fields["db"].default)
    if not DEFAULT_CONFIG.exists():
        if not here.exists():
            raise ConfigError(
                f"there is neither {DEFAULT_CONFIG} nor a ledger {here} in this folder: say which service is meant "
                "with --config FILE (its configuration) or --db FILE (its ledger)"
            )
        return Config.model_construct(db=str(here))
    found = read_config(DEFAULT_CONFIG, {})
    if here.exists() and not ("://" not in found.db and Path(found.db).resolve() == here.resolve()):
        raise ConfigError(
            f"there are both {DEFAULT_CONFIG} and a ledger {here} in this folder: say which service is meant with "
            "--config FILE or --db FILE"
        )
    return found


def missing_ledger(config: Config) -> Path | None:
    """The ledger's file where there is none; None: it is there, or it is no file."""
    path = Path(config.db)
    return None if "://" in config.db or path.is_file() else path.absolute()

"""The Balancer: a service that moves whole nodes between an on-demand pool and a batch pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    """The version is looked up when it is first asked for: commands start sooner."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from balancer.version import VERSION  # noqa: PLC0415 - see above

    globals()[name] = VERSION
    return VERSION


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

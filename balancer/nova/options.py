"""The section `[balancer]` of nova.conf, for the filter and the notification driver. Needs oslo.config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oslo_config import cfg

from balancer.nova.question import QuestionSettings

GROUP = "balancer"
OPTIONS = (
    cfg.StrOpt("url", default="http://127.0.0.1:8090", help="The Balancer."),
    cfg.StrOpt("token_file", help="File with a token of the role on-demand, the same as the agent's."),
    cfg.StrOpt("name", default="nova", help="Owner of the grants, if the Balancer wants no token."),
    cfg.StrOpt("ca_file", help="Certificates to trust instead of the system's."),
    cfg.BoolOpt("wait", default=True, help="A create waits in the scheduler until jobs have ended, up to W."),
    cfg.FloatOpt("wait_s", min=0, help="W of Nova's creates; missing: the Balancer's own."),
    cfg.FloatOpt(
        "patience_s", default=90.0, min=0, help="How long to repeat a call that the Balancer does not answer."
    ),
    cfg.IntOpt("alternates", default=0, min=0, max=10, help="More nodes a create, should a boot fail."),
    cfg.FloatOpt("nodes_age_s", default=10.0, min=0, help="How old the list of the Balancer's nodes may be."),
    cfg.StrOpt("hint_address", help="host:port of the agent, which then learns of changes at once."),
)


def read(conf: Any) -> QuestionSettings:
    """Raises OSError where the token cannot be read."""
    conf.register_opts(OPTIONS, group=GROUP)
    options = conf[GROUP]
    token = Path(options.token_file).read_text("utf-8").strip() if options.token_file else None
    return QuestionSettings(
        url=options.url,
        token=token,
        name=options.name,
        ca_file=options.ca_file,
        wait=options.wait,
        wait_s=options.wait_s,
        patience_s=options.patience_s,
        alternates=options.alternates,
        nodes_age_s=options.nodes_age_s,
    )


def hint_address(conf: Any) -> str | None:
    conf.register_opts(OPTIONS, group=GROUP)
    address: str | None = conf[GROUP].hint_address
    return address

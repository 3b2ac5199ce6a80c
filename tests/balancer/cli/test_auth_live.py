"""The real process with authentication: tokens of the command line, signed hooks, TLS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from balancer.client import Balancer, BalancerError

pytestmark = pytest.mark.live


def balancer(service, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command beside the service's ledger."""
    command = [sys.executable, "-c", "from balancer.cli import main; main()", *arguments]
    environment = service.environment | {"BALANCER_URL": service.url} | environ
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def token(service, *options: str) -> str:
    made = balancer(service, "token", "create", "--db", str(service.folder / "ledger.db"), *options)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def certificate(folder):
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


@pytest.mark.slow
def test_tokens_are_made_listed_and_revoked_while_the_service_runs(service):
    running = service(3)
    running.start("--auth", "--reserve", "1")
    db = ("--db", str(running.folder / "ledger.db"))
    with running.client() as anonymous, pytest.raises(BalancerError) as refused:
        anonymous.nodes()
    assert (refused.value.status, refused.value.code) == (401, "balancer.unauthenticated")
    text = token(running, "--role", "on-demand", "--name", "nova", "--expires-s", "3600")
    with Balancer(running.url, token=text) as nova:
        assert nova.request_nodes(1).nodes == ("n01",)
    asked = balancer(running, "nodes", BALANCER_TOKEN=text)
    assert "OD_ALLOC" in asked.stdout
    (running.folder / "token").write_text(text + "\n", encoding="utf-8")
    assert balancer(running, "status", BALANCER_TOKEN_FILE=str(running.folder / "token")).returncode == 0
    assert balancer(running, "status").returncode == 2
    listed = balancer(running, "token", "list", *db)
    assert listed.stdout.splitlines()[0].split() == ["ID", "ROLE", "NAME", "CREATED", "EXPIRES"]
    assert listed.stdout.splitlines()[1].split()[1:3] == ["on-demand", "nova"]
    assert text.split("_", 2)[2] not in listed.stdout
    made = json.loads(balancer(running, "token", "list", "--json", *db).stdout)
    assert balancer(running, "token", "revoke", made[0]["id"], *db).returncode == 0
    assert balancer(running, "nodes", BALANCER_TOKEN=text).stderr == (
        "balancer: the token is not known, or was revoked (balancer.unauthenticated)\n"
    )
    again = balancer(running, "token", "revoke", made[0]["id"], *db)
    assert (again.returncode, again.stderr.startswith("balancer: there is no token")) == (2, True)
    assert running.stop() == 0


@pytest.mark.slow
def test_a_signed_hook_is_accepted_over_tls_and_an_unsigned_one_lets_the_job_start(service):
    running = service(2)
    cert, key = certificate(running.folder)
    running.start("--auth", "--tls-cert", cert, "--tls-key", key)
    assert running.url.startswith("https://127.0.0.1:")
    printed = balancer(running, "hook-key", "n[01-02]", "--db", str(running.folder / "ledger.db")).stdout
    own = printed.splitlines()[0]
    assert own.split()[0] == "n01"
    (running.folder / "hook.key").write_text(own + "\n", encoding="utf-8")
    (running.folder / "nodefile").write_text("n01\n", encoding="utf-8")
    settings = {
        "PBS_NODEFILE": str(running.folder / "nodefile"),
        "BALANCER_CA_FILE": cert,
        "BALANCER_MARKER": str(running.folder / "marker"),
    }
    unsigned = balancer(
        running, "hook", "prologue", "1.server", BALANCER_HOOK_KEY_FILE="/nowhere", **settings
    )
    assert (unsigned.returncode, "needs a token" in unsigned.stderr) == (0, True)
    signed = {"BALANCER_HOOK_KEY_FILE": str(running.folder / "hook.key")}
    assert balancer(running, "hook", "prologue", "1.server", **signed, **settings).stderr == ""
    reader = token(running, "--role", "read-only")
    with Balancer(running.url, token=reader, ca_file=cert) as client:
        assert client.node("n01").state == "OA_BUSY"
        with pytest.raises(BalancerError, match=r"may not POST /v1/request_nodes"):
            client.request_nodes(1)
    operator = token(running, "--role", "operator")
    with Balancer(running.url, token=operator, ca_file=cert) as client:
        client.request_nodes(1)
        refused = client.node("n02")
    assert refused.state == "OD_ALLOC"
    (running.folder / "nodefile").write_text("n01\nn02\n", encoding="utf-8")
    assert balancer(running, "hook", "prologue", "2.server", **signed, **settings).returncode == 2
    stranger = balancer(running, "status")
    said = "self-signed certificate; trust its issuer with $BALANCER_CA_FILE (Python: ca_file)"
    assert (stranger.returncode, stranger.stderr) == (
        3,
        f"balancer: no answer from {running.url}: {said} (balancer.unreachable)\n",
    )
    assert running.stop() == 0


def test_beyond_loopback_the_service_asks_for_tokens_by_itself(service):
    running = service(1)
    running.start("--host", "127.0.0.2")  # loopback, but not one of its names
    assert requests.get(running.url + "/v1/nodes", timeout=10).status_code == 401
    assert requests.get(running.url + "/healthz", timeout=10).status_code == 200
    assert running.stop() == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tls-cert", "/nowhere/c.pem"], "tls_cert and tls_key go together"),
        (
            ["--tls-cert", "/nowhere/c.pem", "--tls-key", "/nowhere/k.pem"],
            "/nowhere/c.pem and its key cannot",
        ),
        (["--auth", "--token-file", "/dev/null/x"], "/dev/null/x cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named_and_nothing_starts(service, options, said):
    running = service(1)
    ended = subprocess.run(
        running.command("--port", "0", *options),
        env=running.environment | {"HOME": os.devnull},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    assert "Traceback" not in ended.stderr

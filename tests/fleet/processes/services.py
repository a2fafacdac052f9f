"""What a fleet stands on, as Debian has it: a Redis and an nginx of the tests' own, on loopback, ended by their ids."""

from __future__ import annotations

import datetime as dt
import getpass
import ipaddress
import os
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.debian import program
from tests.wire.processes import HttpProcess

_READY = re.compile("Ready to accept connections")
_WHO = "127.0.0.1"
_SHIPPED = Path(__file__).parents[3] / "deploy" / "nginx.conf"


def free_port() -> int:
    """Return a port of loopback that nobody has at the moment."""
    with socket.socket() as taken:
        taken.bind((_WHO, 0))
        return int(taken.getsockname()[1])


class RedisServer:
    """A Redis that keeps nothing on disk; it can be halted, killed, started again, emptied and filled.

    Args:
        folder: for its certificates.
        password: of the default user; none where blank.
        users: further ones, as ACL rules: `fleet on >secret ~agent-utilities:* &* +@all -@dangerous`.
        is_tls: whether it is reached by TLS alone, with a certificate of its own for 127.0.0.1.
    """

    def __init__(self, folder: Path, password: str = "", users: Sequence[str] = (), *, is_tls: bool = False) -> None:
        self.port, self._password, self._ca = free_port(), password, folder / "redis.pem" if is_tls else None
        own = ["--tls-port" if is_tls else "--port", str(self.port), *(["--port", "0"] if is_tls else [])]
        if self._ca is not None:
            _write_certificate(self._ca)
            own += ["--tls-cert-file", str(self._ca), "--tls-key-file", str(self._ca), "--tls-auth-clients", "no"]
            own += ["--tls-ca-cert-file", str(self._ca)]
        own += ["--requirepass", password] if password else []
        for user in users:
            own += ["--user", *user.split()]
        kept = ["--bind", _WHO, "--save", "", "--appendonly", "no", "--dir", str(folder), "--logfile", "/dev/stderr"]
        self._command = [program("redis-server"), *kept, *own]
        self.start()
        self.admin = redis.Redis.from_url(self.url())
        """A client of the default user, which may do everything."""

    def url(self, login: str = "") -> str:
        """Return where it is, for a login such as `fleet:secret`; for the default user where blank."""
        login = login or (f":{self._password}" if self._password else "")
        place = f"{login}@{_WHO}:{self.port}/0" if login else f"{_WHO}:{self.port}/0"
        return f"redis://{place}" if self._ca is None else f"rediss://{place}?ssl_ca_certs={self._ca}"

    def start(self) -> None:
        """Start it, empty, at the place that it has; return once it takes connections."""
        self.process = HttpProcess(self._command, os.environ)
        try:
            self.process.wait_for(_READY)
        except BaseException:
            self.process.stop()
            raise

    def pause(self) -> None:
        """Halt it: it keeps its sockets and answers nothing."""
        self.process.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after `pause`."""
        self.process.process.send_signal(signal.SIGCONT)

    def slow(self, seconds: float) -> None:
        """Have every command that comes in the next so many seconds wait until they are over."""
        self.admin.client_pause(round(seconds * 1000), all=True)

    def kill(self) -> None:
        """End it at once, with all that it holds."""
        self.process.process.kill()
        self.process.stop()

    def flush(self) -> None:
        """Forget everything in it, scripts too."""
        self.admin.flushall()
        self.admin.script_flush()

    def fill(self) -> None:
        """Have it refuse to take more."""
        self.admin.config_set("maxmemory", 1)

    def make_room(self) -> None:
        """Have it take more again."""
        self.admin.config_set("maxmemory", 0)

    def commands(self) -> int:
        """Return how many commands it has run so far, this one aside."""
        return int(self.admin.info("stats")["total_commands_processed"])  # type: ignore[index]

    def close(self) -> None:
        """End it."""
        self.admin.close()
        self.kill()


@contextmanager
def redis_server(
    folder: Path, password: str = "", users: Sequence[str] = (), *, is_tls: bool = False
) -> Iterator[RedisServer]:
    """Run a Redis for the length of a block; see `RedisServer`."""
    server = RedisServer(folder, password, users, is_tls=is_tls)
    try:
        yield server
    finally:
        server.close()


def _write_certificate(file: Path) -> None:
    """Write a key and a certificate that vouches for itself, for 127.0.0.1 and an hour either way."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis")]), dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(_WHO))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(private + made.public_bytes(pem))


class Balancer:
    """An nginx in front of some ports, as `deploy/nginx.conf` has it.

    Args:
        folder: for all that it writes.
        ports: of the servers behind it, on loopback.
    """

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self.port, self._n_started = folder, free_port(), 0
        self.url = f"http://{_WHO}:{self.port}"
        self._write(ports)
        command = [program("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
        self.process = HttpProcess(command, os.environ)
        try:
            self._until_started()
        except BaseException:
            self.process.stop()
            raise

    def over(self, ports: Sequence[int]) -> None:
        """Have new requests go to other ports, as who watches `/ready` would; those under way go on where they are."""
        self._write(ports)
        self.process.process.send_signal(signal.SIGHUP)
        self._until_started()

    def _until_started(self) -> None:
        """Return once the process that heeds what is written takes requests, and the one before no further ones."""
        self._n_started += 1
        self.process.wait_for(re.compile(rf"(?s)(start worker process \d+.*){{{self._n_started}}}"))
        if self._n_started > 1:
            self.process.wait_for(re.compile(rf"(?s)(gracefully shutting down.*){{{self._n_started - 1}}}"))

    def _write(self, ports: Sequence[int]) -> None:
        """Write the configuration that is shipped, for these ports, in a main one that needs no rights."""
        shipped = re.sub(r"(\n +server gateway-\d:8001;)+", _servers(ports), _SHIPPED.read_text(encoding="utf-8"))
        kept = " ".join(f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self._folder / "nginx.conf").write_text(
            f"user {getpass.getuser()}; daemon off; worker_processes 1; pid nginx.pid; error_log stderr notice;\n"
            f"events {{ worker_connections 4096; }}\n"
            f"http {{ access_log off; {kept}\n{shipped.replace('listen 8000;', f'listen {_WHO}:{self.port};')} }}\n",
            encoding="utf-8",
        )


def _servers(ports: Sequence[int]) -> str:
    return " ".join(f" server {_WHO}:{port};" for port in ports)


@contextmanager
def nginx(folder: Path, ports: Sequence[int]) -> Iterator[Balancer]:
    """Run an nginx in front of some ports for the length of a block; see `Balancer`."""
    balancer = Balancer(folder, ports)
    try:
        yield balancer
    finally:
        balancer.process.stop()

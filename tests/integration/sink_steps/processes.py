"""Processes that may be killed and stopped, at the price of a fork: a nursery imports everything once and forks one per case.

Run as a program it is the nursery; ``Nursery`` is its other end.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
POLL_S = 0.003


@dataclass(frozen=True)
class Status:
    """How a process stands: ``stopped``, or ended with an exit code, or by a signal."""

    stopped: bool = False
    exit_code: int | None = None
    signal: int | None = None

    @classmethod
    def of(cls, status: int) -> Status:
        if os.WIFSTOPPED(status):
            return cls(stopped=True)
        return cls(signal=os.WTERMSIG(status)) if os.WIFSIGNALED(status) else cls(exit_code=os.WEXITSTATUS(status))


class Nursery:
    """Use as a context manager: its end is the end of every process of it."""

    def __init__(self) -> None:
        self._ours, theirs = Pipe()
        # Libraries with thread pools of their own must not have started them before the fork.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.integration.sink_steps.processes", str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *failure: object) -> None:
        self._ours.close()
        self._process.wait(30)

    def start(self, work: object, log: Path) -> int:
        """The pid of a process that runs ``work``, a ``pipeline.Work``; what it prints goes to ``log``."""
        return self._ask("start", work, log)

    def wait(self, pid: int, limit_s: float) -> Status | None:
        """Until it is stopped or has ended; None: neither within the limit."""
        return self._ask("wait", pid, limit_s)

    def resume(self, pid: int) -> None:
        self._ask("resume", pid)

    def kill(self, pid: int) -> None:
        self._ask("kill", pid)

    def load(self, *modules: str) -> None:
        """Imports them before the next fork."""
        self._ask("load", modules)

    def _ask(self, *question: object):
        self._ours.send(question)
        return self._ours.recv()


def serve(parent: Connection) -> None:
    """Forks, waits and sends signals on behalf of the other end, until that is closed."""
    children: set[int] = set()
    try:
        while True:
            match parent.recv():
                case "start", work, log:
                    pid = os.fork()
                    if pid == 0:
                        os._exit(run(work, log, parent))
                    children.add(pid)
                    parent.send(pid)
                case "wait", pid, limit_s:
                    status = wait(pid, limit_s)
                    if status is not None and not status.stopped:
                        children.discard(pid)
                    parent.send(status)
                case "resume", pid:
                    parent.send(os.kill(pid, signal.SIGCONT))
                case "kill", pid:
                    parent.send(os.kill(pid, signal.SIGKILL))
                case "load", modules:
                    for module in modules:
                        importlib.import_module(module)
                    parent.send(None)
    except EOFError:
        return
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def wait(pid: int, limit_s: float) -> Status | None:
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        changed, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
        if changed:
            return Status.of(status)
        time.sleep(POLL_S)
    return None


def run(work, log: Path, parent: Connection) -> int:
    """In the forked process. Nothing of the nursery's is left to it but what it imported."""
    parent.close()
    output = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        from tests.integration.sink_steps.pipeline import Pipeline

        Pipeline(work).run()
    except BaseException:  # noqa: BLE001  the test reads it in the log
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    importlib.import_module("tests.integration.sink_steps.pipeline")
    # The module that runs as a program is not the one that others import.
    importlib.import_module("tests.integration.sink_steps.processes").serve(Connection(int(sys.argv[1])))

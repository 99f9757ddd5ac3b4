"""The harness of `make chaos` itself: it harms whom it says, says what it missed, starts drivers again, and leaves nobody behind."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from storm_pace import Pace
from storm_processes import Status
from storm_program import DRIVER_KILLS, FREEZES, NEVER, SLOT_KILLS, put_work, result_of, verdict
from storm_wire import Wire
from storming import Storm, what_is_missing

CALM = {SLOT_KILLS.name: NEVER, DRIVER_KILLS.name: NEVER, FREEZES.name: NEVER}

DRIVER = '''
"""A driver in name: says that it runs, with a child for a slot, until the slot is killed or it is told to end."""
import json, os, subprocess, sys, time
from pathlib import Path

folder, name = Path(os.environ["STORM_FOLDER"]), os.environ["STORM_NAME"]
if name == os.environ.get("FAILING"):
    sys.exit(75)

def tell(phase, pids):
    query = {"phase": phase, "attempt": 1, "checkpoint": 1, "skew_ms": 0, "completed": 1, "pids": pids, "events": 7}
    (folder / "new").write_text(json.dumps({"q": query}))
    (folder / "new").rename(folder / f"status.{name}")

slot = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
tell("running", {"0": slot.pid})
dead = os.WEXITED | os.WNOHANG | os.WNOWAIT
while os.waitid(os.P_PID, slot.pid, dead) is None and not (folder / "end").exists():
    time.sleep(0.01)
time.sleep(float(os.environ.get("NOTICES_LATE_S", "0")))  # Nobody buries it before.
tell("ended", {})
slot.stdin.close()
slot.wait()
(folder / "result.json").write_text(json.dumps({"rows": 3, "problems": []}))
'''


@pytest.fixture
def program(tmp_path: Path) -> Path:
    put_work(tmp_path, {})
    (tmp_path / "driver.py").write_text(DRIVER)
    return tmp_path / "driver.py"


def storm(program: Path, seconds: float, **weather: float) -> Storm:
    known = CALM | {f"{name.replace('_', ' ')}": every_s for name, every_s in weather.items()}
    return Storm(program.parent, seconds, known, random.Random(1), program=str(program))


def test_it_kills_a_slot_and_tells_how_often(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with storm(program, 30, slot_kills=0.1) as one:
        assert one.rage() == ""
    assert one.counts == {"slot kills": 1}
    assert verdict(result_of(program.parent), one.summary()) == 0
    told = capsys.readouterr().out
    assert "kill -9 of slot 0 of q; checkpoints: q 1 (" in told, "whether the driver has noticed by then is chance"
    assert "OK: 3 rows equal Spark batch's after 1 slot kills, 0 driver kills, 0 freezes" in told


def test_a_slot_that_takes_its_time_to_die_is_killed_once(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be too busy to end it before the next look, and the driver to say so."""
    monkeypatch.setenv("NOTICES_LATE_S", "1")
    monkeypatch.setattr("storm_processes.lives", lambda process: process.is_running())
    with storm(program, 30, slot_kills=0.1) as one:
        assert one.rage() == ""
    assert one.counts == {"slot kills": 1}


def test_a_storm_that_found_no_victim_of_a_kind_says_nothing_about_the_query(program: Path) -> None:
    (program.parent / "end").touch()
    with storm(program, 5, freezes=4.9) as one:
        assert one.rage() == ""
    assert "no freezes" in what_is_missing(one)


def test_a_driver_that_was_killed_or_found_nobody_to_talk_to_is_started_again(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILING", "driver-2")

    def end_the_third() -> None:
        while not (program.parent / "status.driver-3").exists():
            time.sleep(0.01)
        (program.parent / "end").touch()

    threading.Thread(target=end_the_third, daemon=True).start()
    with storm(program, 30, driver_kills=0.1) as one:
        assert one.rage() == ""
    assert one.counts["starts in vain"] == 1
    assert one.counts["driver kills"] >= 1


def test_told_to_end_it_ends_its_drivers_and_their_slots_first(program: Path) -> None:
    script = (
        "import random, sys; from pathlib import Path; from storming import Storm; from storm_program import in_a_folder\n"
        f"def run(_):\n with Storm(Path({str(program.parent)!r}), 60, {CALM!r}, random.Random(1), program={str(program)!r})"
        " as storm:\n  print(storm.rage())\n"
        "sys.exit(in_a_folder(run))"
    ).replace("inf", "float('inf')")
    tools = Path(__file__).resolve().parents[3] / "tools"
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    while "the queries run" not in process.stdout.readline():
        assert process.poll() is None
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) == 2
    process.terminate()
    assert "interrupted" in process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert not [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_pace_counts_no_row_twice_and_the_longest_wait_for_a_checkpoint() -> None:
    pace = Pace()
    for now_s, events, newest in ((1.0, 100, 1), (2.0, 50, 1), (3.0, 60, 0), (9.0, 100, 2), (10.0, 400, 3)):
        pace.see(
            now_s,
            "driver",
            Status({"q": {"phase": "running", "checkpoint": newest, "completed": newest, "events": events}}),
        )
    assert pace.events == 400
    assert pace.lately() == "400 events done, 40 per s in the last 10 s"
    assert str(pace) == "at most 8 s without a checkpoint"
    assert pace.began_s("driver") == 1.0


# --- the wire ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def echo() -> Iterator[Wire]:
    """A wire to a server that says everything again."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(client,), daemon=True).start()

    def answer(client: socket.socket) -> None:
        with client:
            while data := client.recv(100):
                client.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    wire = Wire(listening.getsockname()[1])
    with listening, closing(wire):
        yield wire


def said_again(client: socket.socket, text: bytes) -> bool:
    """False: the connection broke."""
    try:
        client.sendall(text)
        return client.recv(100) == text
    except ConnectionError:
        return False


def test_a_wire_that_is_cut_for_a_process_is_silent_for_so_long_then_its_connections_break(echo: Wire) -> None:
    with socket.create_connection(("127.0.0.1", echo.port), 60) as client:
        assert said_again(client, b"hello")
        assert echo.cut(1, 60.0) == 0, "another process has no connections here"
        assert said_again(client, b"still there")
        began_s = time.monotonic()
        assert echo.cut(os.getpid(), 0.3) == 1
        assert not said_again(client, b"lost")
        assert time.monotonic() - began_s >= 0.3, "clients wait for answers"
    with socket.create_connection(("127.0.0.1", echo.port), 60) as client:
        assert said_again(client, b"again")
        assert echo.cut(os.getpid(), 60.0) == 1
        with socket.create_connection(("127.0.0.1", echo.port), 0.2) as meanwhile, pytest.raises(TimeoutError):
            said_again(meanwhile, b"a connection made meanwhile is silent, too")


def test_rows_that_are_missing_or_repeated_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STORM_FOLDER", str(tmp_path))
    monkeypatch.setenv("STORM_NAME", "driver")
    from storm_driver import difference

    wanted = Counter({(1, "a"): 1, (2, "b"): 2})
    assert difference(wanted, Counter(wanted)) == []
    assert difference(wanted, Counter({(1, "a"): 2, (2, "b"): 1})) == [
        "of 3 rows 1 are missing and 1 are wrong or repeated",
        "missing: (2, 'b') (1 of 2)",
        "too many: (1, 'a') (1 of 2)",
    ]


def test_a_wire_outlives_connections_that_are_gone_as_soon_as_they_are_made(echo: Wire) -> None:
    for _ in range(300):
        socket.create_connection(("127.0.0.1", echo.port), 60).close()
    with socket.create_connection(("127.0.0.1", echo.port), 60) as client:
        assert said_again(client, b"still there")

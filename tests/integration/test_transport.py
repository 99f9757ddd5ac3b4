"""Real sockets between real processes: order, credit, heartbeats, and strangers at the door."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from multiprocessing.connection import Connection

import polars as pl
import pytest
import zmq

from tidegate.model.elements import Barrier, Batch, EndOfData, Watermark
from tidegate.model.errors import SlotLost
from tidegate.model.ids import Attempt, ChannelId, CheckpointId, SlotIndex
from tidegate.model.messages import EndAttempt, SlotAlive, SlotFailed, SlotReady
from tidegate.transport.control import DriverControl, SlotControl
from tidegate.transport.data import CREDIT_REPEATS, CreditReceived, DataPlane, Received
from tidegate.transport.endpoints import DriverEndpoints, SlotEndpoints
from tidegate.transport.guard import KeyGuard
from tidegate.transport.heartbeat import DriverHeartbeat, SlotHeartbeat

ATTEMPT = Attempt(4)
THERE = ChannelId(0, SlotIndex(0), SlotIndex(1))
PROCESSES = multiprocessing.get_context("spawn")


@pytest.fixture(params=["one host", "between hosts"])
def driver(request):
    one = DriverEndpoints.on_one_host() if request.param == "one host" else DriverEndpoints.between_hosts("127.0.0.1")
    yield one
    one.remove()


@pytest.fixture
def context():
    made = zmq.Context()
    yield made
    made.destroy(linger=0)


def slot_side(driver: DriverEndpoints, control: str = "", heartbeat: str = "") -> SlotEndpoints:
    return SlotEndpoints(control, heartbeat, driver.directory, driver.keys)


def wait_for(condition, timeout_s: float = 90.0):
    give_up = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.005)
    return result


def receive(plane: DataPlane, count: int) -> list:
    arrived: list = []

    def enough() -> bool:
        plane.socket.poll(100)
        arrived.extend(plane.receive())
        return len(arrived) >= count

    wait_for(enough)
    return arrived


def sender(endpoints: SlotEndpoints, attempt: int, pipe: Connection) -> None:
    """Slot 0 in a process of its own: sends numbered batches, a watermark, a barrier and the end; reports credit it gets."""
    context = zmq.Context()
    guard = KeyGuard(context, endpoints.keys.slot_public) if endpoints.keys else None
    plane = DataPlane(context, endpoints, Attempt(attempt), SlotIndex(0), "127.0.0.1")
    pipe.send(plane.address)
    plane.connect((plane.address, pipe.recv()))
    rows = [
        pl.DataFrame({"n": [number] * (1 + 997 * (number % 3)), "s": [f"row {number}"] * (1 + 997 * (number % 3))})
        for number in range(200)
    ]
    elements = [*(Batch(one) for one in rows), Watermark(77), Barrier(CheckpointId(3)), EndOfData()]
    for sequence, element in enumerate(elements):
        plane.send(THERE, sequence, element)
    for credit in receive(plane, 1):
        pipe.send(credit)
    pipe.recv()
    plane.close()
    if guard:
        guard.stop()
    context.term()


def test_elements_arrive_in_order_and_credit_comes_back(driver, context):
    endpoints = slot_side(driver)
    guard = KeyGuard(context, endpoints.keys.slot_public) if endpoints.keys else None
    mine, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=sender, args=(endpoints, ATTEMPT, theirs))
    process.start()
    plane = DataPlane(context, endpoints, ATTEMPT, SlotIndex(1), "127.0.0.1")
    try:
        other = mine.recv()
        mine.send(plane.address)
        plane.connect((other, plane.address))
        arrived = receive(plane, 203)
        assert [one.sequence for one in arrived] == list(range(203))
        assert all(isinstance(one, Received) and one.channel == THERE for one in arrived)
        assert [one.element.rows["n"][0] for one in arrived[:200]] == list(range(200))
        assert [one.element for one in arrived[200:]] == [Watermark(77), Barrier(CheckpointId(3)), EndOfData()]
        plane.grant(THERE, 3, 1_000)
        assert mine.recv() == CreditReceived(THERE, 3, 1_000)
    finally:
        mine.send("done")
        process.join(90)
        plane.close()
        if guard:
            guard.stop()
    assert process.exitcode == 0


def test_a_frame_of_another_attempt_ends_the_attempt(driver, context):
    """T8, T9: a zombie's rows never mix with those of its successor."""
    endpoints = slot_side(driver)
    guard = KeyGuard(context, endpoints.keys.slot_public) if endpoints.keys else None
    plane = DataPlane(context, endpoints, ATTEMPT, SlotIndex(1), "127.0.0.1")
    zombie = DataPlane(context, endpoints, Attempt(3), SlotIndex(0), "127.0.0.1")
    zombie.connect((zombie.address, plane.address))
    zombie.send(THERE, 0, Watermark(1))
    with pytest.raises(SlotLost, match="attempt 3"):
        receive(plane, 1)
    for one in (plane, zombie):
        one.close()
    if guard:
        guard.stop()


@pytest.mark.parametrize("second", [0, 2], ids=["repeated", "lost"])
def test_a_repeated_or_lost_frame_ends_the_attempt(driver, context, second):
    endpoints = slot_side(driver)
    guard = KeyGuard(context, endpoints.keys.slot_public) if endpoints.keys else None
    here = DataPlane(context, endpoints, ATTEMPT, SlotIndex(1), "127.0.0.1")
    there = DataPlane(context, endpoints, ATTEMPT, SlotIndex(0), "127.0.0.1")
    there.connect((there.address, here.address))
    there.send(THERE, 0, Watermark(1))
    there.send(THERE, second, Watermark(2))
    with pytest.raises(SlotLost, match="1 was due"):
        receive(here, 2)
    for one in (here, there):
        one.close()
    if guard:
        guard.stop()


def test_lost_credit_is_said_again_with_the_next_barrier(context):
    driver = DriverEndpoints.on_one_host()
    endpoints = slot_side(driver)
    here = DataPlane(context, endpoints, ATTEMPT, SlotIndex(1), "")
    there = DataPlane(context, endpoints, ATTEMPT, SlotIndex(0), "")
    # The way back exists only after the credit was given: it is lost.
    here.connect((f"ipc://{driver.directory}/nobody", here.address))
    here.grant(THERE, 2, 50)
    here.close()
    again = DataPlane(context, SlotEndpoints("", "", driver.directory, None), ATTEMPT, SlotIndex(1), "")
    again._granted, again._say_again = here._granted, here._say_again
    again.connect((there.address, again.address))
    there.connect((there.address, again.address))
    there.send(THERE, 0, Barrier(CheckpointId(1)))
    receive(again, 1)
    assert receive(there, 1) == [CreditReceived(THERE, 2, 50)]
    for number in range(1, CREDIT_REPEATS + 1):
        there.send(THERE, number, Barrier(CheckpointId(1 + number)))
    receive(again, CREDIT_REPEATS)
    assert again._say_again[THERE] == 0, "credit that does not change is not said for ever"
    for one in (again, there):
        one.close()
    driver.remove()


def test_a_stranger_is_refused_and_a_slot_with_the_key_is_not(context):
    driver = DriverEndpoints.between_hosts("127.0.0.1")
    assert driver.keys is not None
    guard = KeyGuard(context, driver.keys.slot_public)
    control = DriverControl(context, driver)
    outside = zmq.Context()
    public, secret = zmq.curve_keypair()
    plain = outside.socket(zmq.DEALER)
    forger = outside.socket(zmq.DEALER)
    forger.setsockopt(zmq.CURVE_PUBLICKEY, public)
    forger.setsockopt(zmq.CURVE_SECRETKEY, secret)
    forger.setsockopt(zmq.CURVE_SERVERKEY, driver.keys.driver_public)
    for stranger in (plain, forger):
        stranger.setsockopt(zmq.IDENTITY, b"4/0")
        stranger.connect(control.address)
        stranger.send(b"let me in")
    slot = SlotControl(outside, slot_side(driver, control.address), ATTEMPT, SlotIndex(1))
    slot.send(SlotReady(attempt=ATTEMPT, slot=SlotIndex(1)))
    assert control.socket.poll(90_000)
    # The slot was last to knock. Whatever the strangers sent would be here by now: all that is, is the slot's word.
    frames = []
    while control.socket.poll(300):
        frames.append(control.socket.recv_multipart())
    assert [identity for identity, _ in frames] == [b"4/1"]
    outside.destroy(linger=0)
    control.close()
    guard.stop()


def test_control_messages_reach_the_slot_they_are_for(driver, context):
    guard = KeyGuard(context, driver.keys.slot_public) if driver.keys else None
    control = DriverControl(context, driver)
    slots = [SlotControl(context, slot_side(driver, control.address), ATTEMPT, SlotIndex(index)) for index in (0, 1)]
    for index, slot in enumerate(slots):
        slot.send(SlotReady(attempt=ATTEMPT, slot=SlotIndex(index)))
    seen: set[int] = set()
    wait_for(lambda: seen.update(message.slot for message in control.receive()) or len(seen) == 2)
    control.send(SlotIndex(1), EndAttempt(attempt=ATTEMPT, clean=True, reason="done"))
    control.send(SlotIndex(0), EndAttempt(attempt=Attempt(3), clean=False, reason="for its predecessor"))
    assert slots[1].socket.poll(90_000)
    assert list(slots[1].receive()) == [EndAttempt(attempt=ATTEMPT, clean=True, reason="done")]
    assert not slots[0].socket.poll(200)
    for slot in slots:
        slot.close(0)
    control.close()
    if guard:
        guard.stop()


def test_a_slot_that_falls_silent_is_reported_once_and_one_that_works_is_not(context):
    driver = DriverEndpoints.on_one_host()
    silent: list[int] = []
    heard: Counter[int] = Counter()
    heartbeat = DriverHeartbeat(
        context, driver, ATTEMPT, 20, 2_000, silent.append, lambda one: heard.update([one.slot])
    )
    lost: list[str] = []
    endpoints = slot_side(driver, heartbeat=heartbeat.address)
    slots = [SlotHeartbeat(context, endpoints, ATTEMPT, SlotIndex(index), 20, 60_000, lost.append) for index in (0, 1)]
    # One every 20 ms: so many of them take longer than the silence that is reported.
    wait_for(lambda: min(heard[0], heard[1]) >= 110)
    assert silent == []
    slots[1].stop()
    wait_for(lambda: silent)
    until = heard[0] + 110
    wait_for(lambda: heard[0] >= until)
    assert silent == [1] and lost == []
    slots[0].stop()
    heartbeat.stop()
    driver.remove()


def test_a_heartbeat_says_what_its_loop_is_doing_and_for_how_long(context):
    driver = DriverEndpoints.on_one_host()
    heard: list[SlotAlive] = []
    heartbeat = DriverHeartbeat(context, driver, ATTEMPT, 20, 60_000, lambda _: None, heard.append)
    since_ms = time.monotonic() * 1000 - 5_000
    slot = SlotHeartbeat(
        context,
        slot_side(driver, heartbeat=heartbeat.address),
        ATTEMPT,
        SlotIndex(0),
        20,
        60_000,
        lambda _: None,
        lambda: ("1 sink-0", since_ms) if len(heard) < 2 else None,
    )
    wait_for(lambda: heard and not heard[-1].doing)
    slot.stop()
    heartbeat.stop()
    driver.remove()
    assert heard[0].doing == "1 sink-0" and 5_000 <= heard[0].doing_ms < 60_000
    assert heard[-1].doing_ms == 0


def test_a_slot_notices_that_its_driver_is_gone(context):
    driver = DriverEndpoints.on_one_host()
    heard: list[SlotAlive] = []
    heartbeat = DriverHeartbeat(context, driver, ATTEMPT, 20, 60_000, lambda slot: None, heard.append)
    lost: list[str] = []
    told = threading.Event()

    def on_lost(reason: str) -> None:
        lost.append(reason)
        told.set()

    slot = SlotHeartbeat(
        context, slot_side(driver, heartbeat=heartbeat.address), ATTEMPT, SlotIndex(0), 20, 2_000, on_lost
    )
    # Answered every 20 ms, for longer than the silence that it would notice.
    wait_for(lambda: len(heard) >= 110)
    assert not lost
    heartbeat.stop()
    assert told.wait(90)
    slot.stop()
    assert "silent" in lost[0]
    driver.remove()


def stuck_slot(endpoints: SlotEndpoints) -> None:
    SlotHeartbeat(zmq.Context(), endpoints, ATTEMPT, SlotIndex(0), 20, 200, lambda reason: None)
    threading.Event().wait()  # A user function that never returns.


def test_a_stuck_slot_whose_driver_is_gone_loses_its_process():
    """T9: no zombie outlives its job."""
    endpoints = SlotEndpoints("", "ipc:///tmp/tg-nobody-listens-here", None, None)
    process = PROCESSES.Process(target=stuck_slot, args=(endpoints,))
    process.start()
    process.join(90)
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    assert process.exitcode == 1


def test_a_driver_that_was_kept_from_running_blames_nobody(context):
    """A driver that holds its interpreter lock for longer than the timeout must not take its slots for dead."""
    driver = DriverEndpoints.on_one_host()
    mine, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=pausing_driver, args=(driver, theirs))
    process.start()
    address = mine.recv()
    lost: list[str] = []
    slot = SlotHeartbeat(context, slot_side(driver, heartbeat=address), ATTEMPT, SlotIndex(0), 20, 60_000, lost.append)
    assert mine.recv() == "heard of it"
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(3.0)  # How long it is kept from running: twice its timeout.
    os.kill(process.pid, signal.SIGCONT)
    mine.send("what did you see?")
    assert mine.recv() == []
    process.join(90)
    slot.stop()
    driver.remove()


def pausing_driver(driver: DriverEndpoints, pipe: Connection) -> None:
    silent: list[int] = []
    heard: list[SlotAlive] = []
    heartbeat = DriverHeartbeat(zmq.Context(), driver, ATTEMPT, 20, 1_500, silent.append, heard.append)
    pipe.send(heartbeat.address)
    wait_for(lambda: heard)
    pipe.send("heard of it")
    pipe.recv()
    until = len(heard) + 10  # By then it has looked at the clock again, several times.
    wait_for(lambda: len(heard) >= until)
    pipe.send(silent)
    heartbeat.stop()


def slot_that_never_comes_back(endpoints: SlotEndpoints) -> None:
    """A slot whose loop never comes back: only its heartbeat still lives."""
    context = zmq.Context()
    control = SlotControl(context, endpoints, ATTEMPT, SlotIndex(0))
    control.send(SlotReady(attempt=ATTEMPT, slot=SlotIndex(0)))
    failure = SlotFailed(attempt=ATTEMPT, slot=SlotIndex(0), code="UNAVAILABLE", message="stuck in the sync phase")
    SlotHeartbeat(context, endpoints, ATTEMPT, SlotIndex(0), 20, 60_000, lambda _: None, overdue=lambda: failure)
    threading.Event().wait()


def test_a_slot_that_is_stuck_in_its_loop_is_reported_by_its_heartbeat_and_leaves(driver, context) -> None:
    """T66"""
    control = DriverControl(context, driver)
    heartbeat = DriverHeartbeat(context, driver, ATTEMPT, 50, 60_000, lambda _: None)
    endpoints = slot_side(driver, control.address, heartbeat.address)
    process = PROCESSES.Process(target=slot_that_never_comes_back, args=(endpoints,))
    process.start()
    arrived: list = []

    def failed() -> bool:
        arrived.extend(control.receive())
        return any(isinstance(one, SlotFailed) for one in arrived)

    wait_for(failed)
    process.join(90)
    assert process.exitcode == 1
    heartbeat.stop()
    control.close()

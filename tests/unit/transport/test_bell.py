from __future__ import annotations

import select

from tidegate.transport.bell import Bell


def heard(bell: Bell) -> bool:
    return bool(select.select([bell.fileno()], [], [], 0)[0])


def test_a_ring_is_heard_until_it_is_hushed():
    bell = Bell()
    assert not heard(bell)
    bell.ring()
    bell.ring()
    assert heard(bell)
    bell.hush()
    assert not heard(bell)
    bell.close()


def test_ringing_never_blocks_and_is_harmless_after_the_close():
    bell = Bell()
    for _ in range(100_000):
        bell.ring()
    bell.close()
    bell.ring()

from __future__ import annotations

import stat
import subprocess
import tempfile
from pathlib import Path

from tidegate.transport.endpoints import DriverEndpoints


def test_on_one_host_sockets_live_in_a_directory_only_the_user_can_enter():
    endpoints = DriverEndpoints.on_one_host()
    try:
        assert endpoints.directory is not None
        assert stat.S_IMODE(Path(endpoints.directory).stat().st_mode) == 0o700
        # The longest address a Unix socket takes is 107 bytes.
        assert len(f"{endpoints.directory}/d{10**9}-{10**5}") < 107
    finally:
        endpoints.remove()
    assert not Path(endpoints.directory).exists()


def test_keys_are_made_for_one_attempt_and_never_printed():
    first, second = DriverEndpoints.between_hosts("h"), DriverEndpoints.between_hosts("h")
    assert first.keys is not None and second.keys is not None and first.driver_secret is not None
    assert first.keys.slot_secret != second.keys.slot_secret
    shown = repr(first)
    assert str(first.keys.slot_secret) not in shown and str(first.driver_secret) not in shown


def test_the_directory_of_a_killed_driver_is_removed_by_the_next_one():
    dead = subprocess.Popen(["true"])
    dead.wait()
    orphan = Path(tempfile.mkdtemp(prefix=f"tidegate-sockets-{dead.pid}-", dir="/tmp"))
    living = DriverEndpoints.on_one_host()
    DriverEndpoints.on_one_host().remove()
    assert not orphan.exists()
    assert living.directory is not None and Path(living.directory).exists()
    living.remove()

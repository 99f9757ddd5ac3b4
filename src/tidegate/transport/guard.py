"""Lets only holders of the attempt's key connect (ZAP, RFC 27). Without it CurveZMQ encrypts, but to any stranger."""

from __future__ import annotations

import threading

import zmq
from zmq.utils import z85

_ZAP_ENDPOINT = "inproc://zeromq.zap.01"
_STOP = b"stop"


class KeyGuard:
    """Answers the handshakes of all CURVE servers of one context, in a thread of its own. Start it before they bind."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], allowed: bytes) -> None:
        self._context = context
        self._allowed = z85.decode(allowed)
        self._zap = context.socket(zmq.REP)
        self._zap.linger = 0
        self._zap.bind(_ZAP_ENDPOINT)
        self._pipe = context.socket(zmq.PAIR)
        self._pipe.linger = 0
        self._pipe.bind(f"inproc://tidegate-guard-{id(self)}")
        self._thread = threading.Thread(target=self._run, name="tidegate-guard", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        stop = self._context.socket(zmq.PAIR)
        stop.linger = 0
        stop.connect(f"inproc://tidegate-guard-{id(self)}")
        poller = zmq.Poller()
        poller.register(self._zap, zmq.POLLIN)
        poller.register(stop, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if stop in ready:
                break
            # version, request id, domain, address, identity, mechanism, credentials
            version, request, _domain, _address, _identity, mechanism, *credentials = self._zap.recv_multipart()
            known = mechanism == b"CURVE" and credentials == [self._allowed]
            status = [b"200", b"OK", b"tidegate"] if known else [b"400", b"unknown key", b""]
            self._zap.send_multipart([version, request, *status, b""])
        stop.close()
        self._zap.close()

    def stop(self) -> None:
        """Returns when the thread has ended and its sockets are closed."""
        self._pipe.send(_STOP)
        self._thread.join()
        self._pipe.close()

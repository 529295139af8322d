"""Ports for servers of tests."""

from __future__ import annotations

import os
import random
import socket

#: Below the ports that systems give to whoever asks for any: no connection of another test can have got one of these.
FIRST, PROCESSES, PORTS_OF_A_PROCESS = 20_000, 8, 1_500
_given: set[int] = set()


def free_port() -> int:
    """A port of loopback that nobody has, that was not given before, and that no other process of the run will give.

    A server may take seconds until it listens on its port. And somebody may talk to the port of a server that is gone,
    or remember what that server could do: stores are kept by their endpoints.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = FIRST + worker % PROCESSES * PORTS_OF_A_PROCESS
    for port in random.SystemRandom().sample(range(first, first + PORTS_OF_A_PROCESS), PORTS_OF_A_PROCESS):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise RuntimeError(f"no port from {first} to {first + PORTS_OF_A_PROCESS - 1} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

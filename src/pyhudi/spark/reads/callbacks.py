"""Calls from the driver's JVM into this process, through py4j's callback server.

Only the driver's JVM may call: the server asks for the secret with which this process has logged in to the JVM. A
server that the program has already started, for example for `foreachBatch`, is used as it is.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from pyhudi.errors import HudiError
from pyhudi.spark.settings import is_connect

_WAIT_SECONDS = 60
_UNDECLARED = "java.lang.reflect.UndeclaredThrowableException"
_lock = threading.Lock()
_raised: list[list[HudiError]] = []
"""For each block of `original_errors` that runs: the errors that calls of the JVM have ended in meanwhile."""
_log = logging.getLogger(__name__)
_known: weakref.WeakKeyDictionary[JavaGateway, bool] = weakref.WeakKeyDictionary()
_starting = threading.Lock()


def can_be_called(spark: SparkSession) -> bool:
    """Whether the driver's JVM can call objects of this process.

    Not through Spark Connect, and not where the JVM cannot reach this process. Cost: the first time some calls.
    """
    if is_connect(spark):
        return False
    gateway = spark.sparkContext._gateway
    with _starting:
        if gateway not in _known:
            _known[gateway] = _is_running(gateway) or _starts(gateway)
        return _known[gateway]


def _is_running(gateway: JavaGateway) -> bool:
    """Whether there is a server that answers. A gateway takes unknown attributes for names in the JVM."""
    return gateway.__dict__.get("_callback_server") is not None and _answers(gateway)


def _starts(gateway: JavaGateway) -> bool:
    server = gateway.callback_server_parameters
    server.auth_token = gateway.gateway_parameters.auth_token
    try:
        ensure_callback_server_started(gateway)
        if isinstance(gateway, ClientServer):
            _send_the_secret(gateway)
        if _answers(gateway):
            return True
    except (Py4JError, OSError) as error:
        _log.info("the callback server cannot be used: %s", error)
    server.auth_token = None  # for others who need the server: without the secret, as PySpark starts it
    return False


def _send_the_secret(gateway: ClientServer) -> None:
    """Let the JVM send the secret when it calls.

    py4j's client can, but when it learns the port of the server, py4j replaces it by one that does not.
    """
    java, py4j = gateway.jvm.java, gateway.jvm.py4j
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    previous, secret = server.getCallbackClient(), gateway.gateway_parameters.auth_token
    seconds = java.util.concurrent.TimeUnit.SECONDS
    client = py4j.PythonClient(
        *(server.getGateway(), None, previous.getPort(), previous.getAddress(), 0, seconds),
        *(gateway.jvm.javax.net.SocketFactory.getDefault(), server, True, 0, secret),
    )
    field = java.lang.Class.forName("py4j.Gateway").getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(server.getGateway(), client)


def _answers(gateway: JavaGateway) -> bool:
    """Whether the JVM can call this process in a thread of its own, for which it opens a new connection."""
    concurrent = gateway.jvm.java.util.concurrent
    try:
        concurrent.CompletableFuture.runAsync(_Nothing()).get(_WAIT_SECONDS, concurrent.TimeUnit.SECONDS)
    except Py4JError as error:
        _log.info("the JVM cannot call this process: %s", error)
        return False
    return True


class CalledByJava:
    """An object of this process that the JVM calls. It is equal to itself alone. Subclasses say what they implement."""

    def toString(self) -> str:  # noqa: N802 - Java's names
        """How the JVM shows this object."""
        return f"{type(self).__name__} of pyhudi"

    def hashCode(self) -> int:  # noqa: N802
        """As Java asks for it."""
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """As Java asks for it."""
        return self is other


def answer(call: Callable[[], Any]) -> Any:
    """What a call gives to the JVM.

    An error of the JVM goes back there as the object that it was, and one of pyhudi as an `IllegalArgumentException`
    with its text: what else Python raises reaches the JVM, and so the user, as a trace of calls.
    """
    try:
        return call()
    except PySparkException as error:
        origin = getattr(error, "_origin", None)
        if origin is None:
            raise
        raise Py4JJavaError("", origin) from error
    except HudiError as error:
        with _lock:
            for errors in _raised:
                errors.append(error)
        raised = SparkContext._jvm.java.lang.IllegalArgumentException(_text(error))
        raise Py4JJavaError("", raised) from error


@contextmanager
def original_errors() -> Iterator[None]:
    """Raise an error that comes through the JVM as it was raised in a call of this process during the block."""
    raised: list[HudiError] = []
    with _lock:
        _raised.append(raised)
    try:
        yield
    except Exception as error:
        original = _original(error, raised)
        if original is error:
            raise
        raise original from None
    finally:
        with _lock:
            _raised[:] = [errors for errors in _raised if errors is not raised]


def _original(error: Exception, raised: Sequence[HudiError]) -> Exception:
    """The error that another one tells of. Java wraps what a method of an interface does not declare."""
    shown = str(error)
    for known in reversed(raised):
        if _text(known) in shown:
            return known
    if isinstance(error, Py4JJavaError) and error.java_exception.getClass().getName() == _UNDECLARED:
        undeclared: Exception = convert_exception(error.java_exception.getUndeclaredThrowable())
        return undeclared
    return error


def _text(error: HudiError) -> str:
    return f"{type(error).__name__}: {error}"


class _Nothing:
    """A `Runnable` that does nothing."""

    def run(self) -> None:
        """Do nothing."""

    class Java:
        implements = ("java.lang.Runnable",)

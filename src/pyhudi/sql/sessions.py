"""Classic sessions in which Spark resolves the names of Hudi tables: each gets a parser, a relation cache, a function.

Sessions that are made later, also by the JVM alone (streams, a Thrift server), have our parser from the beginning, and
the rest with their first name. Nothing here keeps a session.
"""

from __future__ import annotations

import logging
from threading import Event, Lock
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyhudi.spark.reads.callbacks import can_be_called
from pyhudi.spark.weak_session import WeakSession, session_id
from pyhudi.sql.functions.named_table import register_reads
from pyhudi.sql.parser import LaterParsers, Parser
from pyhudi.sql.relation_cache import RelationCache

_log = logging.getLogger(__name__)
_enabled = Event()
_lock = Lock()
_served: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()
_parsers: WeakValueDictionary[str, Parser] = WeakValueDictionary()
_relations: WeakValueDictionary[str, RelationCache] = WeakValueDictionary()
"""By the id of a session of the JVM, for which PySpark may have several objects. The session holds them."""
_contexts: WeakSet[SparkContext] = WeakSet()
"""Those whose later sessions ask for a parser here."""


def serve_all(spark: SparkSession) -> None:
    """Serve a session, and those of its application that are made later."""
    _enabled.set()
    if serve(spark) and spark.sparkContext not in _contexts:
        spark._jsparkSession.extensions().injectParser(LaterParsers(_later_parser))
        _contexts.add(spark.sparkContext)


def serve(spark: SparkSession) -> bool:
    """Have Spark resolve the names of Hudi tables in a session. False where it cannot: on Spark Connect, for one.

    Cost: once for a session some sixty calls to the JVM; then none.
    """
    if spark not in _served:
        with _lock:
            if spark not in _served:
                _served[spark] = _serve(spark)
    return _served[spark]


def release() -> None:
    """Put parsers and caches of Spark's own back into all sessions."""
    _enabled.clear()
    everything: list[Parser | RelationCache] = [*_parsers.values(), *_relations.values()]
    for installed in everything:
        try:
            installed.remove()
        except (Py4JError, OSError, ReferenceError) as error:  # the session has ended
            _log.info("a session keeps %s: %s", installed.toString(), error)
    for known in (_served, _parsers, _relations):
        known.clear()


def _serve(spark: SparkSession) -> bool:
    if not can_be_called(spark) or not isinstance(spark.sparkContext._gateway, ClientServer):
        return False  # elsewhere a call from here has another thread of the JVM than the one that waits for the answer
    spark.sparkContext._gateway.callback_server_parameters.propagate_java_exceptions = True
    try:
        session = session_id(spark)
        if session not in _parsers:
            inner = spark._jsparkSession.sessionState().sqlParser()
            _parsers[session] = parser = Parser(WeakSession(spark._jsparkSession, spark), inner, _session_of)
            parser.install()
        if session not in _relations:
            register_reads(spark)
            _relations[session] = relations = RelationCache(spark)
            relations.install()
    except (Py4JError, PySparkException, TypeError) as error:  # py4j takes a class that is not there for a package
        _log.warning("Spark does not resolve names of Hudi tables in this session: %s", error)
        return False
    return True


def _later_parser(java_session: Any, inner: Any) -> Any:
    """The parser of a session whose state is being made."""
    if not _enabled.is_set():
        return inner
    session = WeakSession(java_session)
    _parsers[session.id] = parser = Parser(session, inner, _session_of)
    return parser


def _session_of(session: WeakSession) -> SparkSession | None:
    """The session of a parser, served; None while pyhudi is disabled."""
    if not _enabled.is_set():
        return None
    spark = session.get()
    serve(spark)
    return spark

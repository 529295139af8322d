"""A classic session for objects of this process that its JVM holds, which must not keep the session in their turn."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import RDD, SparkContext
from pyspark.sql import SparkSession

from pyhudi.spark.settings import is_connect

_RECENT = 8
_recent: deque[SparkSession] = deque(maxlen=_RECENT)
"""Sessions that were made here last: a session of the JVM alone is asked several times for a statement."""
_ids: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


class WeakSession:
    """A session of the driver's JVM, and the session of PySpark over it, which is made where there is none.

    Attributes:
        id: that of the session, which no other has.
    """

    def __init__(self, java_session: Any, session: SparkSession | None = None) -> None:
        self._context = SparkContext._active_spark_context
        self._java = self._context._jvm.java.lang.ref.WeakReference(java_session)
        self.id = str(java_session.sessionUUID())
        self._session = (lambda: None) if session is None else weakref.ref(session)

    def get(self) -> SparkSession:
        """The session of PySpark.

        Raises:
            ReferenceError: the JVM has the session no more. It has it while it calls.
        """
        session = self._session()
        if session is None:
            java_session = self._java.get()
            if java_session is None:
                raise ReferenceError("the session has ended")
            session = _session_of(self._context, java_session)
            self._session = weakref.ref(session)
            _recent.append(session)
        return session


def session_id(spark: SparkSession) -> str:
    """The id of a session, for which PySpark may have several objects. Cost: for the first question two calls."""
    if spark not in _ids:
        _ids[spark] = str(spark.session_id if is_connect(spark) else spark._jsparkSession.sessionUUID())
    return _ids[spark]


def _session_of(context: SparkContext, java_session: Any) -> SparkSession:
    """A session of PySpark, which would take `RDD.toDF` for itself."""
    to_frame = RDD.toDF
    try:
        return SparkSession(context, java_session)
    finally:
        RDD.toDF = to_frame

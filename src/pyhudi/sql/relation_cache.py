"""The relations of a session's catalog, by which Spark itself resolves the names of Hudi tables.

Spark's analyzer asks the catalog's cache for the plan of each data source table that a statement names, wherever the
name stands. For a Hudi table the answer is the call of a table function, which is resolved with the statement: so one
answer serves for ever, and each statement reads anew.

Spark also asks where it has only the name of a table for a command. A table with an answer would be one of the first
data source interface there, whose files Spark's `TRUNCATE` deletes. So the answer is for queries alone, by the methods
of Spark that ask; for commands the table stays one whose files none of them touches, as without the cache.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Final

from pyspark.sql import SparkSession

from pyhudi.spark.reads.callbacks import CalledByJava, answer
from pyhudi.spark.reads.jvm_objects import Jvm
from pyhudi.spark.weak_session import WeakSession
from pyhudi.sql.catalog.session_tables import SESSION_CATALOG, TablesOfDriver
from pyhudi.sql.functions.named_table import TableRead

_CATALOG, _FIELD = "org.apache.spark.sql.catalyst.catalog.SessionCatalog", "tableRelationCache"
_CALL = "org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction"
_PARSER = "org.apache.spark.sql.execution.SparkSqlParser"
_THROWABLE, _UTILITIES = "java.lang.Throwable", "org.apache.spark.util.Utils"
_READS = re.compile(r"\bRelationResolution\.\S*(?:resolveRelation|tryResolvePersistent)|\bFindDataSourceTable\b")
"""What Spark does when it asks for the rows of a table, in a trace of its calls."""
_FRAMES: Final = 60
"""How many calls of a trace are searched; those that ask are among the first 31. Of an answer above 8 KiB py4j sends
the rest 40 ms later."""


class RelationCache(CalledByJava):
    """A `Cache` of Guava. Its methods that are not here are those of a plain cache of Guava, which it has."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = WeakSession(spark._jsparkSession, spark)
        self._field = Jvm(spark).field(_CATALOG, _FIELD)
        self._parser = Jvm(spark).named(_PARSER)()
        self._throwable, self._utilities = map(Jvm(spark).named, (_THROWABLE, _UTILITIES))
        kind = self._field.getType()
        self._plain = _plain_cache(spark, kind.getPackage().getName())
        self.Java = SimpleNamespace(implements=(kind.getName(),))

    def install(self) -> None:
        """Stand in the session's catalog."""
        self._field.set(self._session.get()._jsparkSession.sessionState().catalog(), self)

    def remove(self) -> None:
        """Leave the catalog to a plain cache."""
        self._plain.invalidateAll()
        self._field.set(self._session.get()._jsparkSession.sessionState().catalog(), self._plain)

    def getIfPresent(self, key: Any) -> Any:  # noqa: N802 - Java's names
        """The plan of a table; None where Spark is to make it, and for a Hudi table of a command."""
        return answer(lambda: self._relation_of_query(key))

    def get(self, key: Any, loader: Any) -> Any:
        """The plan of a table; `loader` makes that of one that is not Hudi's."""
        return answer(lambda: self._relation(key) or self._plain.get(key, loader))

    def _relation_of_query(self, key: Any) -> Any:
        found = self._relation(key)
        is_ours = found is not None and found.getClass().getName() == _CALL
        return None if is_ours and not self._is_of_query() else found

    def _relation(self, key: Any) -> Any:
        found = self._plain.getIfPresent(key)
        if found is None:
            database, table = str(key.database()), str(key.name())
            if TablesOfDriver(self._session.get()).is_hudi(database, table):
                call = TableRead((SESSION_CATALOG, database, table)).call()
                found = self._parser.parsePlan(f"SELECT * FROM {call}").child()  # noqa: S608 - of a quoted name
                self._plain.put(key, found)
        return found

    def _is_of_query(self) -> bool:
        """Whether the JVM asks here for rows. Its thread that waits for this answer makes the trace."""
        trace = self._throwable()
        trace.setStackTrace(trace.getStackTrace()[:_FRAMES])
        return _READS.search(self._utilities.exceptionString(trace)) is not None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: answer(lambda: getattr(self._plain, name)(*arguments))


def _plain_cache(spark: SparkSession, package: str) -> Any:
    """A cache with the size and time of Spark's own, whose plans the JVM may forget.

    Plans hold the session, and this process holds the cache, which must not keep a session that has ended.
    """
    conf = spark._jsparkSession.sessionState().conf()
    builder = Jvm(spark).named(f"{package}.CacheBuilder").newBuilder().softValues()
    builder = builder.maximumSize(conf.tableRelationCacheSize())
    seconds = conf.metadataCacheTTL()
    if seconds > 0:
        builder = builder.expireAfterWrite(seconds, spark._jvm.java.util.concurrent.TimeUnit.SECONDS)
    return builder.build()

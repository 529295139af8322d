"""The filter above the scan that asks a `FileIndex` for its files.

Spark hands a `FileIndex` the parts of a query's filter that are about partition columns alone, or about other columns
alone. Of `city = 'oslo' or fare > 100` it hands over nothing. The whole filter stands in the plan of the query that
runs, above the scan. A scan keeps its files as a lazy value, whose lock the thread holds that computes it: that one. As
the JVM waits for an answer, it runs the calls of this process in this very thread. So the scan is found by its lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError

from pyhudi.spark.reads.jvm_objects import Jvm

_EXECUTION = "org.apache.spark.sql.execution"
_ADAPTIVE, _STAGE = f"{_EXECUTION}.adaptive.AdaptiveSparkPlanExec", f"{_EXECUTION}.adaptive.QueryStageExec"
_SAME_ROWS = frozenset({"InputAdapter", "ColumnarToRow"})
"""Names of the nodes that a plan may have between a scan and the filter on its rows, and that pass all rows on."""
PLANS_MAX = 64
"""How many parts of a plan are looked through."""


def filter_of_asking_scan(jvm: Jvm) -> Any | None:
    """The condition that a filter puts on all rows of the scan in this thread of the JVM; None if that is not known.

    It is not known outside of a query that runs, where this process is called in another thread, for scans of cached
    DataFrames, and in a release of Spark whose plans look otherwise. Cost: some thirty calls.
    """
    try:
        execution = jvm.spark._jsparkSession.sparkContext().getLocalProperty("spark.sql.execution.id")
        query = execution and jvm.named(f"{_EXECUTION}.SQLExecution").getQueryExecution(int(execution))
        return _filter_in(jvm, query.executedPlan()) if query else None
    except (Py4JError, TypeError):  # py4j takes a class that is not there for a package, and cannot call it
        return None


def _filter_in(jvm: Jvm, plan: Any) -> Any | None:
    holds_lock = jvm.named("java.lang.Thread").holdsLock
    identity = getattr(jvm.single("scala.Predef"), "$conforms")()
    stage = jvm.class_of(_STAGE)  # a leaf, too, whose lock Spark 3.5 holds while the scan in it is asked
    found = []
    for part in _parts(jvm, plan):
        if any(holds_lock(leaf) and not stage.isInstance(leaf) for leaf in _items(part.collectLeaves())):
            nodes = _items(part.map(identity))  # each before its children
            held = [at for at, node in enumerate(nodes) if holds_lock(node) and node.children().isEmpty()]
            found += [nodes[:at] for at in held if not stage.isInstance(nodes[at])]
    if len(found) != 1:
        return None
    for node in reversed(found[0]):
        name = node.nodeName()
        if name not in _SAME_ROWS:
            return node.condition() if name == "Filter" else None
    return None


def _parts(jvm: Jvm, plan: Any) -> Iterator[Any]:
    """A plan, and those within it that are no children: of adaptive execution, of its stages, and of subqueries."""
    adaptive, stage = jvm.class_of(_ADAPTIVE), jvm.class_of(_STAGE)
    waiting = [plan]
    for _ in range(PLANS_MAX):
        if not waiting:
            return
        part = waiting.pop(0)
        yield part
        for leaf in _items(part.collectLeaves()):
            if adaptive.isInstance(leaf):
                waiting.append(leaf.executedPlan())
            elif stage.isInstance(leaf):
                waiting.append(leaf.plan())
        waiting += _items(part.subqueriesAll())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.length())]

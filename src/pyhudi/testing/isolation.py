"""Checker of histories of concurrent transactions against snapshot isolation.

The transactions append to lists and read lists, and no value is appended twice. So a list that was read shows all
versions before it, their order, and the transaction that wrote each of them. The dependencies between transactions form
a graph, and anomalies are cycles in it. The check is pure: it needs only the records of the clients.

The checker reports dirty writes (G0), reads of values of failed transactions (G1a) or of intermediate values (G1b),
circular information flow (G1c), lost updates, read skew, and all other cycles without two consecutive
anti-dependencies: snapshot isolation excludes these cycles. It allows write skew, a cycle with two consecutive ones. If
the times of the calls are known, the checker also reports acknowledged appends that a later read lacks, and reads that
go back in time.

The method is that of Elle (https://arxiv.org/abs/2003.10554), with Adya's names of the anomalies.
"""

from __future__ import annotations

import bisect
import enum
import itertools
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi.errors import InvalidRequestError

Version = tuple[str, ...]
"""The values of a list at one time."""


class Ending(enum.Enum):
    """The answer of a transaction to its client."""

    OK = "the transaction was committed"
    FAILED = "the transaction had no effect"
    UNKNOWN = "the effect of the transaction is unknown"


class AnomalyKind(enum.Enum):
    """The kinds of anomalies. The value describes the anomaly."""

    GARBAGE = "a read returned a value that no transaction appended"
    REPEATED = "a read returned a value twice"
    ABORTED_READ = "G1a: a read returned a value of a transaction that failed"
    INTERMEDIATE_READ = "G1b: a read ends between two appends of one transaction"
    ORDERS_DIFFER = "two reads of a key disagree on the order of its values"
    LOST_UPDATE = "lost update: two transactions read one version of a key, and both appended to it"
    LOST_APPEND = "an acknowledged append is missing from a read that began later"
    STALE_READ = "a read is older than one that ended before it began"
    DIRTY_WRITE = "G0: the appends of transactions form a cycle"
    CIRCULAR_FLOW = "G1c: the reads and appends of transactions form a cycle"
    READ_SKEW = "G-single: a transaction saw only a part of another transaction's appends"
    NO_SNAPSHOT = "transactions form a cycle that snapshot isolation excludes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One call of a client: the lists that it read, and then the values that it appended to lists, by key.

    `began` and `ended` are seconds by one clock for all clients. A transaction without an end got no answer.
    """

    name: str
    ending: Ending
    reads: Mapping[str, Version] = field(default_factory=dict)
    appends: Mapping[str, Version] = field(default_factory=dict)
    began: float = -math.inf
    ended: float = math.inf


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A violation of snapshot isolation: its kind, the transactions that show it, and the evidence."""

    kind: AnomalyKind
    transactions: tuple[str, ...]
    evidence: str

    def __str__(self) -> str:
        return f"{self.kind.value} [{', '.join(self.transactions)}]: {self.evidence}"


def check_history(transactions: Iterable[Transaction]) -> tuple[Anomaly, ...]:
    """The anomalies of a history; none if snapshot isolation allows the history.

    A transaction with unknown ending counts as committed if a read returned one of its values. Cost: for n values that
    were read, O(n), and O(n log n) with times.

    Raises:
        InvalidRequestError: two transactions have the same name, or a value was appended twice.
    """
    history = _History.of(tuple(transactions))
    found = [*_wrong_values(history), *_wrong_orders(history), *_lost_updates(history), *_wrong_times(history)]
    return (*found, *_cycles(history))


@dataclass(frozen=True, slots=True)
class _History:
    """The transactions by name, the writer of each value, and for each key the longest list that was read."""

    by_name: dict[str, Transaction]
    writer_of: dict[tuple[str, str], str]
    orders: dict[str, Version]

    @classmethod
    def of(cls, transactions: tuple[Transaction, ...]) -> _History:
        by_name = {transaction.name: transaction for transaction in transactions}
        if len(by_name) < len(transactions):
            raise InvalidRequestError("two transactions of the history have one name: give each its own")
        writer_of: dict[tuple[str, str], str] = {}
        for transaction in transactions:
            for key, values in transaction.appends.items():
                for value in values:
                    if (key, value) in writer_of:
                        raise InvalidRequestError(
                            "the value was appended twice: append unique values", key=key, value=value
                        )
                    writer_of[key, value] = transaction.name
        orders: dict[str, Version] = {}
        for transaction in transactions:
            for key, version in _seen_by(transaction):
                orders[key] = max(orders.get(key, ()), version, key=len)
        return cls(by_name, writer_of, orders)

    def reads(self) -> Iterator[tuple[Transaction, str, Version]]:
        """The reads of committed transactions, which alone are checked."""
        for transaction in self.by_name.values():
            if transaction.ending is Ending.OK:
                for key, version in transaction.reads.items():
                    yield transaction, key, version

    def done(self) -> frozenset[str]:
        """The names of the transactions that took effect."""
        seen = {self.writer_of.get((key, value)) for key, order in self.orders.items() for value in order}
        return frozenset(
            transaction.name
            for transaction in self.by_name.values()
            if transaction.ending is Ending.OK or (transaction.ending is Ending.UNKNOWN and transaction.name in seen)
        )


def _seen_by(transaction: Transaction) -> Iterator[tuple[str, Version]]:
    """The versions that a committed transaction proves: the lists that it read, with its own appends."""
    if transaction.ending is not Ending.OK:
        return
    for key, version in transaction.reads.items():
        yield key, version + tuple(transaction.appends.get(key, ()))


def _wrong_values(history: _History) -> Iterator[Anomaly]:
    """Reads of values without a writer, of repeated values, of failed transactions, and of a part of an append."""
    for reader, key, version in history.reads():
        if len(set(version)) < len(version):
            yield Anomaly(AnomalyKind.REPEATED, (reader.name,), f"{key} = {_text(version)}")
        for value in dict.fromkeys(version):
            writer = history.writer_of.get((key, value))
            if writer is None:
                yield Anomaly(AnomalyKind.GARBAGE, (reader.name,), f"{value!r} in {key}")
            elif history.by_name[writer].ending is Ending.FAILED:
                yield Anomaly(AnomalyKind.ABORTED_READ, (reader.name, writer), f"{value!r} in {key}")
        if version and (writer := history.writer_of.get((key, version[-1]))) not in (None, reader.name):
            appended = history.by_name[str(writer)].appends[key]
            if appended[-1] != version[-1]:
                yield Anomaly(AnomalyKind.INTERMEDIATE_READ, (reader.name, str(writer)), f"{version[-1]!r} in {key}")


def _wrong_orders(history: _History) -> Iterator[Anomaly]:
    """Reads that are not a prefix of the longest version of their key."""
    for transaction in history.by_name.values():
        for key, version in _seen_by(transaction):
            order = history.orders[key]
            if version != order[: len(version)]:
                yield Anomaly(
                    AnomalyKind.ORDERS_DIFFER, (transaction.name,), f"{key}: {_text(version)} and {_text(order)}"
                )


def _lost_updates(history: _History) -> Iterator[Anomaly]:
    """Transactions that read the same version of a key and both appended to it."""
    successors: dict[tuple[str, Version], list[str]] = defaultdict(list)
    done = history.done()
    for transaction in history.by_name.values():
        for key in transaction.appends:
            if transaction.name in done and key in transaction.reads:
                successors[key, transaction.reads[key]].append(transaction.name)
    for (key, version), names in successors.items():
        if len(names) > 1:
            yield Anomaly(AnomalyKind.LOST_UPDATE, tuple(names), f"{key} = {_text(version)}")


def _wrong_times(history: _History) -> Iterator[Anomaly]:
    """Reads without a value that was acknowledged, or returned by another read, before they began."""
    known = _known_by_time(history)
    for reader, key, version in history.reads():
        ends, knowledge = known.get(key, ((), ()))
        before = bisect.bisect_left(ends, reader.began)
        if before == 0:
            continue
        length, witness, is_append = knowledge[before - 1]
        if length > len(version):
            kind = AnomalyKind.LOST_APPEND if is_append else AnomalyKind.STALE_READ
            yield Anomaly(kind, (reader.name, witness), f"{key} = {_text(version)}")


_Known = tuple[float, str, bool]
"""The length of a list, the name of the transaction that proves it, and whether that transaction appended to it."""


def _known_by_time(history: _History) -> dict[str, tuple[list[float], list[_Known]]]:
    """By key: increasing times, and the longest list that was known at each of them.

    An acknowledged append that no read returned counts as infinitely long.
    """
    positions = {key: {value: n + 1 for n, value in enumerate(order)} for key, order in history.orders.items()}
    events: dict[str, list[tuple[float, _Known]]] = defaultdict(list)
    for transaction in history.by_name.values():
        if transaction.ending is not Ending.OK or transaction.ended == math.inf:
            continue
        for key, version in transaction.reads.items():
            events[key].append((transaction.ended, (len(version), transaction.name, False)))
        for key, values in transaction.appends.items():
            length = max((positions.get(key, {}).get(value, math.inf) for value in values), default=0)
            events[key].append((transaction.ended, (length, transaction.name, True)))
    known = {}
    for key, timed in events.items():
        timed.sort(key=lambda event: event[0])
        most: list[_Known] = []
        for _, now in timed:
            most.append(now if not most or now[0] > most[-1][0] else most[-1])
        known[key] = ([time for time, _ in timed], most)
    return known


class _Edge(enum.Enum):
    """The reason why a transaction comes before another one."""

    WW = "appends after"
    WR = "is seen by"
    RW = "does not see"


@dataclass(frozen=True, slots=True)
class _Step:
    """One edge of the dependency graph."""

    source: str
    edge: _Edge
    target: str
    key: str

    def __str__(self) -> str:
        return f"{self.source} -{self.edge.name.lower()} {self.key}-> {self.target}"


_Node = tuple[str, bool]
"""A transaction, and whether the step to it was not RW. Only then the next step may be RW."""


def _cycles(history: _History) -> Iterator[Anomaly]:
    """A short cycle from each strongly connected component, without two consecutive anti-dependencies."""
    steps = _steps(history)
    graph: dict[_Node, list[tuple[_Node, _Step]]] = defaultdict(list)
    for step in steps:
        if step.edge is _Edge.RW:
            graph[step.source, True].append(((step.target, False), step))
        else:
            for reached in (False, True):
                graph[step.source, reached].append(((step.target, True), step))
    for tangle in _components(graph):
        circle = min((_circle(graph, tangle, start) for start in sorted(tangle)[:_STARTS_MAX]), key=len)
        names = tuple(dict.fromkeys(step.source for step in circle))
        yield Anomaly(_kind_of(circle), names, ", ".join(map(str, circle)))


_STARTS_MAX = 32
"""The number of nodes of a component from which a short cycle is searched."""


def _steps(history: _History) -> tuple[_Step, ...]:
    """The dependencies between transactions that took effect."""
    done = history.done()
    found: dict[_Step, None] = {}

    def add(source: str | None, edge: _Edge, target: str | None, key: str) -> None:
        if source in done and target in done and source != target:
            found[_Step(str(source), edge, str(target), key)] = None

    for key, order in history.orders.items():
        writers = [history.writer_of.get((key, value)) for value in order]
        for before, after in itertools.pairwise(writers):
            add(before, _Edge.WW, after, key)
    for reader, key, version in history.reads():
        order = history.orders[key]
        if version != order[: len(version)]:
            continue
        if version:
            add(history.writer_of.get((key, version[-1])), _Edge.WR, reader.name, key)
        # The reader's own appends may come next in the list; the values that it did not see follow them.
        later = (history.writer_of.get((key, value)) for value in order[len(version) :])
        add(reader.name, _Edge.RW, next((writer for writer in later if writer != reader.name), None), key)
    return tuple(found)


def _components(graph: Mapping[_Node, Sequence[tuple[_Node, _Step]]]) -> Iterator[frozenset[_Node]]:
    """The strongly connected components with more than one node (Tarjan's algorithm, without recursion)."""
    order: dict[_Node, int] = {}
    lowest: dict[_Node, int] = {}
    stack: list[_Node] = []
    on_stack: set[_Node] = set()
    for root in list(graph):
        if root in order:
            continue
        work: list[tuple[_Node, Iterator[tuple[_Node, _Step]]]] = [(root, iter(graph[root]))]
        order[root] = lowest[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target, _ in targets:
                if target not in order:
                    order[target] = lowest[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph.get(target, ()))))
                    break
                if target in on_stack:
                    lowest[node] = min(lowest[node], order[target])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    component = frozenset(_taken_until(node, stack, on_stack))
                    if len(component) > 1:
                        yield component


def _taken_until(node: _Node, stack: list[_Node], on_stack: set[_Node]) -> Iterator[_Node]:
    taken = None
    while taken != node:
        taken = stack.pop()
        on_stack.discard(taken)
        yield taken


def _circle(
    graph: Mapping[_Node, Sequence[tuple[_Node, _Step]]], tangle: frozenset[_Node], start: _Node
) -> tuple[_Step, ...]:
    """A shortest cycle through a node of a component, by breadth-first search."""
    came: dict[_Node, tuple[_Node, _Step]] = {}
    queue = deque([start])
    while queue and start not in came:
        node = queue.popleft()
        for target, step in graph[node]:
            if target in tangle and target not in came:
                came[target] = (node, step)
                queue.append(target)
    steps: list[_Step] = []
    node = start
    while not steps or node != start:
        node, step = came[node]
        steps.append(step)
    return tuple(reversed(steps))


def _kind_of(circle: Sequence[_Step]) -> AnomalyKind:
    edges = [step.edge for step in circle]
    match edges.count(_Edge.RW):
        case 0:
            return AnomalyKind.CIRCULAR_FLOW if _Edge.WR in edges else AnomalyKind.DIRTY_WRITE
        case 1:
            return AnomalyKind.READ_SKEW
        case _:
            return AnomalyKind.NO_SNAPSHOT


def _text(version: Version) -> str:
    """The end of a list as text. Long lists usually differ only at their end."""
    return ("[…, " if len(version) > _SHOWN else "[") + ", ".join(version[-_SHOWN:]) + "]"


_SHOWN = 6

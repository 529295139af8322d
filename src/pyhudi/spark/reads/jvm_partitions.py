"""Partitions of a relation in the driver's JVM: their values as rows of Spark, filters on them, and their files.

All of them are made in a fixed number of calls. Rows cross as PySpark sends its own, pickled. For what must be done
with each of them, Java's method handles make a loop that runs in the JVM.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import compress
from typing import Any

from pyspark.serializers import CPickleSerializer
from pyspark.sql.types import ArrayType, StructType

from pyhudi.read.folder_constants import Value
from pyhudi.spark.reads.jvm_objects import FileToRead, Jvm

_CATALYST = "org.apache.spark.sql.catalyst"
DIRECTORY = "org.apache.spark.sql.execution.datasources.PartitionDirectory"
_INVOKE = "java.lang.invoke"
_EPOCH = dt.date(1970, 1, 1)

PartitionOf = tuple[Value, ...]
"""The values of the partition columns in one partition."""


@dataclass(frozen=True, slots=True)
class JvmPartitions:
    """Partitions of the driver's JVM whose values are of these columns."""

    jvm: Jvm
    columns: StructType

    def passing(self, filters: Sequence[Any], partitions: Sequence[PartitionOf]) -> list[PartitionOf]:
        """Those of the partitions for which all filters hold: expressions of Spark on the partition columns alone.

        Spark evaluates them. Cost: some forty calls.
        """
        if not filters or not partitions:
            return list(partitions)
        every = reduce(self.jvm.named(f"{_CATALYST}.expressions.And"), filters)
        columns = self.jvm.named(f"{_CATALYST}.expressions.package$AttributeSeq")(self._attributes(filters))
        bound = self.jvm.named(f"{_CATALYST}.expressions.BindReferences").bindReference(every, columns, False)
        # Not a compiled one: all of them have one name, by which py4j remembers the methods of the first.
        predicate = self.jvm.named(f"{_CATALYST}.expressions.Predicate").createInterpreted(bound)
        predicate.initialize(0)
        of_class = self.jvm.class_of(f"{_CATALYST}.expressions.BasePredicate")
        evaluate = self._lookup.findVirtual(of_class, "eval", self._method_type("boolean", f"{_CATALYST}.InternalRow"))
        flags = self._each(evaluate.bindTo(predicate), [self._rows(partitions)], len(partitions))
        return list(compress(partitions, self._truths(flags)))

    def directories(self, partitions: Sequence[PartitionOf], files: Sequence[Sequence[FileToRead]]) -> Any:
        """A Scala sequence of `PartitionDirectory`: each partition with its files. Cost: some forty calls."""
        if not partitions:
            return self.jvm.sequence([])
        of_class = self.jvm.class_of(DIRECTORY)
        statuses = "[Lorg.apache.hadoop.fs.FileStatus;"
        kind = self._method_type(DIRECTORY, f"{_CATALYST}.InternalRow", statuses)
        make = self._lookup.findStatic(of_class, "apply", kind)
        made = self._each(make, [self._rows(partitions), self.jvm.file_statuses(files)], len(partitions))
        return self.jvm.collections.toSeq(self.jvm.named("java.util.Arrays").asList(made))

    def _rows(self, partitions: Sequence[PartitionOf]) -> Any:
        """An array of Spark's rows."""
        pickled = CPickleSerializer().dumps([tuple(map(_sent, values)) for values in partitions])
        sent = self.jvm.named("net.razorvine.pickle.Unpickler")().loads(pickled)
        kind = self.jvm.data_type(ArrayType(self.columns))
        convert = self.jvm.named("org.apache.spark.sql.execution.python.EvaluatePython").makeFromJava(kind)
        return convert.apply(sent).array()

    def _attributes(self, filters: Sequence[Any]) -> Any:
        """The partition columns, in their order, as the filters name them."""
        named: dict[str, Any] = {}
        for filter_ in filters:
            found = filter_.references().toSeq()
            for number in range(found.length()):
                attribute = found.apply(number)
                named[attribute.name()] = attribute
        own = self.jvm.named(f"{_CATALYST}.types.DataTypeUtils").toAttributes(self.jvm.data_type(self.columns))
        return self.jvm.sequence(
            [named.get(name) or own.apply(number) for number, name in enumerate(self.columns.names)]
        )

    @property
    def _lookup(self) -> Any:
        return self.jvm.named(f"{_INVOKE}.MethodHandles").publicLookup()

    def _method_type(self, result: str, *parameters: str) -> Any:
        kinds = self._array("java.lang.Class", [self._class_of(name) for name in parameters])
        return self.jvm.named(f"{_INVOKE}.MethodType").methodType(self._class_of(result), kinds)

    def _class_of(self, name: str) -> Any:
        primitive = {"boolean": "java.lang.Boolean", "int": "java.lang.Integer"}.get(name)
        return self.jvm.class_of(name) if primitive is None else self.jvm.named(primitive).TYPE

    def _each(self, method: Any, arrays: Sequence[Any], length: int) -> Any:
        """An array of what a method returns for each number: it gets that element of each array."""
        handles = self.jvm.named(f"{_INVOKE}.MethodHandles")
        of_objects = handles.arrayElementGetter(self._class_of("[Ljava.lang.Object;"))
        elements = self._array(f"{_INVOKE}.MethodHandle", [of_objects.bindTo(array) for array in arrays])
        any_kind = self.jvm.named(f"{_INVOKE}.MethodType").genericMethodType(len(arrays))
        of_numbers = handles.filterArguments(method.asType(any_kind), 0, elements)
        order = self.jvm.gateway.new_array(self.jvm.root.int, len(arrays))  # zeros: all get the same number
        of_number = handles.permuteArguments(of_numbers, self._method_type("java.lang.Object", "int"), order)
        proxies = self.jvm.named(f"{_INVOKE}.MethodHandleProxies")
        function = proxies.asInterfaceInstance(self._class_of("java.util.function.IntFunction"), of_number)
        results = self.jvm.gateway.new_array(self.jvm.named("java.lang.Object"), length)
        self.jvm.named("java.util.Arrays").setAll(results, function)
        return results

    def _truths(self, flags: Any) -> list[bool]:
        printed: str = self.jvm.named("java.util.Arrays").toString(flags)
        return [flag == "true" for flag in printed.strip("[]").split(", ")]

    def _array(self, kind: str, items: Sequence[Any]) -> Any:
        array = self.jvm.gateway.new_array(self.jvm.named(kind), len(items))
        for number, item in enumerate(items):
            array[number] = item
        return array


def _sent(value: Value) -> str | int | None:
    """A value in the form in which PySpark sends it."""
    return (value - _EPOCH).days if isinstance(value, dt.date) else value

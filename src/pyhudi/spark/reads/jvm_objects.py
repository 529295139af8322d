"""Objects of Spark and Hadoop in the driver's JVM, made in bulk: each call from Python costs a tenth of a millisecond.

File statuses cross in one call, in the form in which Hadoop itself sends them: the protobuf message `FileStatusProto`,
which `FileStatus.readFields` reads.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import quote

from py4j.java_gateway import JavaGateway
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

_FILE_STATUS = "org.apache.hadoop.fs.FileStatus"
_IS_FILE, _PATH, _LENGTH = b"\x08\x02", b"\x12", b"\x18"
_MODIFIED, _REPLICATION, _BLOCK_SIZE = b"\x38", b"\x50\x01", b"\x58"
"""Tags of the fields of `FileStatusProto`, two with their values: it is a file, of one replica."""
_SPLIT_BYTES = 128 << 20
"""The block size of files, which no store of pyhudi has. Spark splits files by a setting of its own."""
_ESCAPED = re.compile(r"[\x00-\x7f]+")
_LEGAL_IN_URIS = "/_-!.~'()*,;:$&+=@"


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A file that Spark reads: its URI in the form of Hadoop, its size in bytes, and when it was last modified."""

    uri: str
    size: int
    modified_ms: int = 0


@dataclass(frozen=True, slots=True)
class Jvm:
    """The driver's JVM of a classic session."""

    spark: SparkSession

    @property
    def gateway(self) -> JavaGateway:
        """The connection to it."""
        return self.spark.sparkContext._gateway

    @property
    def root(self) -> Any:
        """Its packages."""
        return self.spark._jvm

    def named(self, name: str) -> Any:
        """A class by its full name. Cost: one call; each package of a name that Python looks up is another one."""
        return getattr(self.root, name)

    def single(self, name: str) -> Any:
        """The only instance of a Scala object."""
        return getattr(self.named(f"{name}$"), "MODULE$")

    @property
    def collections(self) -> Any:
        """What makes Scala's collections of Java's. By its full name the JVM finds it without a search of packages."""
        return self.named("org.apache.spark.api.python.PythonUtils")

    def field(self, class_name: str, name: str) -> Any:
        """A field of a class of Spark, also a private one, to be read and set by reflection."""
        loader = self.spark._jsparkSession.getClass().getClassLoader()
        field = self.root.java.lang.Class.forName(class_name, True, loader).getDeclaredField(name)
        field.setAccessible(True)
        return field

    def sequence(self, items: Sequence[Any]) -> Any:
        """A Scala sequence. Cost: one call per item."""
        return self.collections.toSeq(list(items))

    def texts(self, texts: Sequence[str]) -> Any:
        """An array of texts without line breaks."""
        if not texts:
            return self.gateway.new_array(self.named("java.lang.String"), 0)
        return self.named("org.apache.hadoop.util.StringUtils").getStrings("\n".join(texts), "\n")

    def data_type(self, kind: DataType) -> Any:
        """A type of Spark, or a schema."""
        return self.spark._jsparkSession.parseDataType(kind.json())

    def class_of(self, name: str) -> Any:
        """The object for a class, or for a class of arrays."""
        return self.named("java.lang.Class").forName(name)

    def file_statuses(self, groups: Sequence[Sequence[FileToRead]]) -> Any:
        """An array of arrays of file statuses. Cost: ten calls."""
        written = self.named("org.apache.hadoop.io.TwoDArrayWritable")(self.class_of(_FILE_STATUS))
        content = self.named("java.io.ByteArrayInputStream")(_written(groups))
        written.readFields(self.named("java.io.DataInputStream")(content))
        return written.toArray()


def _written(groups: Sequence[Sequence[FileToRead]]) -> bytes:
    parts = [struct.pack(f">{len(groups) + 1}i", len(groups), *map(len, groups))]
    for file in chain.from_iterable(groups):
        message = _message(file)
        parts += [struct.pack(">i", len(message)), message]
    return b"".join(parts)


def _message(file: FileToRead) -> bytes:
    path = file.uri.encode()
    return b"".join(
        [
            *(_IS_FILE, _PATH, _varint(len(path)), path, _LENGTH, _varint(file.size)),
            *(_MODIFIED, _varint(file.modified_ms), _REPLICATION, _BLOCK_SIZE, _varint(_SPLIT_BYTES)),
        ]
    )


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def encoded_uri(uri: str) -> str:
    """A path of Hadoop as Java writes its URI: ASCII characters that a URI cannot have are escaped."""
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:{_ESCAPED.sub(lambda found: quote(found[0], safe=_LEGAL_IN_URIS), rest)}"

"""Hashing metadata (`.hashing_meta`): the ring of buckets of one partition, in a consistent bucket index.

The files are in `.hoodie/.bucket_index/consistent_hashing_metadata/<partition path>`: one of the first write, and one
of each resize, named after its instant. An empty file `<instant>.commit` says that the resize was completed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.buckets import INT_MAX, REMOVED, HashNode, HashRing
from pyhudi.format.safe_paths import check_file_name

RING_SUFFIX: Final = ".hashing_meta"
COMMIT_SUFFIX: Final = ".commit"
CHILD_NODES_KEY: Final = "clustering.group.child.node"
PARTITION_KEY: Final = "clustering.group.partition"
SEQUENCE_KEY: Final = "clustering.group.sequence.no"
RING_BYTES_MAX: Final = 64 << 20


def encode_ring(ring: HashRing) -> bytes:
    """The file of a ring, byte for byte as JVM Hudi writes it."""
    nodes = ", ".join(_node_text(node) for node in ring.nodes)
    return (
        "{\n"
        f'  "version" : {ring.version},\n'
        f'  "partitionPath" : {json.dumps(ring.partition_path, ensure_ascii=False)},\n'
        f'  "instant" : "{ring.instant}",\n'
        f'  "numBuckets" : {ring.initial_buckets},\n'
        f'  "seqNo" : {ring.sequence},\n'
        f'  "nodes" : [ {nodes} ]\n'
        "}"
    ).encode()


def encode_nodes(nodes: Iterable[HashNode]) -> str:
    """The nodes in the plan of a resize, as JVM Hudi writes them."""
    return f"[ {', '.join(_node_text(node, indent='') for node in nodes)} ]"


def resize_of_group(partition_path: str, nodes: Iterable[HashNode], sequence: int) -> dict[str, str]:
    """What a group of a clustering plan says of its buckets. `sequence`: of the ring that is resized."""
    return {PARTITION_KEY: partition_path, CHILD_NODES_KEY: encode_nodes(nodes), SEQUENCE_KEY: str(sequence)}


def _node_text(node: HashNode, indent: str = "  ") -> str:
    return (
        "{\n"
        f'{indent}  "value" : {node.value},\n'
        f'{indent}  "fileIdPrefix" : {json.dumps(node.file_id_prefix or None)},\n'
        f'{indent}  "tag" : "{node.tag}"\n'
        f"{indent}}}"
    )


def decode_ring(data: bytes, *, path: str) -> HashRing:
    """The ring in a file.

    Raises:
        CorruptDataError: it is not a ring: no nodes, or values that do not ascend.
    """
    values = _json(data, path)
    if not isinstance(values, dict):
        raise _damage(path)
    nodes = tuple(_node_of(record, path) for record in _list(values.get("nodes"), path))
    ends = [node.value for node in nodes]
    if not nodes or ends != sorted(set(ends)):
        raise _damage(path)
    return HashRing(
        partition_path=_text(values.get("partitionPath"), path),
        instant=_text(values.get("instant"), path),
        initial_buckets=_number(values.get("numBuckets"), path),
        sequence=_number(values.get("seqNo"), path),
        nodes=nodes,
        version=_number(values.get("version"), path),
    )


def decode_nodes(text: str, *, path: str) -> tuple[HashNode, ...]:
    """The nodes in the plan of a resize: those that it makes (REPLACE, NORMAL) and those that it removes (DELETE).

    Raises:
        CorruptDataError: they are no nodes.
    """
    return tuple(_node_of(record, path) for record in _list(_json(text.encode(), path), path))


def _node_of(value: Any, path: str) -> HashNode:
    if not isinstance(value, dict):
        raise _damage(path)
    tag, prefix = _text(value.get("tag"), path), value.get("fileIdPrefix")
    if tag != REMOVED or prefix is not None:
        prefix = check_file_name(_text(prefix, path), source=path)
    return HashNode(_number(value.get("value"), path), prefix or "", tag)


def _json(data: bytes, path: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damage(path) from error


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise _damage(path)
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _damage(path)
    return value


def _number(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INT_MAX:
        raise _damage(path)
    return value


def _damage(path: str) -> CorruptDataError:
    return CorruptDataError("the hashing metadata of a consistent bucket index is damaged", path=path)

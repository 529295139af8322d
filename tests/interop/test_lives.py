"""Tables that live through eight commits by alternating writers; after each one everybody must see the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import WRITER_META, assert_same_rows
from tests.interop.life import ModelTable, life_of
from tests.interop.parties import HudiRs, JvmHudi, Pyhudi, PyhudiSave, Reader, Writer
from tests.interop.shapes import ODD_CITIES, Shape
from tests.interop.timeline_folder import completed_writes
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

OracleOf = Callable[[str], Oracle]

COMPLEX = ("region", "id")

THOROUGH = pytest.mark.thorough

#: Every pair of values of version, partitioning, key, metadata table and first writer occurs in one of these.
MIXED_LIVES = [
    pytest.param(
        Shape(name="hive", table_version=9, partition_by=("city",), hive_style=True), "jvm", marks=pytest.mark.quick
    ),
    pytest.param(Shape(name="none-complex", table_version=9, record_key=COMPLEX, metadata=False), "us", marks=THOROUGH),
    pytest.param(
        Shape(name="levels-complex", table_version=9, record_key=COMPLEX, partition_by=("city", "year")), "us"
    ),
    pytest.param(Shape(name="plain", table_version=8, partition_by=("city",), metadata=False), "jvm", marks=THOROUGH),
    pytest.param(Shape(name="none", table_version=8), "us", marks=THOROUGH),
    pytest.param(
        Shape(
            name="hive-levels-complex",
            table_version=8,
            record_key=COMPLEX,
            partition_by=("city", "year"),
            hive_style=True,
        ),
        "jvm",
    ),
    pytest.param(Shape(name="none", table_version=6), "jvm"),
    pytest.param(
        Shape(name="hive", table_version=6, partition_by=("city",), hive_style=True, metadata=False),
        "us",
        marks=pytest.mark.quick,
    ),
    pytest.param(
        Shape(name="levels-complex", table_version=6, record_key=COMPLEX, partition_by=("city", "year")),
        "jvm",
        marks=THOROUGH,
    ),
    pytest.param(
        Shape(
            name="encoded", table_version=9, partition_by=("city",), url_encode=True, metadata=False, cities=ODD_CITIES
        ),
        "us",
    ),
    pytest.param(
        Shape(
            name="encoded-hive",
            table_version=6,
            partition_by=("city",),
            url_encode=True,
            hive_style=True,
            cities=ODD_CITIES,
        ),
        "us",
        marks=THOROUGH,
    ),
]
OLD_TABLES = [
    Shape(name="hive", table_version=6, partition_by=("city",), hive_style=True, created_by_newest=True),
    pytest.param(
        Shape(
            name="levels-complex",
            table_version=8,
            record_key=COMPLEX,
            partition_by=("city", "year"),
            created_by_newest=True,
        ),
        marks=THOROUGH,
    ),
]
OWN_LIVES = [
    pytest.param(Shape(name="hive", table_version=version, partition_by=("city",), hive_style=True), marks=marks)
    for version, marks in ((6, THOROUGH), (8, THOROUGH), (9, ()))
]


def live(path: Path, shape: Shape, writers: Sequence[Writer], readers: Sequence[Reader]) -> None:
    """Let the writers take turns; after each, every reader must agree with the model and with the first reader."""
    model = ModelTable(shape)
    for number, turn in enumerate(life_of(shape)):
        writer = writers[number % len(writers)]
        writer.write(path, shape, turn)
        model.apply(turn)
        expected = model.expected([write.requested for write in completed_writes(path)])
        hint = f"commit {number} ({turn.operation.value} by {writer})"
        _check_all(path, readers, expected, hint)


def _check_all(path: Path, readers: Sequence[Reader], expected: pa.Table, hint: str) -> None:
    first = None
    for reader in readers:
        rows = reader.read(path)
        assert_same_rows(expected, rows, ignore=WRITER_META, hint=f"{hint}, read by {reader}")
        if first is None:
            first = rows
        else:
            assert_same_rows(first, rows, hint=f"{hint}, {reader} against {readers[0]}")


@pytest.mark.parametrize(("shape", "first"), MIXED_LIVES, ids=str)
def test_alternating_writers_everybody_sees_the_same_rows(
    shape: Shape, first: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    jvm, us = JvmHudi(oracle_of(RELEASE_OF_TABLE_VERSION[shape.table_version])), Pyhudi()
    live(tmp_path / "t", shape, (jvm, us) if first == "jvm" else (us, jvm), (jvm, us, HudiRs()))


@pytest.mark.parametrize("shape", OLD_TABLES, ids=str)
def test_newest_release_and_we_alternate_on_an_old_table_without_upgrading_it(
    shape: Shape, tmp_path: Path, oracle_of: OracleOf
) -> None:
    newest, us = JvmHudi(oracle_of("1.2.0")), Pyhudi()
    own_release = JvmHudi(oracle_of(RELEASE_OF_TABLE_VERSION[shape.table_version]))
    live(tmp_path / "t", shape, (newest, us), (newest, us, HudiRs(), own_release))


@pytest.mark.parametrize("shape", OWN_LIVES, ids=str)
def test_table_written_through_both_our_doors_is_read_by_its_release_the_newest_and_hudi_rs(
    shape: Shape, tmp_path: Path, oracle_of: OracleOf
) -> None:
    releases = {RELEASE_OF_TABLE_VERSION[shape.table_version], "1.2.0"}
    live(
        tmp_path / "t",
        shape,
        (PyhudiSave(), Pyhudi()),
        (*(JvmHudi(oracle_of(release)) for release in sorted(releases)), HudiRs(), Pyhudi()),
    )


@pytest.mark.thorough
@pytest.mark.parametrize("shape", OWN_LIVES, ids=str)
def test_table_written_by_jvm_hudi_alone_matches_the_model(shape: Shape, tmp_path: Path, oracle_of: OracleOf) -> None:
    jvm = JvmHudi(oracle_of(RELEASE_OF_TABLE_VERSION[shape.table_version]))
    live(tmp_path / "t", shape, (jvm,), (jvm, Pyhudi(), HudiRs()))

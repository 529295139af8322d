"""A join of two tables that is kept up to date, though the two rows of a trip arrive at different times.

    python examples/late_partners.py [FOLDER]

`drivers` and `passengers` each get their row of a trip when it comes. A run takes the keys that changed in either of
them, and joins the newest rows of these keys: so a row that waited for its partner is joined when that comes. How far
both tables have been read is kept in the commits of `trips`.
"""

from __future__ import annotations

import sys
import tempfile

import pyarrow as pa
import pyarrow.compute as pc

import pyhudi

DRIVERS = pa.schema([("trip", pa.string()), ("driver", pa.string()), ("ts", pa.int64())])
PASSENGERS = pa.schema([("trip", pa.string()), ("passenger", pa.string()), ("ts", pa.int64())])
TRIPS = pa.schema([("trip", pa.string()), ("driver", pa.string()), ("passenger", pa.string())])
CAPTURE = {"hoodie.table.cdc.enabled": "true"}
SIDES = ("drivers", "passengers")
BEFORE_ALL = "20000101000000"
"""A position before all writes: that of a table without any."""


def main(folder: str) -> None:
    """Write both tables in turn, run the join after each write, and print it beside that of the batch job."""
    create(folder)
    write(f"{folder}/drivers", DRIVERS, [("a", "Ann", 1), ("b", "Ben", 1)])
    run(folder)
    write(f"{folder}/passengers", PASSENGERS, [("b", "Bea", 1), ("c", "Cay", 1)])
    run(folder)
    write(f"{folder}/drivers", DRIVERS, [("c", "Cem", 2), ("b", "Bob", 2)])
    run(folder)
    delete(f"{folder}/passengers", ["b"])
    run(folder)


def create(folder: str) -> None:
    """The three tables."""
    for name, schema, options in (
        ("drivers", DRIVERS, CAPTURE),
        ("passengers", PASSENGERS, CAPTURE),
        ("trips", TRIPS, {}),
    ):
        pyhudi.HudiTable.create(f"{folder}/{name}", schema=schema, record_key="trip", hudi_options=options)


def run(folder: str) -> None:
    """One run of the join, and the comparison with the batch job."""
    update(folder)
    found = trips(folder)
    assert found == batch(folder)
    print(found)


def update(folder: str) -> None:
    """Join the keys that changed on either side since the last run."""
    target = pyhudi.HudiTable.for_path(f"{folder}/trips")
    sides = [pyhudi.HudiTable.for_path(f"{folder}/{name}") for name in SIDES]
    positions = [side.inspect.position() or BEFORE_ALL for side in sides]
    keys = pa.chunked_array([], pa.string())
    for name, side, position in zip(SIDES, sides, positions, strict=True):
        begin = target.inspect.commit_value(f"_{name}_position")
        changes = side.changes(begin, position, format="cdc_typed").to_arrow()
        seen = [pc.struct_field(changes[image], "trip").drop_null() for image in ("before", "after")]
        keys = pa.chunked_array([*keys.chunks, *seen[0].chunks, *seen[1].chunks], pa.string())
    changed = keys.unique()
    left, right = (
        side.lookup(changed.to_pylist(), columns=["trip", column])
        for side, column in zip(sides, TRIPS.names[1:], strict=True)
    )
    joined = left.join(right, "trip", join_type="inner").select(TRIPS.names)
    gone = pa.table({"trip": changed}).filter(pc.invert(pc.is_in(changed, value_set=joined["trip"].combine_chunks())))
    target.delete(gone)
    read = {f"_{name}_position": position for name, position in zip(SIDES, positions, strict=True)}
    target.refresh().upsert(joined, hudi_options=read)


def batch(folder: str) -> list[tuple[str, str, str]]:
    """The join of the whole tables."""
    left, right = (pyhudi.HudiTable.for_path(f"{folder}/{name}").scan().to_arrow() for name in SIDES)
    joined = left.select(["trip", "driver"]).join(right.select(["trip", "passenger"]), "trip", join_type="inner")
    return sorted(zip(*joined.to_pydict().values(), strict=True))


def trips(folder: str) -> list[tuple[str, str, str]]:
    """What the target holds."""
    found = pyhudi.HudiTable.for_path(f"{folder}/trips").scan(TRIPS.names).to_arrow()
    return sorted(zip(*found.to_pydict().values(), strict=True))


def write(path: str, schema: pa.Schema, rows: list[tuple[str, str, int]]) -> None:
    """Upsert rows of one side."""
    batch_of = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    pyhudi.HudiTable.for_path(path).upsert(batch_of)


def delete(path: str, keys: list[str]) -> None:
    """Delete rows of one side."""
    pyhudi.HudiTable.for_path(path).delete(pa.table({"trip": keys}))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

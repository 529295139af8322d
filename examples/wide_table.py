"""A wide table of orders, from two streams and two dimensions, kept up to date by what changed.

    python examples/wide_table.py [FOLDER]

`orders` and `customers` are streams: their rows come and change in any order. `products` is a Hudi table that changes
now and then, `cities` a file of Parquet that does not. A run takes the orders that changed, and those whose customer or
product did, and writes them anew with everything that is known of them: what is not there yet is null until it comes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pyhudi

SCHEMAS = {
    "orders": pa.schema([("order", pa.string()), ("customer", pa.string()), ("product", pa.string())]),
    "customers": pa.schema([("customer", pa.string()), ("name", pa.string()), ("city", pa.string())]),
    "products": pa.schema([("product", pa.string()), ("tag", pa.string())]),
}
CITIES = pa.table({"city": ["osl", "rom"], "country": ["Norway", "Italy"]})
WIDE = pa.schema([(name, pa.string()) for name in ("order", "customer", "product", "name", "city", "tag", "country")])
BEFORE_ALL = "20000101000000"
"""A position before all writes: that of a table without any."""


def main(folder: str) -> None:
    """An order before its customer, a customer who moves, a product that is tagged anew; beside the batch job."""
    create(folder)
    write(folder, "products", [("tea", "drink")])
    write(folder, "orders", [("o1", "ann", "tea"), ("o2", "ben", "tea")])
    write(folder, "customers", [("ben", "Ben", "osl")])
    run(folder)
    write(folder, "customers", [("ann", "Ann", "rom"), ("ben", "Ben", "rom")])
    run(folder)
    write(folder, "products", [("tea", "hot")])
    run(folder)


def create(folder: str) -> None:
    """The tables, and the file of cities."""
    for name, schema in SCHEMAS.items():
        pyhudi.HudiTable.create(f"{folder}/{name}", schema=schema, record_key=schema.names[0], table_type="mor")
    pyhudi.HudiTable.create(f"{folder}/wide", schema=WIDE, record_key="order", table_type="mor")
    pq.write_table(CITIES, Path(folder) / "cities.parquet")


def write(folder: str, name: str, rows: Iterable[tuple[str, ...]]) -> None:
    """Upsert rows of one of the tables."""
    names = SCHEMAS[name].names
    found = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], SCHEMAS[name])
    pyhudi.HudiTable.for_path(f"{folder}/{name}").upsert(found)


def run(folder: str) -> None:
    """One run, and the comparison with the batch job."""
    written = update(folder)
    assert wide(folder) == batch(folder)
    print(f"{written} written: {[(row['order'], row['name'], row['tag'], row['country']) for row in wide(folder)]}")


def update(folder: str) -> int:
    """Write the orders anew of which something changed since the last run. How many these are."""
    target = pyhudi.HudiTable.for_path(f"{folder}/wide")
    sources = {name: pyhudi.HudiTable.for_path(f"{folder}/{name}") for name in SCHEMAS}
    ends = {name: table.inspect.position() or BEFORE_ALL for name, table in sources.items()}
    orders = pa.table({"order": pa.array([], pa.string())})
    for name, table in sources.items():
        begin = target.inspect.commit_value(f"_{name}_position")
        key = SCHEMAS[name].names[0]
        changed = table.changes(begin, ends[name], columns=[key], format="latest_state").to_arrow()[key]
        found = sources["orders"].scan(["order"], [(key, "in", changed.to_pylist())]).to_arrow()
        orders = pa.concat_tables([orders, found.select(["order"])])
    keys = orders["order"].unique().to_pylist()
    rows = joined(sources, folder, [("order", "in", keys)])
    # The commit of the rows says how far the sources were read: a run that dies before it is made up for by the next.
    target.upsert(rows, hudi_options={f"_{name}_position": end for name, end in ends.items()})
    return rows.num_rows


def joined(sources: dict[str, pyhudi.HudiTable], folder: str, where: Any) -> pa.Table:
    """Orders with what the other tables have of them."""
    rows = sources["orders"].scan(SCHEMAS["orders"].names, where).to_arrow()
    for name in ("customers", "products"):
        rows = rows.join(sources[name].scan(SCHEMAS[name].names).to_arrow(), SCHEMAS[name].names[0])
    return rows.join(pq.read_table(Path(folder) / "cities.parquet"), "city").select(WIDE.names)


def batch(folder: str) -> list[dict[str, Any]]:
    """What the wide table must have, from the whole tables, without a join of Arrow's."""
    tables = {name: pyhudi.HudiTable.for_path(f"{folder}/{name}").scan().to_arrow().to_pylist() for name in SCHEMAS}
    customers = {row["customer"]: row for row in tables["customers"]}
    tags = {row["product"]: row["tag"] for row in tables["products"]}
    countries = dict(zip(CITIES["city"].to_pylist(), CITIES["country"].to_pylist(), strict=True))
    rows = []
    for order in tables["orders"]:
        customer = customers.get(order["customer"], {})
        row = {"name": customer.get("name"), "city": customer.get("city"), "tag": tags.get(order["product"])}
        row |= {name: order[name] for name in SCHEMAS["orders"].names}
        rows.append({**row, "country": countries.get(row["city"])})
    return sorted(rows, key=lambda row: str(row["order"]))


def wide(folder: str) -> list[dict[str, Any]]:
    """What the wide table has."""
    return pyhudi.HudiTable.for_path(f"{folder}/wide").scan(WIDE.names).to_arrow().sort_by("order").to_pylist()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

"""A table that is made from another one, kept up to date by its changes, deletes included.

    python examples/incremental_etl.py [FOLDER]

Each run reads the change data of `orders` since the last one, and changes `invoices` accordingly. How far it has read
is kept in the commits of `invoices` itself: if a run dies, the next one does its work again, to the same result.
"""

from __future__ import annotations

import sys
import tempfile

import pyarrow as pa
import pyarrow.compute as pc

import pyhudi

ORDERS = pa.schema([("order", pa.int64()), ("net", pa.float64()), ("state", pa.string()), ("ts", pa.int64())])
INVOICES = pa.schema([("order", pa.int64()), ("gross", pa.float64()), ("ts", pa.int64())])
POSITION = "_orders_position"
CAPTURE = {"hoodie.table.cdc.enabled": "true"}


def main(folder: str) -> None:
    """Write `orders`, run the job after each write, and print its target beside that of the batch job."""
    orders = pyhudi.HudiTable.create(
        f"{folder}/orders", schema=ORDERS, record_key="order", ordering_fields="ts", hudi_options=CAPTURE
    )
    pyhudi.HudiTable.create(f"{folder}/invoices", schema=INVOICES, record_key="order")

    orders.insert(rows((1, 10.0, "sent", 1), (2, 20.0, "sent", 1), (3, 30.0, "open", 1)))
    run(folder)
    orders = orders.refresh()
    orders.upsert(rows((2, 25.0, "sent", 2), (3, 30.0, "sent", 2), (4, 5.0, "sent", 2)))
    orders = orders.refresh()
    orders.delete(rows((1, 0.0, "", 3)).select(["order"]))
    run(folder)
    orders = orders.refresh()
    orders.upsert(rows((2, 25.0, "open", 4)))  # no invoice any more
    run(folder)


def run(folder: str) -> None:
    """One run of the job, and the comparison with the batch job."""
    changed, deleted = update(f"{folder}/orders", f"{folder}/invoices")
    found = pyhudi.HudiTable.for_path(f"{folder}/invoices").scan(INVOICES.names).to_arrow().sort_by("order")
    whole = invoices_of(pyhudi.HudiTable.for_path(f"{folder}/orders").scan(ORDERS.names).to_arrow()).sort_by("order")
    assert found.equals(whole)
    print(
        f"{changed} written, {deleted} deleted:",
        dict(zip(*found.select(["order", "gross"]).to_pydict().values(), strict=True)),
    )


def update(source_path: str, target_path: str) -> tuple[int, int]:
    """Bring the target up to date. Returns how many rows were written and deleted."""
    source, target = pyhudi.HudiTable.for_path(source_path), pyhudi.HudiTable.for_path(target_path)
    position = source.inspect.position()
    changes = source.changes(target.inspect.commit_value(POSITION), position, format="cdc_typed").to_arrow()
    last = last_of_each(changes)
    remaining = last.filter(pc.is_valid(last["after"]))
    written = invoices_of(pa.Table.from_struct_array(remaining["after"]).cast(ORDERS))
    orders = pc.if_else(
        pc.is_valid(last["after"]), pc.struct_field(last["after"], "order"), pc.struct_field(last["before"], "order")
    )
    gone = pa.table({"order": orders}).filter(pc.invert(pc.is_in(orders, value_set=written["order"].combine_chunks())))
    # First the deletes: only the commit with the position says that the changes have been consumed.
    target.delete(gone)
    target.refresh().upsert(written, hudi_options={POSITION: position or "000"})
    return written.num_rows, gone.num_rows


def last_of_each(changes: pa.Table) -> pa.Table:
    """The last change of each order."""
    side = pc.if_else(pc.is_valid(changes["after"]), changes["after"], changes["before"])
    order = pc.struct_field(side, "order")
    numbers = pa.table({"order": order, "row": pa.array(range(changes.num_rows), pa.int64())})
    return changes.take(numbers.group_by("order").aggregate([("row", "max")])["row_max"].combine_chunks())


def invoices_of(orders: pa.Table) -> pa.Table:
    """The batch job: an invoice for each order that was sent."""
    sent = orders.filter(pc.equal(orders["state"], "sent"))
    return pa.table([sent["order"], pc.round(pc.multiply(sent["net"], 1.19), 2), sent["ts"]], schema=INVOICES)


def rows(*values: tuple[int, float, str, int]) -> pa.Table:
    """Orders to be written."""
    return pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in values], ORDERS)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

"""A warehouse in three layers, each brought up to date by what has changed in the one below.

    python examples/warehouse.py [FOLDER]

ODS has orders and customers as they come. DWD has the sales: each order with the region of its customer. DWS has the
revenue of each day and region. A tick reads the change data of a layer, computes again what these changes touch, and
upserts it into the next one. So late orders, changed customers and deletes reach the last layer, and a tick costs as
much as has changed. How far a layer has read the one below is in its own commits, together with the rows.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import pyarrow as pa

import pyhudi

Keys = set[tuple[Any, ...]]

LOGGED = {"hoodie.table.cdc.enabled": "true"}
DELETED = pa.field("_hoodie_is_deleted", pa.bool_())
ORDERS = pa.schema([("order", pa.int64()), ("day", pa.string()), ("customer", pa.int64()), ("amount", pa.int64())])
CUSTOMERS = pa.schema([("customer", pa.int64()), ("region", pa.string())])
SALES = pa.schema(
    [("order", pa.int64()), ("day", pa.string()), ("region", pa.string()), ("amount", pa.int64()), DELETED]
)
REVENUE = pa.schema(
    [("day", pa.string()), ("region", pa.string()), ("orders", pa.int64()), ("amount", pa.int64()), DELETED]
)


def create(folder: str) -> None:
    """The four tables, empty."""
    pyhudi.HudiTable.create(
        f"{folder}/ods_orders", schema=ORDERS, record_key="order", partition_by="day", hudi_options=LOGGED
    )
    pyhudi.HudiTable.create(f"{folder}/ods_customers", schema=CUSTOMERS, record_key="customer", hudi_options=LOGGED)
    pyhudi.HudiTable.create(
        f"{folder}/dwd_sales", schema=SALES, record_key="order", partition_by="day", hudi_options=LOGGED
    )
    pyhudi.HudiTable.create(f"{folder}/dws_revenue", schema=REVENUE, record_key=["day", "region"])


def tick(folder: str) -> None:
    """Bring both derived layers up to date."""
    refresh_sales(folder)
    refresh_revenue(folder)


def refresh_sales(folder: str) -> None:
    """ODS to DWD: orders that have changed, and all orders of customers that have changed."""
    orders, customers, sales = (opened(folder, name) for name in ("ods_orders", "ods_customers", "dwd_sales"))
    touched = changed(orders, ["order", "day"], since=sales.inspect.commit_value("_orders_read"))
    moved = changed(customers, ["customer"], since=sales.inspect.commit_value("_customers_read"))
    if moved:
        of_moved = orders.scan(["order", "day"], where=[("customer", "in", [customer for (customer,) in moved])])
        touched |= keys_of(of_moved.to_arrow(), ["order", "day"])
    if not touched:
        return
    found = orders.scan(ORDERS.names, where=[("day", "in", [day for _, day in touched])]).to_arrow()
    joined = found.join(customers.scan(CUSTOMERS.names).to_arrow(), "customer", join_type="left outer")
    seen = {"_orders_read": orders.inspect.position(), "_customers_read": customers.inspect.position()}
    replace(sales, joined, touched, ["order", "day"], seen)


def refresh_revenue(folder: str) -> None:
    """DWD to DWS: the days and regions of sales that have changed, before and after."""
    sales, revenue = opened(folder, "dwd_sales"), opened(folder, "dws_revenue")
    touched = changed(sales, ["day", "region"], since=revenue.inspect.commit_value("_sales_read"))
    if not touched:
        return
    rows = sales.scan(["order", "day", "region", "amount"], where=[("day", "in", [day for day, _ in touched])])
    sums = rows.to_arrow().group_by(["day", "region"]).aggregate([("order", "count"), ("amount", "sum")])
    named = sums.rename_columns(["day", "region", "orders", "amount"])
    replace(revenue, named, touched, ["day", "region"], {"_sales_read": sales.inspect.position()})


def opened(folder: str, name: str) -> pyhudi.HudiTable:
    """A table as it is now: all reads of one step see the same moment of it."""
    return pyhudi.HudiTable.for_path(f"{folder}/{name}")


def changed(source: pyhudi.HudiTable, names: list[str], *, since: str | None) -> Keys:
    """The values of these columns in all rows that were inserted, updated or deleted, before and after."""
    changes = source.changes(since, source.inspect.position(), format="cdc_typed").to_arrow()
    images = [image for side in ("before", "after") for image in changes[side].to_pylist() if image is not None]
    return {tuple(image[name] for name in names) for image in images}


def keys_of(rows: pa.Table, names: list[str]) -> Keys:
    """The values of these columns."""
    return {tuple(row[name] for name in names) for row in rows.to_pylist()}


def replace(target: pyhudi.HudiTable, rows: pa.Table, keys: Keys, names: list[str], seen: dict[str, Any]) -> None:
    """Make these rows those of the keys, in one commit: upsert them, and delete the keys that have none."""
    rows = rows.select([name for name in target.schema.names if name != DELETED.name])
    kept = [{**row, DELETED.name: False} for row in rows.to_pylist() if tuple(row[name] for name in names) in keys]
    gone = keys - keys_of(rows, names)
    flagged = [{**dict(zip(names, values, strict=True)), DELETED.name: True} for values in gone]
    target.upsert(pa.Table.from_pylist([*kept, *flagged], target.schema), hudi_options=seen)


def show(folder: str, what: str) -> None:
    """Print the last layer."""
    revenue = opened(folder, "dws_revenue").scan(["day", "region", "orders", "amount"]).to_arrow()
    print(f"{what}:")
    for row in revenue.sort_by([("day", "ascending"), ("region", "ascending")]).to_pylist():
        print(f"  {row['day']} {row['region']}: {row['orders']} orders, {row['amount']}")


def main(folder: str) -> None:
    """Make a warehouse below `folder`, change its sources, and print the last layer after each tick."""
    create(folder)
    orders, customers = opened(folder, "ods_orders"), opened(folder, "ods_customers")
    customers.upsert(pa.table({"customer": [1, 2], "region": ["north", "south"]}, CUSTOMERS))
    orders.upsert(pa.table([[1, 2, 3], ["mon", "mon", "tue"], [1, 2, 1], [10, 20, 30]], schema=ORDERS))
    tick(folder)
    show(folder, "at first")

    orders.upsert(pa.table([[4, 1], ["mon", "mon"], [2, 1], [5, 11]], schema=ORDERS))
    tick(folder)
    show(folder, "a late order, a changed one")

    orders.delete(pa.table({"order": [3], "day": ["tue"]}))
    customers.upsert(pa.table({"customer": [2], "region": ["north"]}, CUSTOMERS))
    tick(folder)
    show(folder, "an order deleted, a customer moved")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

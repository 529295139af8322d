"""The page of claims, `docs/claims.md`: what `claims.py` has measured beside what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from page import DOCS, put_on

Line = dict[str, Any]
COMMAND = "make bench-claims WRITE_DOCS=1"


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, what is asked of it, what came out. `met`: None where nothing is."""

    what: str
    asked: str
    measured: str
    met: bool | None = None


def write_page(lines: Mapping[str, Sequence[Line]]) -> None:
    """Put a run into its page."""
    put_on(DOCS / "claims.md", COMMAND, table(lines))


def table(lines: Mapping[str, Sequence[Line]]) -> str:
    """A run as Markdown."""
    rows = [row for name, found in lines.items() for row in ROWS[name](found)]
    said = {True: "yes", False: "**no**", None: ""}
    return "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}:",
            "",
            "| what was measured | asked | measured | met |",
            "| --- | --- | --- | --- |",
            *(f"| {row.what} | {row.asked} | {row.measured} | {said[row.met]} |" for row in rows),
        ]
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def at_least(what: str, asked: float, measured: float, more: str = "") -> Row:
    """A figure that is to be large."""
    return Row(what, f"≥ {asked:,}", f"{_figure(measured)}{more}", measured >= asked)


def at_most(what: str, asked: float, measured: float, more: str = "") -> Row:
    """A figure that is to be small."""
    return Row(what, f"≤ {asked:,}", f"{_figure(measured)}{more}", measured <= asked)


def _updates(lines: Sequence[Line]) -> list[Row]:
    copied, logged, partitions, whole = lines
    upsert = "upsert of 1 % of the rows of two of 20 partitions, 2,000,000 rows: times fewer bytes than an overwrite of"
    rows = []
    for line, kind in ((logged, "merge-on-read"), (copied, "copy-on-write")):
        for other, of in ((partitions, "the two partitions"), (whole, "the table")):
            times, cpu = other["mib_written"] / line["mib_written"], other["cpu"] / line["cpu"]
            rows.append(at_least(f"{kind}: {upsert} {of}", 10, times, f" (and {cpu:,.2g} times less processor time)"))
    # A copy-on-write table writes the files anew in which rows change: here all those of the two partitions.
    rows[2:] = [Row(row.what, "", row.measured) for row in rows[2:]]
    return rows


def _upkeep(lines: Sequence[Line]) -> list[Row]:
    scans = {line["table"]: line for line in lines if line["act"] == "20 scans"}
    files = {line["table"]: line for line in lines if line["act"] == "files"}
    kept, left = "looked after", "not looked after"
    return [
        at_least(
            "50 inserts of 1,000 rows: times longer takes a scan where small files stay",
            2, scans[left]["cpu"] / scans[kept]["cpu"],
        ),
        at_least(
            "times as many files are read there",
            2, files[left]["read"] / files[kept]["read"], f" ({files[left]['read']} and {files[kept]['read']})",
        ),
    ]  # fmt: skip


def _bulk_insert(lines: Sequence[Line]) -> list[Row]:
    first, *_, before, last = lines
    times = last["rows"] / first["rows"]
    between = f"from {first['rows']:,} to {last['rows']:,} rows of 11 columns"
    return [
        at_most(
            f"bulk insert {between}: times as much processor time a row",
            1.2, last["cpu"] / first["cpu"] / times, f" ({first['cpu']} and {last['cpu']} s)",
        ),
        at_most(
            f"bulk insert of {last['rows']:,} rows: times as much memory as of {before['rows']:,}",
            1.1,
            last["peak_mib"] / before["peak_mib"],
            f" ({', '.join(str(line['peak_mib']) for line in lines)} MiB)",
        ),
    ]  # fmt: skip


def _key_order(lines: Sequence[Line]) -> list[Row]:
    cpu = {(line["keys"], line["rows"]): line["cpu"] for line in lines if line["act"] == "upsert, second"}
    sizes = sorted({rows for _, rows in cpu})
    files = {(line["keys"], line["rows"]): line["files"] for line in lines}
    rows = []
    for keys in ("ordered", "spread"):
        seconds = ", ".join(f"{cpu[keys, size]}" for size in sizes)
        what = (
            f"BLOOM, {keys} keys: an upsert of the newest 2,000 of {', '.join(f'{size:,}' for size in sizes)} rows in "
            f"{', '.join(str(files[keys, size]) for size in sizes)} files, processor seconds"
        )
        rows.append(Row(what, "", seconds))
    times = cpu["spread", sizes[-1]] / cpu["ordered", sizes[-1]]
    rows.append(Row("times dearer with spread keys, the largest table", "", f"{times:.3g}"))
    return rows


def _index_sizes(lines: Sequence[Line]) -> list[Row]:
    upserts = [line for line in lines if line["act"] == "upsert, second"]
    first, last = upserts[0], upserts[-1]
    of_row = [line["mib"] * 2**20 / line["rows"] for line in (first, last)]
    files = " and ".join(f"{line['files']}" for line in upserts)
    return [
        at_most(
            f"record index of {first['rows']:,} and {last['rows']:,} rows, logs that wait for a clean included: times "
            "as many bytes a row",
            2.5,
            of_row[1] / of_row[0],
            f" ({of_row[0]:.0f} and {of_row[1]:.0f} bytes; {last['mib']:,.0f} MiB)",
        ),
        Row(
            f"record index, spread keys: an upsert of the newest 2,000 rows in {files} files, processor seconds: a key "
            "is a block of the index at most",
            "",
            ", ".join(str(line["cpu"]) for line in upserts),
        ),
    ]


def _even_work(lines: Sequence[Line]) -> list[Row]:
    return [
        at_most(
            f"{line['index']}: {line['step']}, nine tenths of the keys in one partition of twenty: the processor time "
            f"of the longest of {line['tasks']} tasks beside the mean",
            2, line["most_over_mean"],
        )
        for line in lines
    ]  # fmt: skip


def _small_batches(lines: Sequence[Line]) -> list[Row]:
    def seconds(index: str, act: str) -> float:
        return min(float(line["cpu"]) for line in lines if line["index"] == index and line["act"] == act)

    looked_up, upserted = "delete of 100 keys that are not there", "upsert of 100 keys"
    rows = []
    for index in ("record index", "SQLite"):
        saved = seconds("BLOOM", looked_up) - seconds(index, looked_up)
        more = f" ({seconds(index, looked_up)} and {seconds('BLOOM', looked_up)} s; of an upsert of 100 keys "
        more += f"{seconds(index, upserted)} and {seconds('BLOOM', upserted)} s)"
        what = f"look-up of 100 keys in 200 files by {index}: processor seconds less than by BLOOM"
        rows.append(at_least(what, 1, saved, more))
    return rows


def _delay(lines: Sequence[Line]) -> list[Row]:
    hourly, minutely = lines
    return [
        Row(
            f"three jobs in a chain, {line['jobs']}, a simulated clock: minutes from an event to the last table",
            asked,
            f"{line['median_minutes']:g}, at most {line['longest_minutes']:g}",
            met,
        )
        for line, asked, met in (
            (hourly, "120 to 180", 120 <= hourly["longest_minutes"] <= 180),
            (minutely, "≤ 5", minutely["longest_minutes"] <= 5),
        )
    ]


def _bootstrap(lines: Sequence[Line]) -> list[Row]:
    rate = next(line["rows_per_cpu_second"] for line in lines if "rows_per_cpu_second" in line)
    rows = [
        at_least(
            "skeletons of 245 files of 24,000 rows and 40 columns, one of them nested: rows a second and core",
            33_000,
            rate,
        )
    ]
    cpu = {
        (line["act"], line["columns"]): line["cpu"] for line in lines if "rows" in line and line.get("files") is None
    }
    widths = sorted({columns for _, columns in cpu})
    times = [cpu["full_record", columns] / cpu["metadata_only", columns] for columns in widths]
    rows.append(
        Row(
            f"times dearer is a copy of all rows, with {', '.join(map(str, widths))} columns",
            "rises",
            ", ".join(f"{ratio:.3g}" for ratio in times),
            sorted(times) == times,
        )
    )
    rows += [
        at_most(f"{line['act']} of files of 240,000 rows and 42 columns: MiB at the peak", 1_024, line["peak_mib"])
        for line in lines
        if "peak_mib" in line
    ]
    return rows


def _instants(lines: Sequence[Line]) -> list[Row]:
    burst, explored = lines
    return [
        Row("10,000 instants of one moment", "distinct, rising", f"{burst['instants']:,}", burst["rising"]),
        Row(
            f"{explored['pairs']} pairs of writes, the first interrupted once at each of its effects: orders explored, "
            "and those that break a rule",
            "all, none",
            f"{explored['orders']:,}, {explored['violations']}",
            explored["explored"] == explored["pairs"] and not explored["violations"],
        ),
    ]


ROWS: Mapping[str, Callable[[Sequence[Line]], list[Row]]] = {
    "updates": _updates,
    "upkeep": _upkeep,
    "bulk_insert": _bulk_insert,
    "key_order": _key_order,
    "index_sizes": _index_sizes,
    "even_work": _even_work,
    "small_batches": _small_batches,
    "delay": _delay,
    "bootstrap": _bootstrap,
    "instants": _instants,
}

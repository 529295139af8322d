"""The page of the inspector: one HTML document that loads nothing, and has no script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from pyhudi.api.display import bytes_text, counted
from pyhudi.api.explanation import pruned
from pyhudi.format.timeline.instant import Instant
from pyhudi.inspector.drawing import amplification_over_time, bytes_over_time, lanes, life, rows_over_time
from pyhudi.inspector.facts import WRITES_READ, TableFacts
from pyhudi.inspector.writes import amplification, columns_of
from pyhudi.markup import Html, bar, joined, table, tag

_STYLE: Final = """
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--soft:#57606a;--line:#d0d7de;--blue:#0969da;--green:#1a7f37;
--orange:#bc4c00;--red:#cf222e;--grey:#8c959f}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--soft:#9da7b3;--line:#30363d;--blue:#58a6ff;
--green:#3fb950;--orange:#f0883e;--red:#ff7b72;--grey:#6e7681}}
*{box-sizing:border-box}body{margin:0 auto;max-width:70rem;padding:1rem;background:var(--back);color:var(--text);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
a{color:var(--blue)}nav a{margin-right:1rem;display:inline-block}p{margin:.4rem 0}.soft,caption{color:var(--soft)}
a:focus-visible,summary:focus-visible,.wide:focus-visible,input:focus-visible,button:focus-visible
{outline:3px solid var(--blue);outline-offset:2px}
.wide{overflow-x:auto;overflow-wrap:normal}table{border-collapse:collapse;min-width:20rem}caption{text-align:left}
th,td{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top;border-bottom:1px solid var(--line)}
td{font-variant-numeric:tabular-nums}
svg{display:block;width:100%;background:color-mix(in srgb,var(--line) 35%,transparent)}
.high20{height:1.4rem}.high100{height:8rem}.bar{width:8rem;max-width:40vw;height:.7rem;display:inline-block;
margin-right:.5rem}
.barred{white-space:nowrap}.lane{margin:.5rem 0}.ends{display:flex;justify-content:space-between}
.key{display:inline-block;margin-right:1rem}.key svg{display:inline-block;width:.9rem;height:.9rem;margin-right:.3rem}
.done,.part,.inserted,.base-file{fill:var(--blue)}.pending,.replaced,.deleted{fill:var(--red)}
.updated,.log,.changed,.ratio,.overlap{fill:var(--orange)}.written,.rolled-back{fill:var(--grey)}
.plus{color:var(--green)}.minus{color:var(--red)}
input{font:inherit;width:20rem;max-width:100%}button{font:inherit}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem}
"""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
_ROWS_OF_A_TABLE: Final = 100
_COLUMNS_DRAWN: Final = 200
_PARTITIONS_LISTED: Final = 200


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is asked for: the condition of a read, and how many of the newest writes are read."""

    where: str = ""
    writes: int = WRITES_READ


FIRST: Final = Asked()


def page(facts: TableFacts, asked: Asked = FIRST, *, answers: bool = False) -> str:
    """The document of what was asked for. `answers`: it has a form and links for something else."""
    parts = {
        "Timeline": _timeline(facts),
        "Writes": _writes(facts, asked, answers=answers),
        "Partitions": _partitions(facts),
        "File groups": _groups(facts),
        "Services": _services(facts),
        "Filter": _filter(facts, asked, answers=answers),
        "Columns": _columns(facts),
        "Metadata table": _metadata_table(facts),
    }
    shown = {name: part for name, part in parts.items() if part}
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", f"{facts.config.name} \N{MIDDLE DOT} pyhudi"),
        tag("style", Html(_STYLE)),
    )
    links = [tag("a", name, href=f"#{_anchor(name)}") for name in shown]
    sections = [
        tag("section", tag("h2", name, id=_anchor(name)), part, aria_labelledby=_anchor(name))
        for name, part in shown.items()
    ]
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        tag("header", tag("h1", facts.config.name), _summary(facts), tag("nav", *links, aria_label="sections")),
        tag("main", *sections, id="content"),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _summary(facts: TableFacts) -> Html:
    config, partitions = facts.config, facts.partitions
    keys = ", ".join(config.record_key_fields) or "generated"
    by = ", ".join(config.partition_fields or ()) or "not partitioned"
    sizes = [
        counted(len(partitions), "partition"),
        counted(sum(partition.base_files for partition in partitions), "base file"),
        counted(sum(partition.logs for partition in partitions), "log"),
        bytes_text(sum(partition.bytes for partition in partitions)),
    ]
    words = ", ".join(sizes)
    return joined(
        [
            tag("p", facts.uri, class_="soft"),
            tag("p", f"{config.table_type.value}, version {config.version}. Record key: {keys}. Partitioned by: {by}."),
            tag("p", f"{words}. {counted(facts.writes_of, 'write')}."),
        ]
    )


def _timeline(facts: TableFacts) -> Html:
    if not facts.lanes.lanes:
        return tag("p", "There is no instant yet.")
    kinds = (("done", "completed"), ("pending", "pending"), ("overlap", "overlapped"), ("rolled-back", "rolled back"))
    drawn = {mark.kind for lane in facts.lanes.lanes for mark in lane.marks} | {"done", "pending"}
    parts = [
        tag("p", f"Archived: {counted(facts.archived, 'instant')}.") if facts.archived else "",
        tag("p", facts.archive_note) if facts.archive_note else "",
        lanes(facts.lanes),
        tag("p", tag("span", facts.lanes.begin), tag("span", facts.lanes.end), class_="ends soft"),
        _keys(*(kind for kind in kinds if kind[0] in drawn)),
    ]
    if facts.pending:
        rows = [_row_of(instant) for instant in facts.pending[:_ROWS_OF_A_TABLE]]
        parts.append(table("Instants that are not completed", _INSTANT, rows))
    parts += [_attempts(facts), tag("p", _not_kept(facts), class_="soft")]
    listed = table("The newest instants", _INSTANT, map(_row_of, facts.newest))
    return joined([*parts, tag("details", tag("summary", "The newest instants"), listed)])


_INSTANT: Final = ("instant", "action", "state", "completed at")


def _row_of(instant: Instant) -> tuple[str, str, str, str]:
    return instant.requested_time, instant.action, instant.state.name.lower(), instant.completion_time or ""


def _attempts(facts: TableFacts) -> Html:
    """Writers that overlapped and writes that were rolled back, the newest first."""
    parts = []
    if facts.overlaps:
        writers = {write.instant: write.writer for write in facts.writes}
        rows = []
        for overlap in facts.overlaps[: -_ROWS_OF_A_TABLE - 1 : -1]:
            write, earlier = overlap.write.requested_time, overlap.earlier.requested_time
            rows.append((write, writers.get(write, ""), earlier, writers.get(earlier, ""), overlap.until))
        head = ("write", "by", "began while", "by", "until")
        parts.append(
            tag("details", tag("summary", "Writers at the same time"), table("Writers that overlapped", head, rows))
        )
    if facts.rolled_back:
        undone = [
            (attempt.instant, attempt.action, attempt.rollback.requested_time, attempt.rollback.state.name.lower())
            for attempt in reversed(facts.rolled_back)
        ]
        parts.append(table("Writes that were rolled back", ("instant", "action", "rollback", "its state"), undone))
    return joined(parts)


def _not_kept(facts: TableFacts) -> str:
    words = (
        "Hudi keeps no record of conflicts, retries and waits for locks. A writer that lost or died shows as a write"
        " that was rolled back, as far as the rollback is on the active timeline"
    )
    if facts.overlaps is None:
        return (
            f"{words}. This version of the table keeps no completion times, so which writers overlapped is not known."
        )
    return f"{words}; writers that met, as marks of writers at the same time."


def _keys(*kinds: tuple[str, str]) -> Html:
    def key(kind: str, words: str) -> Html:
        drawn = tag("svg", tag("rect", width="10", height="10", class_=kind), viewBox="0 0 10 10", aria_hidden="true")
        return tag("span", drawn, words, class_="key")

    return tag("p", *(key(*kind) for kind in kinds))


def _writes(facts: TableFacts, asked: Asked, *, answers: bool) -> Html:
    writes = facts.writes
    if not writes:
        return tag("p", "There is no write yet." if not facts.writes_of else "No write was read.")
    written, changed = (sum(getattr(write, name) for write in writes) for name in ("bytes_written", "bytes_changed"))
    ratio = amplification(writes)
    net = sum(write.inserted - write.deleted for write in writes)
    columns = columns_of(writes, _COLUMNS_DRAWN)
    rows = [
        (
            write.instant,
            write.operation,
            *(f"{count:,}" for count in (write.inserted, write.updated, write.deleted)),
            bytes_text(write.bytes_written),
            "" if (own := amplification([write])) is None else f"{own:,.1f}",
            write.writer,
        )
        for write in reversed(writes[-_ROWS_OF_A_TABLE:])
    ]
    head = ("instant", "operation", "inserted", "updated", "deleted", "written", "amplification", "writer")
    listed = table("The newest writes, compactions and clusterings", head, rows)
    of = "" if len(writes) == facts.writes_of else f" of {facts.writes_of:,}"
    return joined(
        [
            tag("p", f"The newest {len(writes):,}{of} writes of the timeline; {net:+,} rows by them."),
            _more_writes(facts, asked) if answers else "",
            rows_over_time(columns),
            _keys(("inserted", "inserted"), ("updated", "updated"), ("deleted", "deleted")),
            tag(
                "p",
                f"Write amplification: {'unknown' if ratio is None else f'{ratio:,.1f}'}"
                f" ({bytes_text(written)} written, {bytes_text(changed)} changed).",
            ),
            bytes_over_time(columns),
            _keys(("written", "bytes written"), ("changed", "of changed rows")),
            amplification_over_time(columns),
            tag("details", tag("summary", "Each write"), listed),
        ]
    )


def _more_writes(facts: TableFacts, asked: Asked) -> Html:
    """A link to a page that reads more of them."""
    more = min(10 * max(1, asked.writes), facts.writes_of)
    if more <= asked.writes:
        return Html("")
    query = urlencode({"where": asked.where, "writes": more})
    return tag("p", tag("a", f"Read the newest {more:,}", href=f"/?{query}"))


def _partitions(facts: TableFacts) -> Html:
    if not facts.partitions:
        return tag("p", "There are no files yet.")
    most = facts.partitions[0].bytes
    rows = [
        (
            partition.path or "(the table)",
            bar(partition.bytes, most, bytes_text(partition.bytes)),
            f"{partition.file_groups:,}",
            f"{partition.small_files:,}",
            f"{partition.log_bytes / partition.base_bytes:.2f}" if partition.base_bytes else "no base file",
            partition.newest,
        )
        for partition in facts.partitions[:_PARTITIONS_LISTED]
    ]
    all_of_them = counted(len(facts.partitions), "partition")
    caption = all_of_them if len(rows) == len(facts.partitions) else f"The largest {len(rows):,} of {all_of_them}"
    head = ("path", "size", "file groups", "small files", "logs to base", "newest slice")
    by_names = tag(
        "p",
        "Counted from the names of the files, as there are more writes or files than are read: files that older writes"
        " replaced or that lost task attempts left count, too, until they are cleaned.",
    )
    return joined([by_names if facts.is_by_names else "", table(caption, head, rows)])


def _groups(facts: TableFacts) -> Html:
    if not facts.groups:
        return tag("p", "The newest writes name no file group.")
    times = [event.begin_ms for events in facts.groups.values() for event in events]
    rows = [
        tag(
            "div",
            tag("span", f"{group.partition_path}/{group.file_id}" if group.partition_path else group.file_id),
            life(events, min(times), max(times)),
            class_="lane",
        )
        for group, events in facts.groups.items()
    ]
    words = f"The newest writes changed {counted(facts.groups_of, 'file group')}"
    words += "." if len(rows) == facts.groups_of else f"; here are the {len(rows):,} that they changed most often."
    keys = _keys(("base-file", "base file"), ("log", "log"), ("replaced", "replaced"))
    return joined([tag("p", words), keys, *rows])


def _services(facts: TableFacts) -> Html:
    rows = [
        (service.service, service.last or "\N{EN DASH}", "due" if service.is_due else "", service.reason)
        for service in facts.services
    ]
    return table("Table services", ("service", "last", "due", "why"), rows)


def _filter(facts: TableFacts, asked: Asked, *, answers: bool) -> Html | None:
    parts = []
    if answers:
        field = tag("input", name="where", value=asked.where, id="where", placeholder="fare > 10", autocomplete="off")
        label = tag("label", "What does a read with this condition open? ", for_="where")
        writes = tag("input", type="hidden", name="writes", value=asked.writes)
        parts.append(tag("form", label, field, writes, tag("button", "Show"), action="/", method="get"))
    if isinstance(facts.pruning, str):
        parts.append(tag("p", facts.pruning, class_="minus", role="alert"))
    elif facts.pruning is not None:
        parts += [tag("p", "Condition: ", tag("code", asked.where)), pruned(facts.pruning)]
    return joined(parts) if parts else None


def _columns(facts: TableFacts) -> Html:
    parts: list[Html] = []
    for change in reversed(facts.schema_changes):
        lines = [tag("div", f"+ {column}", class_="plus") for column in change.added]
        lines += [tag("div", f"\N{MINUS SIGN} {column}", class_="minus") for column in change.dropped]
        lines += [tag("div", f"~ {column}") for column in change.changed]
        parts.append(tag("details", tag("summary", f"Changed by {change.instant}"), *lines, open=""))
    listed = table("Columns", ("name", "type"), facts.schema)
    return joined([*parts, listed])


def _metadata_table(facts: TableFacts) -> Html:
    partitions = ", ".join(facts.config.metadata_partitions)
    words = f"It has the partitions {partitions}." if partitions else "This table has no metadata table."
    parts = [tag("p", words)]
    if facts.indexes:
        head = tuple(facts.indexes[0])
        parts.append(table("Indexes", head, [[_cell(index[name]) for name in head] for index in facts.indexes]))
    return joined(parts)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

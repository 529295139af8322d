"""The page of the inspector: one HTML document that loads nothing, and has no script."""

from __future__ import annotations

from typing import Final

from pyhudi.api.display import bytes_text, counted
from pyhudi.api.explanation import pruned
from pyhudi.inspector.drawing import bytes_over_time, lanes, life, rows_over_time
from pyhudi.inspector.facts import TableFacts
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
.updated,.log,.changed{fill:var(--orange)}.written{fill:var(--grey)}
.plus{color:var(--green)}.minus{color:var(--red)}
input{font:inherit;width:20rem;max-width:100%}button{font:inherit}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem}
"""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
_ROWS_OF_A_TABLE: Final = 100


def page(facts: TableFacts, *, where: str = "", asks: bool = False) -> str:
    """The document. `where`: the condition that `facts` have been asked for; `asks`: with a form for another one."""
    detail = facts.detail
    parts = {
        "Timeline": _timeline(facts),
        "Writes": _writes(facts),
        "Partitions": _partitions(facts),
        "File groups": _groups(facts),
        "Services": _services(facts),
        "Filter": _filter(facts, where, asks=asks),
        "Columns": _columns(facts),
        "Metadata table": _metadata_table(facts),
    }
    shown = {name: part for name, part in parts.items() if part}
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", f"{detail.name} \N{MIDDLE DOT} pyhudi"),
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
        tag("header", tag("h1", detail.name), _summary(facts), tag("nav", *links, aria_label="sections")),
        tag("main", *sections, id="content"),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _summary(facts: TableFacts) -> Html:
    detail = facts.detail
    keys = ", ".join(detail.record_key_fields) or "generated"
    by = ", ".join(detail.partition_fields or ()) or "not partitioned"
    size = f"{counted(detail.base_files, 'base file')}, {counted(detail.logs, 'log')}, {bytes_text(detail.bytes)}"
    return joined(
        [
            tag("p", detail.uri, class_="soft"),
            tag("p", f"{detail.type}, version {detail.version}. Record key: {keys}. Partitioned by: {by}."),
            tag("p", f"{counted(detail.partitions, 'partition')}, {size}. {counted(detail.writes, 'active write')}."),
        ]
    )


def _timeline(facts: TableFacts) -> Html:
    if not facts.moments:
        return tag("p", "There is no instant yet.")
    ends = (facts.moments[0].instant, facts.moments[-1].instant)
    pending = [one for one in facts.moments if one.state != "completed"]
    parts = [
        lanes(facts.moments, is_merge_on_read=facts.detail.type == "MERGE_ON_READ"),
        tag("p", *(tag("span", end) for end in ends), class_="ends soft"),
        _keys(("done", "completed"), ("pending", "pending")),
    ]
    if pending:
        rows = [(one.instant, one.action, one.state) for one in pending[:_ROWS_OF_A_TABLE]]
        parts.append(table("Instants that are not completed", ("instant", "action", "state"), rows))
    return joined(parts)


def _keys(*kinds: tuple[str, str]) -> Html:
    def key(kind: str, words: str) -> Html:
        drawn = tag("svg", tag("rect", width="10", height="10", class_=kind), viewBox="0 0 10 10", aria_hidden="true")
        return tag("span", drawn, words, class_="key")

    return tag("p", *(key(*kind) for kind in kinds))


def _writes(facts: TableFacts) -> Html:
    writes = facts.writes
    if not writes:
        return tag("p", "There is no write yet.")
    written, changed = (sum(getattr(one, name) for one in writes) for name in ("bytes_written", "bytes_changed"))
    ratio = f"{written / changed:,.1f}" if changed else "unknown"
    net = sum(one.inserted - one.deleted for one in writes)
    rows = [
        (
            one.instant,
            one.operation,
            *(f"{count:,}" for count in (one.inserted, one.updated, one.deleted)),
            bytes_text(one.bytes_written),
            one.writer,
        )
        for one in reversed(writes[-_ROWS_OF_A_TABLE:])
    ]
    head = ("instant", "operation", "inserted", "updated", "deleted", "written", "writer")
    listed = table("The newest writes, compactions and clusterings", head, rows)
    return joined(
        [
            tag("p", f"The newest {len(writes):,} of the active timeline; {net:+,} rows by them."),
            rows_over_time(writes),
            _keys(("inserted", "inserted"), ("updated", "updated"), ("deleted", "deleted")),
            tag("p", f"Write amplification: {ratio} ({bytes_text(written)} written, {bytes_text(changed)} changed)."),
            bytes_over_time(writes),
            _keys(("written", "bytes written"), ("changed", "of changed rows")),
            tag("details", tag("summary", "Each write"), listed),
        ]
    )


def _partitions(facts: TableFacts) -> Html:
    if not facts.partitions:
        return tag("p", "There are no files yet.")
    most = max(one.base_bytes + one.log_bytes for one in facts.partitions)
    rows = [
        (
            one.path or "(the table)",
            bar(one.base_bytes + one.log_bytes, most, bytes_text(one.base_bytes + one.log_bytes)),
            f"{one.file_groups:,}",
            f"{one.small_files:,}",
            f"{one.log_bytes / one.base_bytes:.2f}" if one.base_bytes else "no base file",
            one.newest,
        )
        for one in facts.partitions
    ]
    caption = f"The largest {len(rows):,} of {counted(facts.partitions_of, 'partition')}"
    return table(caption, ("path", "size", "file groups", "small files", "logs to base", "newest slice"), rows)


def _groups(facts: TableFacts) -> Html:
    if not facts.groups:
        return tag("p", "The newest writes name no file group.")
    times = [event.begin_ms for events in facts.groups.values() for event in events]
    rows = [
        tag(
            "div",
            tag("span", f"{path}/{file_id}" if path else file_id),
            life(events, min(times), max(times)),
            class_="lane",
        )
        for (path, file_id), events in facts.groups.items()
    ]
    words = f"The {len(rows):,} that the newest writes changed most often, of {facts.groups_of:,} that they changed."
    keys = _keys(("base-file", "base file"), ("log", "log"), ("replaced", "replaced"))
    return joined([tag("p", words), keys, *rows])


def _services(facts: TableFacts) -> Html:
    rows = [(one.service, one.last or "\N{EN DASH}", "due" if one.is_due else "", one.reason) for one in facts.services]
    return table("Table services", ("service", "last", "due", "why"), rows)


def _filter(facts: TableFacts, where: str, *, asks: bool) -> Html | None:
    parts = []
    if asks:
        field = tag("input", name="where", value=where, id="where", placeholder="fare > 10", autocomplete="off")
        label = tag("label", "What does a read with this condition open? ", for_="where")
        parts.append(tag("form", label, field, tag("button", "Show"), action="/", method="get"))
    if isinstance(facts.pruning, str):
        parts.append(tag("p", facts.pruning, class_="minus", role="alert"))
    elif facts.pruning is not None:
        parts += [tag("p", "Condition: ", tag("code", where)), pruned(facts.pruning)]
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
    partitions = ", ".join(facts.metadata_partitions)
    words = f"It has the partitions {partitions}." if partitions else "This table has no metadata table."
    parts = [tag("p", words)]
    if facts.indexes:
        head = tuple(facts.indexes[0])
        parts.append(table("Indexes", head, [[_cell(one[name]) for name in head] for one in facts.indexes]))
    return joined(parts)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

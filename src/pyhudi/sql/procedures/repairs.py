"""Procedures that repair a table: partition metafiles, markers, properties."""

from __future__ import annotations

from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.properties import PROPERTIES_BYTES_MAX, parse_properties
from pyhudi.services.repair.markers import delete_markers
from pyhudi.services.repair.partition_metadata import add_partition_metafiles, partition_metafiles
from pyhudi.services.repair.properties import overwrite_properties
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import TABLE, Procedure, Rows, columns, flag, needed
from pyhudi.storage.bounded import read_at_most


def _add_partition_meta(context: CallContext, given: Given) -> Rows:
    handle = context.table(given).handle
    found = partition_metafiles(handle.state.storage)
    repairs = not given.flag("dry_run")
    if repairs:
        add_partition_metafiles(handle.service_call(None, call="repair_add_partition_meta"))
    for partition, files in found.items():
        action = "Repaired" if repairs and not files.is_marked else "None"
        yield (partition, "Yes" if files.is_marked else "No", action)


def _migrate_partition_meta(context: CallContext, given: Given) -> Rows:
    if not given.flag("dry_run"):
        raise UnsupportedFeatureError(
            "metafiles in the base file format are not written: those of text, which the table has, are read by all "
            "releases of Hudi; leave hoodie.partition.metafile.use.base.format unset"
        )
    for partition, files in partition_metafiles(context.table(given).handle.state.storage).items():
        action = "MIGRATE" if files.as_text else "NONE"
        yield (partition, str(files.as_text).lower(), str(files.as_base_file).lower(), action)


def _delete_marker(context: CallContext, given: Given) -> Rows:
    call = context.table(given).handle.service_call(None, call="delete_marker")
    for instant in given.words("instant_time"):
        delete_markers(call, instant)
    return [(True,)]


def _overwrite_props(context: CallContext, given: Given) -> Rows:
    handle = context.table(given).handle
    path = given.text("new_props_file_path")
    folder, _, name = path.rpartition("/")
    if not name:
        raise ConfigError("new_props_file_path must name a file", path=path)
    values = parse_properties(read_at_most(context.storage(folder or "."), name, PROPERTIES_BYTES_MAX), path=path)
    changes = overwrite_properties(handle.service_call(None, call="repair_overwrite_hoodie_props"), values)
    return [(name, old or "null", new or "null") for name, (old, new) in changes.items()]


PROCEDURES = (
    Procedure(
        name="repair_add_partition_meta",
        what="Which partitions lack their metafile; with dry_run => false it is put.",
        parameters=(TABLE, flag("dry_run", True)),
        columns=columns("partition_path string, metadata_is_present string, action string"),
        run=_add_partition_meta,
    ),
    Procedure(
        name="repair_migrate_partition_meta",
        what="In which form partitions have their metafile. Only with dry_run => true.",
        parameters=(TABLE, flag("dry_run", True)),
        columns=columns(
            "partition_path string, text_metafile_present string, base_metafile_present string, action string"
        ),
        run=_migrate_partition_meta,
    ),
    Procedure(
        name="delete_marker",
        what="Deletes the markers of writes that have ended.",
        parameters=(TABLE, needed("instant_time")),
        columns=columns("delete_marker_result boolean"),
        run=_delete_marker,
    ),
    Procedure(
        name="repair_overwrite_hoodie_props",
        what="Replaces the table's properties by those of a file, but for those that say how its files are read.",
        parameters=(TABLE, needed("new_props_file_path")),
        columns=columns("property string, old_value string, new_value string"),
        run=_overwrite_props,
    ),
)

"""Procedures that repair a table: partition metafiles, markers, properties."""

from __future__ import annotations

from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.properties import PROPERTIES_BYTES_MAX, parse_properties
from pyhudi.services.repair.metadata_files import (
    add_partition_metafiles,
    delete_markers,
    overwrite_properties,
    partition_metafiles,
)
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import TABLE, Rows, flag, needed, procedure
from pyhudi.storage.bounded import read_at_most


@procedure(TABLE, flag("dry_run", True), answer="partition_path string, metadata_is_present string, action string")
def repair_add_partition_meta(context: CallContext, given: Given) -> Rows:
    """Which partitions lack their metafile; with dry_run => false it is put."""
    handle = context.table(given).handle
    found = partition_metafiles(handle.state.storage)
    repairs = not given.flag("dry_run")
    if repairs:
        add_partition_metafiles(handle.service_call(None, call="repair_add_partition_meta"))
    for partition, files in found.items():
        action = "Repaired" if repairs and not files.is_marked else "None"
        yield (partition, "Yes" if files.is_marked else "No", action)


@procedure(
    TABLE,
    flag("dry_run", True),
    answer="partition_path string, text_metafile_present string, base_metafile_present string, action string",
)
def repair_migrate_partition_meta(context: CallContext, given: Given) -> Rows:
    """In which form partitions have their metafile. Only with dry_run => true."""
    if not given.flag("dry_run"):
        raise UnsupportedFeatureError(
            "metafiles in the base file format are not written: those of text, which the table has, are read by all "
            "releases of Hudi; leave hoodie.partition.metafile.use.base.format unset"
        )
    for partition, files in partition_metafiles(context.table(given).handle.state.storage).items():
        action = "MIGRATE" if files.as_text else "NONE"
        yield (partition, str(files.as_text).lower(), str(files.as_base_file).lower(), action)


@procedure(TABLE, needed("instant_time"), answer="delete_marker_result boolean")
def delete_marker(context: CallContext, given: Given) -> Rows:
    """Deletes the markers of writes that have ended."""
    call = context.table(given).handle.service_call(None, call="delete_marker")
    for instant in given.words("instant_time"):
        delete_markers(call, instant)
    return [(True,)]


@procedure(TABLE, needed("new_props_file_path"), answer="property string, old_value string, new_value string")
def repair_overwrite_hoodie_props(context: CallContext, given: Given) -> Rows:
    """Replaces the table's properties by those of a file, but for those that say how its files are read."""
    handle = context.table(given).handle
    path = given.text("new_props_file_path")
    folder, _, name = path.rpartition("/")
    if not name:
        raise ConfigError("new_props_file_path must name a file", path=path)
    values = parse_properties(read_at_most(context.storage(folder or "."), name, PROPERTIES_BYTES_MAX), path=path)
    changes = overwrite_properties(handle.service_call(None, call="repair_overwrite_hoodie_props"), values)
    return [(name, old or "null", new or "null") for name, (old, new) in changes.items()]

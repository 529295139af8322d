"""Key generators: goldens are what the generators of Hudi 1.2.0 gave for the same rows."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.seconds import cpu_seconds

from pyhudi.errors import ConfigError, InvalidRequestError, RecordKeyError, UnsafePathError, UnsupportedFeatureError
from pyhudi.format.keys.generator import (
    KeyGenerator,
    PartitionField,
    auto_record_keys,
    key_generator_from_table,
    partition_field_names,
    sniff_single_field_prefix,
)
from pyhudi.format.keys.generator_types import (
    KEY_GENERATOR_CLASSES,
    KeyGeneratorType,
    PartitionFieldKind,
    infer_key_generator,
    key_generator_type,
)
from pyhudi.format.keys.timestamps import TimestampKeyOptions, TimestampKind, TimeUnit, timestamp_key_options
from pyhudi.format.timeline.table_version import V6, V8, V9, table_version

CLASSES = {
    KeyGeneratorType.SIMPLE: "org.apache.hudi.keygen.SimpleKeyGenerator",
    KeyGeneratorType.COMPLEX: "org.apache.hudi.keygen.ComplexKeyGenerator",
    KeyGeneratorType.NON_PARTITION: "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    KeyGeneratorType.TIMESTAMP: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    KeyGeneratorType.CUSTOM: "org.apache.hudi.keygen.CustomKeyGenerator",
    KeyGeneratorType.GLOBAL_DELETE: "org.apache.hudi.keygen.GlobalDeleteKeyGenerator",
}
EPOCH = "hoodie.keygen.timebased."


def rows(**columns: list[object] | pa.Array) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(values) for name, values in columns.items()})


def keyed_by(*fields: str) -> KeyGenerator:
    return KeyGenerator(kind=KeyGeneratorType.NON_PARTITION, record_key_fields=fields)


def partitioned_by(*names: str, **settings: bool) -> KeyGenerator:
    fields = tuple(PartitionField(name) for name in names)
    kind = KeyGeneratorType.SIMPLE if len(names) == 1 else KeyGeneratorType.COMPLEX
    return KeyGenerator(kind=kind, record_key_fields=("id",), partition_fields=fields, **settings)


def by_time(options: TimestampKeyOptions, **settings: bool) -> KeyGenerator:
    field = PartitionField("t", PartitionFieldKind.TIMESTAMP)
    return KeyGenerator(
        kind=KeyGeneratorType.TIMESTAMP,
        record_key_fields=("id",),
        partition_fields=(field,),
        timestamp=options,
        **settings,
    )


# record keys


def test_single_field_key_is_the_bare_value() -> None:
    assert keyed_by("id").record_keys(rows(id=[7, -1])).to_pylist() == ["7", "-1"]


def test_several_fields_join_with_names_in_the_configured_order_without_escaping() -> None:
    batch = rows(b=["k:4,", None, "", "x"], a=["y:z,w", "1", "2", ""])
    assert keyed_by("b", "a").record_keys(batch).to_pylist() == [
        "b:k:4,,a:y:z,w",
        "b:__null__,a:1",
        "b:__empty__,a:2",
        "b:x,a:__empty__",
    ]


@pytest.mark.parametrize(("has_prefix", "key"), [(True, "id:k1"), (False, "k1")])
def test_complex_with_one_field_carries_its_name_only_with_the_prefix(has_prefix: bool, key: str) -> None:
    generator = KeyGenerator(kind=KeyGeneratorType.COMPLEX, record_key_fields=("id",), single_field_prefix=has_prefix)
    assert generator.record_keys(rows(id=["k1"])).to_pylist() == [key]


def test_prefix_matters_for_complex_only() -> None:
    assert replace(keyed_by("id"), single_field_prefix=True).record_keys(rows(id=["k1"])).to_pylist() == ["k1"]


@pytest.mark.parametrize("values", [["a", None, "b", None], ["a", "", "b", ""]])
def test_null_or_empty_key_is_refused_with_column_count_and_row(values: list[str | None]) -> None:
    with pytest.raises(RecordKeyError, match=r"2 row\(s\).*record key column id, the first is row 1") as caught:
        keyed_by("id").record_keys(rows(id=values))
    assert caught.value.context == {"columns": ("id",), "rows": 2, "first_row": 1}


def test_composite_key_that_is_null_in_every_field_is_refused() -> None:
    with pytest.raises(RecordKeyError, match="all of the record key columns a, b"):
        keyed_by("a", "b").record_keys(rows(a=["x", None], b=[None, ""]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.text(max_size=4)), st.one_of(st.none(), st.integers(-9, 9)), st.text()),
        max_size=12,
    )
)
def test_composite_keys_are_as_the_plain_model(values: list[tuple[str | None, int | None, str]]) -> None:
    def part(value: str | int | None) -> str:
        return "__null__" if value is None else str(value) or "__empty__"

    usable = [row for row in values if row[0] or row[1] is not None or row[2]]
    names = ("a", "b", "c")
    kinds = (pa.string(), pa.int64(), pa.string())
    columns = [pa.array([row[i] for row in usable], kind) for i, kind in enumerate(kinds)]
    batch = pa.record_batch(columns, names=list(names))
    expected = [",".join(f"{name}:{part(value)}" for name, value in zip(names, row, strict=True)) for row in usable]
    assert keyed_by(*names).record_keys(batch).to_pylist() == expected


def test_key_inside_a_struct_is_found_by_its_path_and_null_with_the_struct() -> None:
    inner = pa.array([{"b": {"c": 1}}, {"b": None}, None], pa.struct([("b", pa.struct([("c", pa.int64())]))]))
    batch = rows(a=inner, x=["p", "q", "r"])
    assert keyed_by("a.b.c", "x").record_keys(batch).to_pylist() == [
        "a.b.c:1,x:p",
        "a.b.c:__null__,x:q",
        "a.b.c:__null__,x:r",
    ]


def test_column_whose_name_has_a_dot_wins_over_the_path() -> None:
    batch = pa.record_batch({"a.b": pa.array(["flat"]), "a": pa.array([{"b": "deep"}])})
    assert keyed_by("a.b").record_keys(batch).to_pylist() == ["flat"]


@pytest.mark.parametrize(("name", "hint"), [("customer_idd", "'customer_id'"), ("at.lng", "'at.lon'"), ("q", "it has")])
def test_unknown_key_column_is_refused_with_the_nearest_name(name: str, hint: str) -> None:
    batch = rows(customer_id=[1], at=pa.array([{"lon": 1.0}]))
    with pytest.raises(ConfigError, match=hint):
        keyed_by(name).record_keys(batch)


def test_duplicate_key_column_is_refused() -> None:
    batch = pa.record_batch([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(ConfigError, match="2 times"):
        keyed_by("id").record_keys(batch)


def test_table_without_key_fields_has_auto_keys() -> None:
    assert keyed_by().has_auto_keys
    with pytest.raises(ConfigError, match="generates its record keys"):
        keyed_by().record_keys(rows(id=[1]))
    keys = auto_record_keys("20261121100029938", 3, 9, 2)
    assert keys.to_pylist() == ["20261121100029938_3_9", "20261121100029938_3_10"]
    assert len(auto_record_keys("20261121100029938", 0, 0, 0)) == 0


def test_empty_batch_has_no_keys_and_no_paths() -> None:
    batch = pa.record_batch({"id": pa.array([], pa.string()), "p": pa.array([], pa.int32())})
    assert keyed_by("id", "p").record_keys(batch).to_pylist() == []
    assert keyed_by("id").partition_paths(batch).to_pylist() == []
    assert partitioned_by("p", "id").partition_paths(batch).to_pylist() == []


# partition paths


def test_paths_of_one_field_are_encoded_once_per_distinct_value() -> None:
    batch = rows(id=[1, 2, 3, 4], p=["b", None, "b", ""])
    paths = partitioned_by("p", hive_style=True).partition_paths(batch)
    assert paths.type == pa.dictionary(pa.int32(), pa.string())
    assert paths.dictionary.to_pylist() == ["p=b", "p=__HIVE_DEFAULT_PARTITION__"]
    assert paths.indices.to_pylist() == [0, 1, 0, 1]


def test_paths_of_several_fields_join_and_only_pairs_that_occur_are_entries() -> None:
    batch = rows(id=[1, 2, 3], p=["a/b", "c", "c"], q=[1, 2, 2])
    assert partitioned_by("p", "q").partition_paths(batch).to_pylist() == ["a/b/1", "c/2", "c/2"]
    paths = partitioned_by("p", "q", hive_style=True, url_encode=True).partition_paths(batch)
    assert paths.dictionary.to_pylist() == ["p=a%2Fb/q=1", "p=c/q=2"]


def test_paths_that_are_equal_by_nesting_are_one_entry() -> None:
    paths = partitioned_by("p", "q").partition_paths(rows(id=[1, 2], p=["a/b", "a"], q=["c", "b/c"]))
    assert paths.dictionary.to_pylist() == ["a/b/c"]
    assert paths.indices.to_pylist() == [0, 0]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_paths_do_not_depend_on_how_text_is_stored(kind: pa.DataType) -> None:
    column = pa.array(["b", None, "a", "b"]).cast(kind)
    paths = partitioned_by("p").partition_paths(pa.record_batch({"p": column.slice(1)}))
    assert paths.to_pylist() == ["__HIVE_DEFAULT_PARTITION__", "a", "b"]


def test_rows_without_partition_fields_have_the_empty_path() -> None:
    assert keyed_by("id").partition_paths(rows(id=[1, 2])).to_pylist() == ["", ""]


def test_slash_dates_apply_to_a_single_field_only() -> None:
    batch = rows(id=[1], d=["2024-01-02"], q=["x-y"])
    assert partitioned_by("d", slash_dates=True).partition_paths(batch).to_pylist() == ["2024/01/02"]
    assert partitioned_by("d", "q", slash_dates=True).partition_paths(batch).to_pylist() == ["2024-01-02/x-y"]


def test_unsafe_value_is_refused_before_any_path_is_given() -> None:
    with pytest.raises(UnsafePathError, match="partition column 'p'"):
        partitioned_by("p").partition_paths(rows(id=[1, 2], p=["fine", "../x"]))


def test_reserved_and_colon_names_are_judged_by_their_place_in_the_path() -> None:
    batch = rows(id=[1], p=["x"], q=["a:b"])
    assert partitioned_by("p", "q").partition_paths(batch).to_pylist() == ["x/a:b"]
    with pytest.raises(UnsafePathError, match="JVM"):
        partitioned_by("q", "p").partition_paths(batch)


# timestamp fields


@pytest.mark.parametrize(
    ("options", "value", "path"),
    [
        ({"kind": TimestampKind.UNIX_TIMESTAMP}, 1700000000, "2023/11/14 22:13:20.000"),
        ({"kind": TimestampKind.EPOCHMILLISECONDS}, 1700000000123, "2023/11/14 22:13:20.123"),
        ({"kind": TimestampKind.EPOCHMICROSECONDS}, 1700000000123456, "2023/11/14 22:13:20.123"),
        ({"kind": TimestampKind.EPOCHMICROSECONDS}, -1, "1970/01/01 00:00:00.000"),
        ({"kind": TimestampKind.EPOCHMICROSECONDS}, -1001, "1969/12/31 23:59:59.999"),
        ({"kind": TimestampKind.SCALAR, "scalar_unit": TimeUnit.DAYS}, 1000, "1972/09/27 00:00:00.000"),
        ({"kind": TimestampKind.SCALAR, "scalar_unit": TimeUnit.DAYS}, None, "1970/01/02 00:00:00.000"),
        ({"kind": TimestampKind.UNIX_TIMESTAMP}, 1.9, "1970/01/01 00:00:01.000"),
        ({"kind": TimestampKind.UNIX_TIMESTAMP, "output_zone": "Asia/Tokyo"}, None, "1970/01/01 09:00:01.000"),
        ({"kind": TimestampKind.DATE_STRING, "input_zone": "Asia/Tokyo", "output_zone": "UTC"}, None,
         "1969/12/31 15:00:00.000"),
        ({"kind": TimestampKind.DATE_STRING, "output_zone": "UTC"}, "2023-02-03T01:02:03+0200",
         "2023/02/02 23:02:03.000"),
        ({"kind": TimestampKind.DATE_STRING}, "2023-02-03T01:02:03+0200", "2023/02/03 01:02:03.000"),
        ({"kind": TimestampKind.MIXED}, "2023-02-03", "2023/02/03 00:00:00.000"),
    ],
)  # fmt: skip
def test_timestamp_field_gives_the_folder_that_hudi_gives(options: dict, value: object, path: str) -> None:
    text_formats = ("yyyy-MM-dd'T'HH:mm:ssZ", "yyyy-MM-dd") if options["kind"].is_text else ()
    full = TimestampKeyOptions(output_format="yyyy/MM/dd HH:mm:ss.SSS", input_formats=text_formats, **options)
    kind = pa.string() if full.kind.is_text else pa.float64() if isinstance(value, float) else pa.int64()
    batch = pa.record_batch({"t": pa.array([value, value], kind)})
    assert by_time(full).partition_paths(batch).to_pylist() == [path, path]


@pytest.mark.parametrize(
    ("column", "kind", "unit"),
    [
        (pa.array([19724], pa.int32()).cast(pa.date32()), TimestampKind.SCALAR, TimeUnit.DAYS),
        (pa.array([1704164645678901], pa.timestamp("us")), TimestampKind.EPOCHMICROSECONDS, TimeUnit.SECONDS),
        (pa.array([1704164645678], pa.timestamp("ms", "UTC")), TimestampKind.EPOCHMICROSECONDS, TimeUnit.SECONDS),
    ],
    ids=str,
)
def test_dates_and_timestamps_count_by_their_stored_number(
    column: pa.Array, kind: TimestampKind, unit: TimeUnit
) -> None:
    options = TimestampKeyOptions(kind=kind, scalar_unit=unit, output_format="yyyy-MM-dd")
    assert by_time(options).partition_paths(pa.record_batch({"t": column})).to_pylist() == ["2024-01-02"]


def test_hive_prefix_stands_once_and_encoding_keeps_slashes_inside() -> None:
    options = TimestampKeyOptions(kind=TimestampKind.UNIX_TIMESTAMP, output_format="yyyy/MM/dd HH:mm")
    batch = rows(t=[1700000000])
    assert by_time(options, hive_style=True, url_encode=True).partition_paths(batch).to_pylist() == [
        "t=2023%2F11%2F14 22%3A13"
    ]
    hourly = TimestampKeyOptions(kind=TimestampKind.UNIX_TIMESTAMP, output_format="yyyy/MM/dd/HH")
    assert by_time(hourly, hive_style=True).partition_paths(batch).to_pylist() == ["t=2023/11/14/22"]


def test_farthest_numbers_have_a_folder_too() -> None:
    options = TimestampKeyOptions(
        kind=TimestampKind.SCALAR, scalar_unit=TimeUnit.DAYS, output_format="yyyy", output_zone="Asia/Tokyo"
    )
    paths = by_time(options).partition_paths(rows(t=[2**63 - 1, -(2**63)])).to_pylist()
    assert [path[:6] for path in paths] == ["291538", "-29153"]


def test_text_that_fits_no_input_format_is_refused_by_name_and_value() -> None:
    options = TimestampKeyOptions(kind=TimestampKind.DATE_STRING, output_format="yyyy", input_formats=("yyyy-MM-dd",))
    with pytest.raises(InvalidRequestError, match=r"1 distinct value\(s\) of partition column 't'") as caught:
        by_time(options).partition_paths(rows(t=["2023-01-02", None, "soon", "soon"]))
    assert caught.value.context["value"] == "soon"


@pytest.mark.parametrize(("is_text", "values"), [(True, [1]), (False, ["2023-01-01"])])
def test_column_of_the_other_type_is_refused(is_text: bool, values: list[object]) -> None:
    kind = TimestampKind.DATE_STRING if is_text else TimestampKind.UNIX_TIMESTAMP
    options = TimestampKeyOptions(kind=kind, output_format="yyyy", input_formats=("yyyy",) if is_text else ())
    with pytest.raises(ConfigError, match=r"timestamp\.type"):
        by_time(options).partition_paths(rows(t=values))


def test_custom_generator_mixes_fields() -> None:
    generator = KeyGenerator(
        kind=KeyGeneratorType.CUSTOM,
        record_key_fields=("id",),
        partition_fields=(PartitionField("p"), PartitionField("t", PartitionFieldKind.TIMESTAMP)),
        hive_style=True,
        timestamp=TimestampKeyOptions(kind=TimestampKind.UNIX_TIMESTAMP, output_format="yyyy/MM/dd"),
    )
    batch = rows(id=["k"], p=["a"], t=[1700000000])
    assert generator.partition_paths(batch).to_pylist() == ["p=a/t=2023/11/14"]
    assert generator.record_keys(batch).to_pylist() == ["k"]
    assert pickle.loads(pickle.dumps(generator)) == generator


# kinds and table properties


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_type_names_and_classes_lead_to_the_kind(kind: KeyGeneratorType) -> None:
    class_name = KEY_GENERATOR_CLASSES[kind]
    assert class_name == CLASSES[kind]
    for name in (kind.value, f"{kind.value}_AVRO", class_name, class_name.rpartition(".")[2]):
        assert key_generator_type(name) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator", KeyGeneratorType.TIMESTAMP),
        ("org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator", KeyGeneratorType.NON_PARTITION),
        ("org.apache.hudi.keygen.GlobalAvroDeleteKeyGenerator", KeyGeneratorType.GLOBAL_DELETE),
    ],
)
def test_classes_for_avro_records_lead_to_the_kind(name: str, kind: KeyGeneratorType) -> None:
    assert key_generator_type(name) is kind


@pytest.mark.parametrize(
    "name",
    [
        "com.example.MyKeys",
        "USER_PROVIDED",
        "HOODIE_TABLE_METADATA",
        "org.apache.spark.sql.hudi.command.SqlKeyGenerator",
        "AUTO_RECORD_AVRO",
    ],
)
def test_any_other_generator_of_a_table_is_refused_by_name(name: str) -> None:
    assert key_generator_type(name) is KeyGeneratorType.USER_PROVIDED
    with pytest.raises(UnsupportedFeatureError) as caught:
        key_generator_from_table(table(recordkey__fields="id", keygenerator__type=name), V9, {})
    assert caught.value.context["key_generator"] == name


@pytest.mark.parametrize(
    ("keys", "partitions", "kind"),
    [
        (["a"], [], KeyGeneratorType.NON_PARTITION),
        (["a", "b"], [], KeyGeneratorType.NON_PARTITION),
        ([], ["p"], KeyGeneratorType.SIMPLE),
        (["a"], ["p"], KeyGeneratorType.SIMPLE),
        (["a"], ["p", "q"], KeyGeneratorType.COMPLEX),
        (["a", "b"], ["p"], KeyGeneratorType.COMPLEX),
        (["a"], ["p:SIMPLE", "q:TIMESTAMP"], KeyGeneratorType.CUSTOM),
    ],
)
def test_kind_is_inferred_from_the_fields(keys: list[str], partitions: list[str], kind: KeyGeneratorType) -> None:
    assert infer_key_generator(keys, partitions) is kind


def table(**settings: str) -> dict[str, str]:
    return {f"hoodie.table.{name.replace('__', '.')}": value for name, value in settings.items()}


@pytest.mark.parametrize(
    ("version", "options", "has_prefix"),
    [
        (6, {}, False),
        (8, {}, False),
        (9, {}, True),
        (8, {"hoodie.write.complex.keygen.new.encoding": "false"}, True),
        (8, {"hoodie.write.complex.keygen.new.encoding": "true"}, False),
        (9, {"hoodie.write.complex.keygen.new.encoding": "true"}, True),
    ],
)
def test_single_field_complex_keys_follow_the_version(version: int, options: dict[str, str], has_prefix: bool) -> None:
    properties = table(recordkey__fields="id", partition__fields="p,q", keygenerator__type="COMPLEX")
    assert key_generator_from_table(properties, table_version(version), options).single_field_prefix is has_prefix


def test_stored_key_tells_which_encoding_a_table_has() -> None:
    assert sniff_single_field_prefix("id:k1", "id")
    assert not sniff_single_field_prefix("k1", "id")
    assert not sniff_single_field_prefix("identity:1", "id")


def test_version_six_table_is_read_from_its_class_and_flags() -> None:
    properties = table(
        recordkey__fields="id, b", partition__fields="p", keygenerator__class=CLASSES[KeyGeneratorType.COMPLEX]
    ) | {
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "TRUE",
        "hoodie.datasource.write.slash.separated.date.partitioning": "true",
    }
    assert key_generator_from_table(properties, V6, {}) == KeyGenerator(
        kind=KeyGeneratorType.COMPLEX,
        record_key_fields=("id", "b"),
        partition_fields=(PartitionField("p"),),
        hive_style=True,
        url_encode=True,
        slash_dates=True,
    )


def test_keyless_table_without_partitions_is_inferred() -> None:
    generator = key_generator_from_table(table(partition__fields=""), V9, {})
    assert (generator.kind, generator.has_auto_keys) == (KeyGeneratorType.NON_PARTITION, True)


def test_timestamp_table_keeps_its_options() -> None:
    properties = table(recordkey__fields="id", partition__fields="t", keygenerator__type="TIMESTAMP") | {
        f"{EPOCH}timestamp.type": "SCALAR",
        f"{EPOCH}timestamp.scalar.time.unit": "days",
        f"{EPOCH}output.dateformat": "yyyy/MM",
        f"{EPOCH}timezone": "Asia/Tokyo",
    }
    generator = key_generator_from_table(properties, V9, {})
    assert generator.timestamp == TimestampKeyOptions(
        kind=TimestampKind.SCALAR,
        scalar_unit=TimeUnit.DAYS,
        output_format="yyyy/MM",
        input_zone="Asia/Tokyo",
        output_zone="Asia/Tokyo",
    )
    assert generator.partition_paths(rows(t=[1000])).to_pylist() == ["1972/09"]


def test_old_spelling_and_separate_zones_of_timestamp_options_are_read() -> None:
    old = "hoodie.deltastreamer.keygen.timebased."
    options = timestamp_key_options(
        {
            f"{old}timestamp.type": "DATE_STRING",
            f"{old}input.dateformat": "yyyy-MM-dd; yyyy/MM/dd",
            f"{old}input.dateformat.list.delimiter.regex": ";",
            f"{old}output.dateformat": "yyyy",
            f"{old}input.timezone": "GMT+8:00",
        }
    )
    assert options == TimestampKeyOptions(
        kind=TimestampKind.DATE_STRING,
        input_formats=("yyyy-MM-dd", "yyyy/MM/dd"),
        output_format="yyyy",
        input_zone="GMT+8:00",
    )


TIME_OPTIONS = {f"{EPOCH}timestamp.type": "UNIX_TIMESTAMP", f"{EPOCH}output.dateformat": "yyyy"}


@pytest.mark.parametrize(
    ("stored", "options"),
    [
        ("p:SIMPLE,t:TIMESTAMP", {}),
        ("p,t", {"hoodie.datasource.write.partitionpath.field": "p:simple, t:timestamp"}),
    ],
    ids=["version 8", "version 6"],
)
def test_custom_table_takes_kinds_and_time_options_from_where_they_are(stored: str, options: dict[str, str]) -> None:
    properties = table(recordkey__fields="id", partition__fields=stored, keygenerator__type="CUSTOM")
    generator = key_generator_from_table(properties, V8, options | TIME_OPTIONS)
    assert generator.partition_paths(rows(p=["a"], t=[1700000000])).to_pylist() == ["a/2023"]
    assert partition_field_names(properties) == ("p", "t")


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({"partition__fields": "p,t", "keygenerator__type": "CUSTOM"}, {}, "does not store the kinds"),
        ({"partition__fields": "t:TIMESTAMP", "keygenerator__type": "CUSTOM"}, {}, "give them with every write"),
        ({"partition__fields": "t:WHEN", "keygenerator__type": "CUSTOM"}, {}, "SIMPLE, TIMESTAMP"),
        ({"partition__fields": "t", "keygenerator__type": "TIMESTAMP"}, {}, "output.dateformat"),
        ({"partition__fields": "p,q", "keygenerator__type": "SIMPLE"}, {}, "takes one of the partition fields"),
        ({"partition__fields": "p", "recordkey__fields": "a,b", "keygenerator__type": "SIMPLE"}, {}, "record key"),
        (
            {"partition__fields": "t", "keygenerator__type": "TIMESTAMP"},
            {f"{EPOCH}timestamp.type": "SOMETIME", f"{EPOCH}output.dateformat": "yyyy"},
            "must be one of UNIX_TIMESTAMP",
        ),
        (
            {"partition__fields": "t", "keygenerator__type": "TIMESTAMP"},
            {f"{EPOCH}timestamp.type": "SCALAR"},
            "output.dateformat is missing",
        ),
        (
            {"partition__fields": "t", "keygenerator__type": "TIMESTAMP"},
            {f"{EPOCH}timestamp.type": "DATE_STRING", f"{EPOCH}output.dateformat": "yyyy"},
            "input.dateformat is required",
        ),
    ],
)
def test_contradictory_or_missing_table_settings_are_refused(
    settings: dict[str, str], options: dict[str, str], message: str
) -> None:
    properties = table(**{"recordkey__fields": "id", **settings})
    with pytest.raises(ConfigError, match=message):
        key_generator_from_table(properties, V9, options)


def test_class_of_the_user_in_the_table_is_refused_by_its_name() -> None:
    properties = table(recordkey__fields="id", keygenerator__type="USER_PROVIDED", keygenerator__class="com.x.Keys")
    with pytest.raises(UnsupportedFeatureError, match=r"com\.x\.Keys"):
        key_generator_from_table(properties, V9, {})


def test_a_million_keys_and_paths_take_well_under_a_second_of_cpu() -> None:
    count = 1_000_000
    ids = pa.array(range(count), pa.int64())
    days = pa.array([day % 365 for day in range(count)], pa.int32()).cast(pa.date32())
    batch = pa.record_batch({"id": ids, "s": ids.cast(pa.string()), "d": days})

    def keys_and_paths() -> pa.DictionaryArray:
        keyed_by("id").record_keys(batch)
        keyed_by("s").record_keys(batch)
        return partitioned_by("d", hive_style=True).partition_paths(batch)

    assert cpu_seconds(keys_and_paths) < 1.0
    assert len(keys_and_paths().dictionary) == 365

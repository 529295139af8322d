//! hudi-rs as a program, for the interop tests and for `make bench`: one verb on one table. Rows are files in Arrow's
//! IPC stream format, or Parquet (a file `*.parquet`, or a folder of them).
//!
//!     hudi-rs create TABLE [OPTION=VALUE]...          see `create` for the options
//!     hudi-rs append TABLE ROWS [OPTION=VALUE]...     so do upsert, overwrite, dynamic_partition_overwrite
//!     hudi-rs delete_keys TABLE KEYS                  columns _hoodie_record_key, _hoodie_partition_path
//!     hudi-rs delete TABLE FILTER
//!     hudi-rs compact TABLE
//!     hudi-rs read TABLE ROWS                         writes the rows of a snapshot
//!     hudi-rs scan TABLE [TURNS]                      reads the rows of a snapshot so often, opening the table anew;
//!                                                     prints how many there are and the seconds of each turn
use std::error::Error;
use std::fs::{File, read_dir};
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use hudi::config::table::TableTypeValue;
use hudi::index::HoodieKey;
use hudi::table::{ReadOptions, Table};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    tokio::runtime::Runtime::new()?.block_on(run(&texts))
}

async fn run(arguments: &[&str]) -> Outcome<()> {
    match arguments {
        ["create", table, options @ ..] => create(table, &pairs(options)?).await,
        ["scan", table] => scan(table, 1).await,
        ["scan", table, turns] => scan(table, turns.parse()?).await,
        ["read", table, path] => read(&Table::new(table).await?, path).await,
        [verb, table, rest @ ..] => {
            let (operand, options) = match rest {
                [operand, options @ ..] => (*operand, options),
                [] => ("", rest),
            };
            let mut table = Table::new_with_options(table, pairs(options)?).await?;
            match *verb {
                "append" => drop(table.append(rows_of(operand)?).await?),
                "upsert" => drop(table.upsert(rows_of(operand)?).await?),
                "overwrite" => drop(table.overwrite(rows_of(operand)?).await?),
                "dynamic_partition_overwrite" => {
                    drop(table.dynamic_partition_overwrite(rows_of(operand)?).await?)
                }
                "delete_keys" => drop(table.delete_keys(keys_of(operand)?).await?),
                "delete" => drop(table.delete(operand).await?),
                "compact" => drop(table.compact().await?),
                _ => return Err(format!("no such verb: {verb}").into()),
            }
            Ok(())
        }
        _ => Err("usage: hudi-rs VERB TABLE [OPERAND] [OPTION=VALUE]...".into()),
    }
}

/// `name`, `type` (COPY_ON_WRITE), `version` (9), `record_key`, `partition_by`, `ordering` (names with commas between
/// them), `hive_style` (true), `metadata_table` (true), `column_stats` (true); any other one is a property of the table.
async fn create(path: &str, options: &[(&str, &str)]) -> Outcome<()> {
    let mut builder = Table::create(path);
    for (option, value) in options {
        builder = match *option {
            "name" => builder.with_table_name(*value),
            "type" => builder.with_table_type(value.parse::<TableTypeValue>()?),
            "version" => builder.with_table_version(value.parse()?),
            "record_key" => builder.with_record_key_fields(value.split(',')),
            "partition_by" => builder.with_partition_fields(value.split(',')),
            "ordering" => builder.with_ordering_fields(value.split(',')),
            "hive_style" => builder.with_hive_style_partitioning(value.parse()?),
            "metadata_table" => builder.with_metadata_table_enabled(value.parse()?),
            "column_stats" => builder.with_column_stats_enabled(value.parse()?),
            _ => builder.with_option(option, *value),
        };
    }
    builder.create().await?;
    Ok(())
}

async fn scan(path: &str, turns: usize) -> Outcome<()> {
    for _ in 0..turns {
        let began = Instant::now();
        let batches = Table::new(path).await?.read(&ReadOptions::new()).await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        println!("{rows} {:.4}", began.elapsed().as_secs_f64());
    }
    Ok(())
}

async fn read(table: &Table, path: &str) -> Outcome<()> {
    let batches = table.read(&ReadOptions::new()).await?;
    let schema = match batches.first() {
        Some(batch) => batch.schema(),
        None => table.get_schema_with_meta_fields().await?.into(),
    };
    let mut writer = StreamWriter::try_new(File::create(path)?, &schema)?;
    for batch in &batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    Ok(())
}

fn pairs<'a>(options: &[&'a str]) -> Outcome<Vec<(&'a str, &'a str)>> {
    let pair = |option: &&'a str| {
        option
            .split_once('=')
            .ok_or_else(|| format!("not OPTION=VALUE: {option}").into())
    };
    options.iter().map(pair).collect()
}

fn rows_of(path: &str) -> Outcome<Vec<RecordBatch>> {
    let file_or_folder = Path::new(path);
    if file_or_folder.is_dir() || file_or_folder.extension().is_some_and(|end| end == "parquet") {
        return parquet_rows(file_or_folder);
    }
    Ok(StreamReader::try_new(File::open(path)?, None)?.collect::<Result<_, _>>()?)
}

fn parquet_rows(file_or_folder: &Path) -> Outcome<Vec<RecordBatch>> {
    let mut files = vec![file_or_folder.to_path_buf()];
    if file_or_folder.is_dir() {
        let entries = read_dir(file_or_folder)?;
        files = entries.map(|entry| Ok(entry?.path())).collect::<Outcome<Vec<PathBuf>>>()?;
        files.sort();
    }
    let mut rows = Vec::new();
    for file in files {
        for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?.build()? {
            rows.push(batch?);
        }
    }
    Ok(rows)
}

fn keys_of(path: &str) -> Outcome<Vec<HoodieKey>> {
    let mut keys = Vec::new();
    for batch in rows_of(path)? {
        let column = |name: &str| {
            batch
                .column_by_name(name)
                .ok_or(format!("no column {name}"))
                .map(|c| c.as_string::<i32>())
        };
        let (record_keys, paths) = (
            column("_hoodie_record_key")?,
            column("_hoodie_partition_path")?,
        );
        keys.extend(record_keys.iter().zip(paths).map(|(key, path)| HoodieKey {
            record_key: key.unwrap_or_default().into(),
            partition_path: path.unwrap_or_default().into(),
        }));
    }
    Ok(keys)
}

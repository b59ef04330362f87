//! `probes.parquet`: histograms of free space and layout over time, one row a bucket.
//!
//! | column | type | what |
//! | --- | --- | --- |
//! | `stage` | text | the stage's name |
//! | `probe` | int32 | 0-based |
//! | `operations`, `elapsed_ns` | int64 | operations and load time so far |
//! | `used_bytes`, `total_bytes`, `files` | int64 | use of the volume |
//! | `device_bytes_written` | int64, optional | since the load began |
//! | `histogram` | text | `free_space`, `extent`, `file`, or `none` for a probe without any |
//! | `bucket_bytes` | int64 | lower bound: sizes from it to below twice it |
//! | `count`, `bytes` | int64 | items in the bucket and the sum of their sizes |
//! | `trial` | text | the trial's id |
//! | `factor.PATH` | text | value of each factor of the study's matrix, as JSON where it is no text |

use std::sync::Arc;

use fsage_model::layout::SizeHistogram;
use fsage_model::record::{StageRecord, TrialRecord};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{Type, TypePtr};

/// The columns before those of the trial.
const SCHEMA: &str = "message probes {
    required binary stage (string);
    required int32 probe;
    required int64 operations;
    required int64 elapsed_ns;
    required int64 used_bytes;
    required int64 total_bytes;
    required int64 files;
    optional int64 device_bytes_written;
    required binary histogram (string);
    required int64 bucket_bytes;
    required int64 count;
    required int64 bytes;
}";

/// Columns as they are filled; `device` holds only the values that are there.
#[derive(Default)]
struct Columns {
    stage: Vec<ByteArray>,
    probe: Vec<i32>,
    /// operations, elapsed_ns, used_bytes, total_bytes, files
    state: [Vec<i64>; 5],
    device: Vec<i64>,
    device_present: Vec<i16>,
    histogram: Vec<ByteArray>,
    /// bucket_bytes, count, bytes
    bucket: [Vec<i64>; 3],
}

/// Columns that have one value in the whole file, so that files of several trials can be read as one table.
fn of_trial(record: &TrialRecord) -> Vec<(String, ByteArray)> {
    let factors = record.factors.iter().map(|(path, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (format!("factor.{path}"), ByteArray::from(text.as_str()))
    });
    std::iter::once(("trial".to_owned(), ByteArray::from(record.id.as_str()))).chain(factors).collect()
}

fn schema(of_trial: &[(String, ByteArray)]) -> Result<Type, ParquetError> {
    let text = |(name, _): &(String, ByteArray)| -> Result<TypePtr, ParquetError> {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::String))
            .build()
            .map(Arc::new)
    };
    let mut fields = parse_message_type(SCHEMA)?.get_fields().to_vec();
    fields.extend(of_trial.iter().map(text).collect::<Result<Vec<_>, _>>()?);
    Type::group_type_builder("probes").with_fields(fields).build()
}

/// The whole file.
///
/// # Errors
/// The Parquet writer's own.
pub fn bytes(record: &TrialRecord) -> Result<Vec<u8>, ParquetError> {
    let columns = fill(&record.stages);
    let of_trial = of_trial(record);
    let schema = Arc::new(schema(&of_trial)?);
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut buffer = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut buffer, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    text_column(&mut group, &columns.stage)?;
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int32Type>().write_batch(&columns.probe, None, None)?;
        column.close()?;
    }
    for values in &columns.state {
        number_column(&mut group, values, None)?;
    }
    number_column(&mut group, &columns.device, Some(&columns.device_present))?;
    text_column(&mut group, &columns.histogram)?;
    for values in &columns.bucket {
        number_column(&mut group, values, None)?;
    }
    for (_, value) in &of_trial {
        text_column(&mut group, &vec![value.clone(); columns.stage.len()])?;
    }
    group.close()?;
    writer.close()?;
    Ok(buffer)
}

fn text_column<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[ByteArray],
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<ByteArrayType>().write_batch(values, None, None)?;
        column.close()?;
    }
    Ok(())
}

fn number_column<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[i64],
    present: Option<&[i16]>,
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(values, present, None)?;
        column.close()?;
    }
    Ok(())
}

fn fill(stages: &[StageRecord]) -> Columns {
    let mut columns = Columns::default();
    let empty = SizeHistogram { count: vec![0], bytes: vec![0] };
    for stage in stages {
        let (name, probes) = (stage.name(), stage.probes());
        for (index, probe) in probes.iter().enumerate() {
            let free = probe.free_space.as_ref().map(|f| ("free_space", &f.histogram));
            let extents = probe.layout.as_ref().map(|l| ("extent", &l.extent_histogram));
            let files = probe.layout.as_ref().map(|l| ("file", &l.file_histogram));
            let mut histograms: Vec<(&str, &SizeHistogram)> =
                [free, extents, files].into_iter().flatten().collect();
            if histograms.is_empty() {
                histograms.push(("none", &empty));
            }
            for (histogram, sizes) in histograms {
                for (bucket, (count, bytes)) in sizes.count.iter().zip(&sizes.bytes).enumerate() {
                    columns.stage.push(name.into());
                    columns.probe.push(i32::try_from(index).unwrap_or(i32::MAX));
                    let state = [
                        probe.operations,
                        probe.elapsed_ns,
                        probe.used_bytes,
                        probe.total_bytes,
                        probe.files,
                    ];
                    for (column, value) in columns.state.iter_mut().zip(state) {
                        column.push(signed(value));
                    }
                    columns.device.extend(probe.device_bytes_written.map(signed));
                    columns.device_present.push(i16::from(probe.device_bytes_written.is_some()));
                    columns.histogram.push(histogram.into());
                    let lower =
                        u32::try_from(bucket).ok().and_then(|b| 1u64.checked_shl(b)).unwrap_or(u64::MAX);
                    for (column, value) in columns.bucket.iter_mut().zip([lower, *count, *bytes]) {
                        column.push(signed(value));
                    }
                }
            }
        }
    }
    columns
}

/// Parquet's integers are signed; no count or size here comes near the limit.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

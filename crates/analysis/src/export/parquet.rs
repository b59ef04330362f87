//! Parquet by its column writers (decision 0005): integers are INT64, numbers DOUBLE, text STRING. Rows are
//! held until a row group of [`GROUP_ROWS`] is full.

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;

use super::column::{Kind, Table};
use super::row::{Trial, Value};
use super::{EXPORT_VERSION, Rows};

/// Rows of a row group: some 15 MB while they are held.
const GROUP_ROWS: usize = 16_384;

type Out<'a> = Box<dyn Write + Send + 'a>;

pub(super) struct Parquet<'a> {
    writer: SerializedFileWriter<Out<'a>>,
    columns: Vec<Column>,
    rows: usize,
}

impl<'a> Parquet<'a> {
    pub(super) fn new(table: &Table, out: Out<'a>) -> io::Result<Self> {
        let columns = table.columns();
        let fields = columns.iter().map(|(name, kind, optional)| field(name, *kind, *optional).map(Arc::new));
        let fields = fields.collect::<Result<_, _>>().map_err(io::Error::other)?;
        let schema =
            Type::group_type_builder("export").with_fields(fields).build().map_err(io::Error::other)?;
        let version = KeyValue::new("fsage.export".to_owned(), EXPORT_VERSION.to_string());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(vec![version]))
            .build();
        let writer =
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
        let columns = columns.into_iter().map(|(_, kind, optional)| Column::new(kind, optional)).collect();
        Ok(Self { writer, columns, rows: 0 })
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for column in &mut self.columns {
            column.write(&mut group).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.rows = 0;
        Ok(())
    }
}

impl Rows for Parquet<'_> {
    fn trial(&mut self, _: &Trial<'_>) -> io::Result<()> {
        Ok(())
    }

    fn sample(&mut self, trial: &Trial<'_>, sample: &[Value<'_>]) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(trial.with(sample)) {
            column.push(value);
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write_group()?;
        self.writer.finish().map_err(failed)?;
        self.writer.inner_mut().flush()
    }
}

/// The error of the writer below, where it is one: who wrote the file tells a full disk from a closed pipe.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}

fn field(name: &str, kind: Kind, optional: bool) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Integer => (Physical::INT64, None),
        Kind::Number => (Physical::DOUBLE, None),
        Kind::Boolean => (Physical::BOOLEAN, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

/// Values of a column as they are collected; only those that are there.
enum Values {
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Boolean(Vec<bool>),
    Text(Vec<ByteArray>),
}

struct Column {
    values: Values,
    /// For each row whether its value is there; nothing where every value is.
    present: Option<Vec<i16>>,
}

impl Column {
    fn new(kind: Kind, optional: bool) -> Self {
        let values = match kind {
            Kind::Integer => Values::Integer(Vec::new()),
            Kind::Number => Values::Number(Vec::new()),
            Kind::Boolean => Values::Boolean(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
        };
        Self { values, present: optional.then(Vec::new) }
    }

    fn push(&mut self, value: &Value<'_>) {
        let there = match (&mut self.values, value) {
            (Values::Integer(values), Value::Integer(value)) => {
                values.push(*value);
                true
            }
            (Values::Number(values), Value::Number(value)) => {
                values.push(*value);
                true
            }
            (Values::Boolean(values), Value::Boolean(value)) => {
                values.push(*value);
                true
            }
            (Values::Text(values), Value::Text(text)) => {
                values.push(ByteArray::from(text.as_ref()));
                true
            }
            _ => false,
        };
        if let Some(present) = &mut self.present {
            present.push(i16::from(there));
        }
    }

    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let present = self.present.as_deref();
        match &mut self.values {
            Values::Integer(values) => batch::<Int64Type, W>(group, values, present)?,
            Values::Number(values) => batch::<DoubleType, W>(group, values, present)?,
            Values::Boolean(values) => batch::<BoolType, W>(group, values, present)?,
            Values::Text(values) => batch::<ByteArrayType, W>(group, values, present)?,
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
        Ok(())
    }
}

fn batch<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    present: Option<&[i16]>,
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, present, None)?;
        column.close()?;
    }
    values.clear();
    Ok(())
}

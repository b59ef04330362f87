//! CSV of operations: what export writes and import reads.

/// The first line of such a file.
pub const HEADING: &str = "time_s,kind,path,offset,length,target";

/// The first line of such a file of an older version, which is read as well.
pub const OLD_HEADING: &str = "time_s,operation,path,offset,length,target";

/// A field as it is written.
pub fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field.to_owned()
}

//! Packs the part of the chart library that few pages need: unpacked it is a third of a page.

use std::io::Write as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const SOLID: &str = "src/report/assets/plotly/plotly-gl3d.min.js";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={SOLID}");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&std::fs::read(SOLID)?)?;
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(folder.join("plotly-gl3d.gz.base64"), STANDARD.encode(packed.finish()?))
}

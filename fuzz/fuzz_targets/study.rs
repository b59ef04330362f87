//! Any text is a study or an error that can be shown.

#![no_main]

use std::path::Path;

use fsage_lab::study::{Consent, Overrides, parse};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Err(error) = parse(Path::new("study.toml"), text.to_owned(), &Overrides::default(), Consent::Below(None)) {
        assert!(!error.to_string().is_empty());
    }
});

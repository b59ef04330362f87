//! Exit code and hint of errors whose own rooms know nothing of the command line.

use fsage_model::problem::{EXIT_FAILED, EXIT_INTERNAL, EXIT_USAGE, Explain};

use crate::report::ReportError;

impl Explain for ReportError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotAStore { .. } => EXIT_USAGE,
            Self::Read { .. } => EXIT_FAILED,
            Self::Data { .. } => EXIT_INTERNAL,
        }
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}

//! Errors as the failures that the lab gets.

use fsage_model::protocol::{Failure, FailureKind};

use crate::host::chain;
use crate::layout::LayoutError;
use crate::load::LoadError;
use crate::location::LocationError;
use crate::lockstep::LockstepError;
use crate::replay::ReplayError;

macro_rules! failures {
    ($($error:ty: $errno:expr;)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let errno: fn(&$error) -> Option<i32> = $errno;
                let (errno, hint, kind) = (errno(&error), error.hint(), error.kind());
                Self { message: chain(&error), hint, errno, kind }
            }
        }
    )*};
}

failures! {
    LoadError: LoadError::errno;
    LocationError: LocationError::errno;
    LockstepError: LockstepError::errno;
    ReplayError: |_| None;
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Self {
        let errno = Some(error.errno()).filter(|&errno| errno != 0);
        let hint = error.hint().unwrap_or_default();
        Self { message: chain(&error), hint, errno, kind: FailureKind::Failed }
    }
}

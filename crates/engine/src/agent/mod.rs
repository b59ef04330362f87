//! The agent: takes requests off a byte stream and does them beside the file system under test.

use std::io::{Read, Write};

use crate::protocol::frame::FrameError;

/// Why the agent ended other than by the end of its input.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// What came in, or went out, was not a frame, or the stream failed.
    #[error("the stream to the lab is broken")]
    Stream(#[from] FrameError),
}

/// Serves requests until `input` ends or `Goodbye`.
///
/// # Errors
/// The stream carries garbage or fails.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), AgentError> {
    let _ = (input, output);
    Ok(())
}

//! A session without an agent: a closure answers.

use fsage_model::protocol::{Failure, Reply, Request};

use super::Incoming;

/// Answers a request; may pass on events and chunks first. `None` plays an agent that dies.
pub type Script = dyn FnMut(&Request, &mut dyn FnMut(Incoming)) -> Option<Result<Reply, Failure>> + Send;

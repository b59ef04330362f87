//! Runs of fio by the agent.

use std::path::Path;
use std::time::Duration;

use fsage_model::fio::FioRun;
use fsage_model::memory::MemoryGroup;
use fsage_model::protocol::call;
use fsage_model::size::Bytes;

use super::FioError;
use crate::run::error::TrialError;
use crate::run::observer::RunEvent;
use crate::run::stage::StageContext;
use crate::target::Incoming;
use crate::tools::Invocation;

/// How long a run of fio may take, what ends it, and what it may have of memory.
#[derive(Debug, Clone)]
pub(in crate::run) struct Limits {
    /// Time after which it counts as hanging.
    pub limit: Duration,
    /// Milliseconds of a round, over which rates are sampled; at least 1.
    pub round_ms: u64,
    /// Bytes read and written from which on it ends when its rate is steady; absent: it does not.
    pub steady_from: Option<u64>,
    /// The control group that it runs in; absent: the agent's own.
    pub memory: Option<MemoryGroup>,
}

/// Runs fio for a stage, with its device counted; `event` makes progress of what the agent tells meanwhile.
pub(in crate::run) fn ask(
    (stage, device): (&str, &Path),
    argv: Vec<String>,
    Limits { limit, round_ms, steady_from, memory }: Limits,
    event: impl Fn(&Incoming) -> Option<RunEvent>,
    context: &mut StageContext<'_>,
) -> Result<FioRun, TrialError> {
    if let Some(group) = &memory {
        context.command(stage, &in_group(Bytes(group.limit_bytes)));
    }
    context.command(stage, &line(argv.clone()));
    let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let ask = call::RunFio { argv, timeout_ms, round_ms, steady_from, device: device.to_owned(), memory };
    let answer = context.ask_followed(
        |session, _, incoming| session.call_with(ask, incoming),
        &mut |incoming, observer| {
            if let Some(event) = event(&incoming) {
                observer.event(event);
            }
        },
    );
    Ok(answer.map_err(FioError::from)?)
}

/// What a dry run says before commands whose sizes follow from the volume's.
pub(in crate::run) const SIZES: &str =
    "# sizes follow from the volume's, which is known when it is there; 1 MiB stands for each";

/// What is said before a command that runs with limited memory.
pub(in crate::run) fn in_group(limit: Bytes) -> String {
    format!("# in a control group whose memory is limited to {limit}:")
}

/// A command as a shell would read it.
pub(in crate::run) fn line(argv: Vec<String>) -> String {
    Invocation::new(argv, String::new(), Duration::ZERO).to_string()
}

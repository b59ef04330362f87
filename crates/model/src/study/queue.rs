//! Settings of a device's request queue and of its I/O scheduler.
//!
//! Names and units are the kernel's (Documentation/ABI/stable/sysfs-block; block/mq-deadline.c, block/bfq-iosched.c and
//! block/kyber-iosched.c for what stands in `iosched`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A parameter of a scheduler, with the values that the kernel takes as they are.
pub type Parameter = (&'static str, RangeInclusive<i64>);

/// Counts, at most.
const COUNT: i64 = 1_000_000;
/// Times in milliseconds, at most: what waits longer looks dead.
const MS: i64 = 60_000;

/// Parameters of schedulers that fsage sets, by the scheduler that has them. Not among them: `slice_idle`, which is
/// `slice_idle_us` in milliseconds; `strict_guarantees`, which changes that one; `async_depth`, which `nr_requests` changes.
pub const SCHEDULERS: &[(&str, &[Parameter])] = &[
    (
        "mq-deadline",
        &[
            ("fifo_batch", 0..=COUNT),
            ("front_merges", 0..=1),
            ("prio_aging_expire", 0..=MS),
            ("read_expire", 0..=MS),
            ("write_expire", 0..=MS),
            ("writes_starved", 0..=COUNT),
        ],
    ),
    (
        "bfq",
        &[
            ("back_seek_max", 0..=i32::MAX as i64),
            ("back_seek_penalty", 1..=COUNT),
            ("fifo_expire_async", 0..=MS),
            ("fifo_expire_sync", 0..=MS),
            ("low_latency", 0..=1),
            ("max_budget", 0..=i32::MAX as i64),
            ("slice_idle_us", 0..=1_000_000),
            ("timeout_sync", 1..=MS),
        ],
    ),
    ("kyber", &[("read_lat_nsec", 1..=10_000_000_000), ("write_lat_nsec", 1..=10_000_000_000)]),
];

/// Whether a scheduler has this parameter.
#[must_use]
pub fn is_parameter(name: &str) -> bool {
    SCHEDULERS.iter().flat_map(|(_, parameters)| *parameters).any(|(known, _)| *known == name)
}

/// Settings of the device's request queue (sysfs), changed for a trial and restored after it. Absent keys are
/// not changed, but a change of `scheduler` resets `nr_requests` and the parameters of both schedulers to the
/// kernel's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSpec {
    /// Maximum number of requests in the queue, at least 4; not for a real device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u32>,
    /// Maximum read-ahead of sequential reads in KiB, a multiple of 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ahead_kb: Option<u32>,
    /// Merging of requests: 0 all merges, 1 only simple merges, 2 none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nomerges: Option<u32>,
    /// CPU that completes a request: 0 any, 1 one of the group of the submitting CPU, 2 the submitting CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rq_affinity: Option<u32>,
    /// Scheduler parameters: name (`fifo_batch`, `slice_idle_us`, `read_lat_nsec`, …) → value in the kernel's
    /// units. Times in milliseconds must be whole kernel ticks: multiples of 20 always are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub iosched: BTreeMap<String, i64>,
}

/// Why a setting of the queue is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// No scheduler has this parameter.
    #[error("no scheduler has a parameter `{name}`")]
    Unknown {
        /// As it was asked for.
        name: String,
        /// Parameters that there are.
        known: Vec<&'static str>,
    },
    /// Another scheduler has it.
    #[error("`{scheduler}` has no parameter `{name}`; {owner} has")]
    OfAnother {
        /// The parameter.
        name: String,
        /// The scheduler that is chosen.
        scheduler: String,
        /// The one that has it.
        owner: &'static str,
    },
    /// It has no such value.
    #[error("{value} is not possible: from {} to {}", .range.start(), .range.end())]
    Value {
        /// As it was asked for.
        value: i64,
        /// What is possible.
        range: RangeInclusive<i64>,
    },
    /// The kernel counts in pages.
    #[error("{value} is no multiple of 4")]
    Page {
        /// As it was asked for.
        value: u32,
    },
}

impl QueueSpec {
    /// Whether nothing is to be set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is to be set: names below the device's `queue` folder, with values.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, i64)> {
        let own = self.own().into_iter().filter_map(|(name, value, _)| Some((name.to_owned(), value?)));
        let scheduler = self.iosched.iter().map(|(name, value)| (format!("iosched/{name}"), *value));
        own.chain(scheduler).collect()
    }

    /// Settings of the queue itself with the values that the kernel takes.
    fn own(&self) -> [(&'static str, Option<i64>, RangeInclusive<i64>); 4] {
        [
            ("nr_requests", self.nr_requests.map(i64::from), 4..=COUNT),
            ("read_ahead_kb", self.read_ahead_kb.map(i64::from), 0..=COUNT),
            ("nomerges", self.nomerges.map(i64::from), 0..=2),
            ("rq_affinity", self.rq_affinity.map(i64::from), 0..=2),
        ]
    }

    /// What is wrong with it beside this scheduler (`None`: the kernel's choice), each with its key.
    #[must_use]
    pub fn problems(&self, scheduler: Option<&str>) -> Vec<(String, QueueError)> {
        let mut problems = Vec::new();
        for (name, value, range) in self.own() {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                problems.push((name.to_owned(), QueueError::Value { value, range }));
            }
        }
        if let Some(value) = self.read_ahead_kb.filter(|value| value % 4 != 0) {
            problems.push(("read_ahead_kb".to_owned(), QueueError::Page { value }));
        }
        let wrong = |(name, value): (&String, &i64)| {
            Some((format!("iosched.{name}"), parameter(name, *value, scheduler)?))
        };
        problems.extend(self.iosched.iter().filter_map(wrong));
        problems
    }
}

/// What is wrong with a parameter of the scheduler.
fn parameter(name: &str, value: i64, scheduler: Option<&str>) -> Option<QueueError> {
    let find = |parameters: &[Parameter]| parameters.iter().find(|(known, _)| *known == name).cloned();
    let mut owners = SCHEDULERS.iter().filter_map(|(owner, parameters)| Some((*owner, find(parameters)?.1)));
    let Some((owner, range)) = owners.next() else {
        let known =
            SCHEDULERS.iter().flat_map(|(_, parameters)| *parameters).map(|(name, _)| *name).collect();
        return Some(QueueError::Unknown { name: name.to_owned(), known });
    };
    // No two schedulers share the name of a parameter.
    if let Some(scheduler) = scheduler.filter(|scheduler| *scheduler != owner) {
        let (name, scheduler) = (name.to_owned(), scheduler.to_owned());
        return Some(QueueError::OfAnother { name, scheduler, owner });
    }
    (!range.contains(&value)).then_some(QueueError::Value { value, range })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: serde_json::Value) -> QueueSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn settings_are_named_as_below_the_queue_folder() {
        let spec = spec(json!({"nr_requests": 64, "read_ahead_kb": 8, "iosched": {"fifo_batch": 1}}));
        let expected = [("nr_requests", 64), ("read_ahead_kb", 8), ("iosched/fifo_batch", 1)];
        assert_eq!(spec.settings(), expected.map(|(name, value)| (name.to_owned(), value)));
        assert!(!spec.is_empty() && spec.problems(None).is_empty());
        assert!(spec.problems(Some("mq-deadline")).is_empty());
        assert_eq!(serde_json::to_value(QueueSpec::default()).unwrap(), json!({}));
    }

    #[test]
    fn no_two_schedulers_share_a_parameter() {
        let mut names: Vec<&str> =
            SCHEDULERS.iter().flat_map(|(_, parameters)| *parameters).map(|(name, _)| *name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert!(
            names.len() == all && names.iter().all(|name| is_parameter(name)) && !is_parameter("slice_idle")
        );
    }

    #[test]
    fn what_the_scheduler_lacks_and_what_is_out_of_range_is_named() {
        let spec = spec(json!({
            "nr_requests": 3, "nomerges": 3, "read_ahead_kb": 5,
            "iosched": {"fifo_batch": 1, "slice_idle_us": -1, "quantum": 8},
        }));
        let found = spec.problems(Some("bfq"));
        let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "nr_requests",
                "nomerges",
                "read_ahead_kb",
                "iosched.fifo_batch",
                "iosched.quantum",
                "iosched.slice_idle_us"
            ]
        );
        assert_eq!(found[0].1.to_string(), "3 is not possible: from 4 to 1000000");
        assert_eq!(found[3].1.to_string(), "`bfq` has no parameter `fifo_batch`; mq-deadline has");
        assert!(
            matches!(&found[4].1, QueueError::Unknown { name, known } if name == "quantum" && known.len() > 10)
        );
    }
}

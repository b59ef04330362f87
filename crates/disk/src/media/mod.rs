//! Models of what a disk is made of.
//!
//! A model has a clock of its own. Requests that wait together come as one batch, all at the same moment; the
//! model serves them in the order a device of its kind would (command queueing), and says when each is done.
//! It never sees data, only places, and it keeps no real time: the same batches give the same times and
//! counters, to the nanosecond.
//!
//! **Queueing rule.** A batch arrives at the disk's clock, which stands at the time the last answered request
//! was done. A load that waits for each answer before it asks again is served one request at a time; one that
//! keeps a queue has its queue served together. Time in which the host thinks does not pass in the model,
//! unless CPU time is counted (`cpu = "serial"`): then a batch arrives so much later.
//!
//! **Rest.** How long a disk takes to turn to a sector follows from when it is asked, and so from all that
//! was asked before: a single request more or less shifts everything after it by part of a turn. A measure
//! therefore begins with the medium at rest ([`Model::rest`]), and what it takes follows from its own
//! requests.
//!
//! A study or a flag names a medium by a [`MediumSpec`](fsage_model::medium::MediumSpec): a preset's name, or
//! a table with overrides. [`Resolve::resolve`] makes the [`Medium`] for a disk of a given size.

mod array;
pub mod hdd;
mod interface;
mod kind;
/// What `parameters!` makes in the model for the example of docs/adding-a-medium.md.
#[cfg(test)]
mod example {
    pub struct Parameters {
        pub latency_ns: u64,
        pub interface_bytes_per_s: u64,
        pub parallel: u64,
    }
}
/// The example.
#[cfg(test)]
#[path = "../../../../docs/examples/network.rs"]
mod network;
mod number;
mod partition;
pub mod ram;
pub mod sd;
pub mod ssd;

pub use array::Array;
pub use kind::{Medium, Resolve};
pub use partition::Partition;
pub use ram::Ram;

use fsage_model::disk::DiskCounter;

use crate::request::{Operation, Request};

/// What every medium does.
pub trait Model {
    /// Serves the requests that wait together at `now_ns` and sets when each is done; `done_ns` is as long as
    /// `batch`. Never before `now_ns`. Requests are in the order of arrival; a write before a read of the
    /// same place is its past.
    ///
    /// From call to call `now_ns` does not go back; an earlier one counts as the last. It may be before
    /// answers that were given: then the requests queue behind what is being done, and a load that keeps a
    /// queue of its own can be followed request by request.
    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]);

    /// Brings the medium to rest and gives when it is: what waits in its buffer is written, and what follows
    /// takes as long as after any other rest, as far as that does not depend on what the medium holds. Never
    /// before `now_ns`.
    fn rest(&mut self, now_ns: u64) -> u64 {
        let mut done_ns = [now_ns];
        self.serve(now_ns, &[Request::new(Operation::Flush, 0, 0)], &mut done_ns);
        done_ns[0].max(now_ns)
    }

    /// Whether a read takes what it takes because of how the place was written: places that were never
    /// written are not read at all.
    fn reads_follow_writes(&self) -> bool {
        false
    }

    /// What it counted.
    fn counters(&self) -> Vec<DiskCounter>;
}

/// The parameters of a hard disk preset.
#[cfg(test)]
fn hdd_parameters(name: &str) -> fsage_model::medium::hdd::Parameters {
    match fsage_model::medium::MediumSpec::named(name).unwrap().resolved() {
        Ok(fsage_model::medium::Parameters::Hdd(parameters)) => parameters,
        other => panic!("{name}: {other:?}"),
    }
}

/// The parameters of an SSD preset.
#[cfg(test)]
fn ssd_parameters(name: &str) -> fsage_model::medium::ssd::Parameters {
    match fsage_model::medium::MediumSpec::named(name).unwrap().resolved() {
        Ok(fsage_model::medium::Parameters::Ssd(parameters)) => parameters,
        other => panic!("{name}: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::medium::{MediumSpec, presets};

    use super::*;

    #[test]
    fn parameters_that_contradict_each_other_are_refused_with_a_hint() {
        for (flag, expected) in [
            ("hdd-7200,average_seek_ns=17000000", "no rising seek curve"),
            ("hdd-7200,inner_track_bytes=2000000", "is more than outer_track_bytes"),
            ("hdd-7200,average_seek_write_ns=18000000", "no rising seek curve before writes"),
            ("hdd-7200,head_switch_ns=9000000", "a turn of the platters"),
            ("smr,media_cache_bytes=40000000", "has no room for two bands"),
            ("ssd,page_bytes=6000", "not a multiple of mapping_bytes"),
            ("sd,unit_bytes=100000", "not a multiple of page_bytes"),
        ] {
            let error = flag.parse::<MediumSpec>().unwrap().resolve(1 << 30).unwrap_err();
            assert!(error.to_string().contains(expected), "{flag}: {error}");
            assert!(error.hint().is_some(), "{flag}");
        }
        let large = "hdd-7200".parse::<MediumSpec>().unwrap().resolve(1 << 40).unwrap_err();
        assert!(large.to_string().contains("does not fit on the drive's"), "{large}");
        assert!(large.hint().is_some_and(|hint| hint.contains("smaller volume")), "{large:?}");
    }

    #[test]
    fn every_preset_resolves_and_says_what_it_is() {
        for preset in presets() {
            let spec = MediumSpec::named(preset.name).unwrap();
            spec.resolve(1 << 30).unwrap();
            assert!(!preset.summary.is_empty() && !preset.summary.contains('\n'));
            let parameters = spec.parameters();
            assert_eq!(parameters.is_empty(), preset.name == "ram");
            assert!(parameters.iter().all(|p| !p.summary.is_empty() && !p.value.is_empty()));
        }
    }
}

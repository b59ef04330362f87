//! The models of the kinds of media: one file and one line each, beside those of the parameters
//! ([`fsage_model::medium::kind`]).

use fsage_model::disk::DiskCounter;
use fsage_model::extent::Extent;
use fsage_model::medium::{At, MediumError, MediumSpec, Parameters, PartitionSpec, partition};

use super::{Model, Partition, Ram};
use crate::request::Request;

/// Makes the registry.
macro_rules! media {
    ($($(#[doc = $about:literal])+ $Name:ident($module:ident);)+) => {
        /// Any medium.
        #[derive(Debug, Clone)]
        pub enum Medium {
            /// Costs nothing.
            Ram(Ram),
            $($(#[doc = $about])+ $Name(Box<super::$module::$Name>),)+
        }

        /// The model of a disk of that size; else what contradicts what, and what to change.
        fn medium(parameters: &Parameters, size_bytes: u64) -> Result<Medium, (String, String)> {
            match parameters {
                Parameters::Ram => Ok(Medium::Ram(Ram)),
                $(Parameters::$Name(parameters) => super::$module::$Name::new(parameters, size_bytes)
                    .map(|model| Medium::$Name(Box::new(model)))
                    .map_err(|error| (error.to_string(), error.hint())),)+
            }
        }

        impl Model for Medium {
            fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
                match self {
                    Self::Ram(ram) => ram.serve(now_ns, batch, done_ns),
                    $(Self::$Name(model) => model.serve(now_ns, batch, done_ns),)+
                }
            }

            fn rest(&mut self, now_ns: u64) -> u64 {
                match self {
                    Self::Ram(ram) => ram.rest(now_ns),
                    $(Self::$Name(model) => model.rest(now_ns),)+
                }
            }

            fn counters(&self) -> Vec<DiskCounter> {
                match self {
                    Self::Ram(ram) => ram.counters(),
                    $(Self::$Name(model) => model.counters(),)+
                }
            }

            fn reads_follow_writes(&self) -> bool {
                match self {
                    Self::Ram(ram) => ram.reads_follow_writes(),
                    $(Self::$Name(model) => model.reads_follow_writes(),)+
                }
            }
        }
    };
}

/// Making the model that a specification describes.
pub trait Resolve {
    /// The drive, with a volume of that size at its place.
    ///
    /// # Errors
    /// When the parameters contradict each other, or the volume does not fit.
    fn resolve(&self, size_bytes: u64) -> Result<Partition, MediumError>;

    /// The drive with these partitions, which follow one another in the space that is served.
    ///
    /// # Errors
    /// When the parameters contradict each other, partitions overlap, or one is not within the drive.
    fn partitioned(&self, partitions: &[PartitionSpec]) -> Result<Partition, MediumError>;
}

impl Resolve for MediumSpec {
    fn resolve(&self, size_bytes: u64) -> Result<Partition, MediumError> {
        let preset = self.preset().name;
        let impossible = |(problem, hint)| MediumError::Impossible { preset, problem, hint };
        let parameters = self.resolved()?;
        let capacity_bytes = parameters.capacity_bytes().unwrap_or(size_bytes);
        let start_bytes = self.at().start_bytes(size_bytes, capacity_bytes).map_err(|error| {
            impossible((
                error.to_string(),
                "take a smaller volume, another place, or a larger drive".to_owned(),
            ))
        })?;
        let drive = medium(&parameters, capacity_bytes).map_err(impossible)?;
        Ok(Partition::new(drive, vec![Extent { start_bytes, size_bytes }]))
    }

    fn partitioned(&self, partitions: &[PartitionSpec]) -> Result<Partition, MediumError> {
        let preset = self.preset().name;
        let impossible = |(problem, hint)| MediumError::Impossible { preset, problem, hint };
        let said = |problem: &str, hint: &str| impossible((problem.to_owned(), hint.to_owned()));
        if partitions.is_empty() {
            return Err(said("the drive has no partition", "give it at least one"));
        }
        if self.at() != At::Outer {
            return Err(said("`at` is the position of one volume", "give each partition its own position"));
        }
        let parameters = self.resolved()?;
        let capacity_bytes = parameters.capacity_bytes();
        let extents = partition::place(partitions, capacity_bytes)
            .map_err(|error| said(&error.to_string(), error.hint()))?;
        let all_bytes = extents.iter().map(|extent| extent.size_bytes).sum();
        let drive = medium(&parameters, capacity_bytes.unwrap_or(all_bytes)).map_err(impossible)?;
        Ok(Partition::new(drive, extents))
    }
}

// Every kind, one line each: the model, and its file.
media! {
    /// A hard disk.
    Hdd(hdd);
    /// A solid state drive.
    Ssd(ssd);
    /// A memory card.
    Sd(sd);
}

#[cfg(test)]
mod tests {
    use crate::media::Model as _;
    use crate::media::example::Parameters;
    use crate::media::network::Network;
    use crate::request::{Operation, Request};

    #[test]
    fn the_example_of_the_guide_is_a_model_like_any_other() {
        let parameters =
            |parallel| Parameters { latency_ns: 1_000_000, interface_bytes_per_s: 1_000_000_000, parallel };
        let mut medium = Network::new(&parameters(2), 1 << 30).unwrap();
        let mut done = [0; 4];
        medium.serve(0, &[Request::new(Operation::Read, 0, 1_000_000); 4], &mut done);
        assert_eq!(done, [2_000_000, 3_000_000, 4_000_000, 5_000_000]);
        assert_eq!(medium.counters()[0].name, "latency_ns");
        let error = Network::new(&parameters(3), 1 << 30).unwrap_err();
        assert_eq!(error.hint(), "set parallel to 4");
    }
}

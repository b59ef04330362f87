//! A drive that a fault makes slower as a whole: whatever it is asked for takes so many times as long, to the
//! nanosecond that each request is rounded by.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use fsage_disk::disk::{Disk, DiskOptions};
use fsage_disk::fault::Faults;
use fsage_disk::media::Resolve as _;
use fsage_disk::request::{Data, Operation, Request, Transfer};
use fsage_model::fault::{FaultSpec, SlowSpec};
use fsage_model::medium::MediumSpec;

const SIZE: u64 = 1 << 30;

/// Nanoseconds that a tree of small, neighbouring and scattered reads and writes takes.
fn took_ns(medium: &str, factor: Option<f64>) -> u64 {
    let medium = MediumSpec::named(medium).unwrap().resolve(SIZE).unwrap();
    let mut disk = Disk::new(&DiskOptions::new(SIZE), Box::new(medium)).unwrap();
    if let Some(factor) = factor {
        let slow = SlowSpec { rate: Some(1.0), factor: Some(factor), ..SlowSpec::default() };
        let spec = FaultSpec { slow_region: vec![slow], ..FaultSpec::default() };
        disk.set_faults(Faults::new(&spec, SIZE).unwrap());
    }
    let mut data = vec![0; 64 << 10];
    for n in 0..400_u64 {
        let offset = if n % 5 == 0 { n * 7_919 % 4096 * (256 << 10) } else { n * (64 << 10) };
        let request = |operation| Request::new(operation, offset, 64 << 10);
        if n % 3 == 0 {
            disk.submit(&mut [Transfer::new(request(Operation::Write), Data::Out(&data))]);
        } else {
            disk.submit(&mut [Transfer::new(request(Operation::Read), Data::In(&mut data))]);
        }
    }
    disk.clock_ns()
}

#[test]
fn everything_takes_so_many_times_as_long() {
    for medium in ["hdd-7200", "ssd"] {
        let own = took_ns(medium, None);
        assert_eq!(took_ns(medium, Some(1.0)), own, "{medium}: a factor of 1 changes nothing");
        for (factor, permille) in [(1.25, 1250), (2.0, 2000)] {
            let slow = took_ns(medium, Some(factor));
            let wanted = own * permille / 1000;
            assert!(slow <= wanted && wanted - slow <= 400, "{medium}, {factor}: {slow} of {wanted}");
        }
    }
}

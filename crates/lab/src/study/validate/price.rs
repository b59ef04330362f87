//! Media to price (`price`): each has to be of the class of a volume that keeps its log, and large enough
//! for it.

use fsage_disk::media::Resolve as _;
use fsage_disk::price::check_class;
use fsage_model::medium::MediumSpec;
use fsage_model::problem::Explain as _;
use fsage_model::study::{DiskSpec, VolumeSpec};

use super::volumes;
use crate::study::Cell;
use crate::study::schema::Problem;

/// Problems of the study's list; one list holds for all cells.
pub(in crate::study) fn check(cells: &[Cell]) -> Vec<Problem> {
    let Some(media) = cells.first().map(|cell| &cell.spec.price) else { return Vec::new() };
    let placed: Vec<_> = cells.iter().flat_map(|cell| volumes::of(&cell.spec)).collect();
    let logged: Vec<&DiskSpec> = placed
        .iter()
        .filter_map(|placed| match &placed.volume {
            VolumeSpec::Disk(disk) if disk.log => Some(&**disk),
            VolumeSpec::Disk(_)
            | VolumeSpec::Loop { .. }
            | VolumeSpec::Device { .. }
            | VolumeSpec::Partition { .. } => None,
        })
        .collect();
    if logged.is_empty() && !media.is_empty() {
        let hint = Some("give the volume `log = true`; only virtual disks keep logs".to_owned());
        let what = "no volume keeps the log of its requests, so there is nothing to price";
        return vec![Problem { hint, ..Problem::new(&["price".to_owned()], what) }];
    }
    if let Some(share) = logged.iter().find_map(|disk| disk.share.as_ref()).filter(|_| !media.is_empty()) {
        let hint = Some("give each volume a disk of its own, or leave `price` out".to_owned());
        let what =
            format!("volumes share the drive `{}`, and only logs of one volume are priced", share.drive);
        return vec![Problem { hint, ..Problem::new(&["price".to_owned()], what) }];
    }
    if let Some(disk) =
        logged.iter().find(|disk| disk.drives > 1 || disk.fast.is_some()).filter(|_| !media.is_empty())
    {
        let hint = Some("leave `price` out, or use one drive".to_owned());
        let what = format!(
            "a volume has {} drives, and only logs of one drive are priced",
            disk.drives + u32::from(disk.fast.is_some())
        );
        return vec![Problem { hint, ..Problem::new(&["price".to_owned()], what) }];
    }
    let of = |(index, medium): (usize, &MediumSpec)| {
        one(&media[..index], medium, &logged).map(|problem| at(index, problem))
    };
    media.iter().enumerate().filter_map(of).collect()
}

fn at(index: usize, (message, hint): (String, Option<String>)) -> Problem {
    Problem { hint, ..Problem::new(&["price".to_owned(), index.to_string()], message) }
}

/// What is wrong with a medium that comes after `before`, and what helps.
fn one(before: &[MediumSpec], medium: &MediumSpec, logged: &[&DiskSpec]) -> Option<(String, Option<String>)> {
    if before.contains(medium) {
        return Some((format!("`{medium}` is given twice"), None));
    }
    let mut of_class = logged.iter().filter(|disk| check_class(&disk.medium, medium).is_ok()).peekable();
    if of_class.peek().is_none() {
        let error = check_class(&logged.first()?.medium, medium).err()?;
        return Some((error.to_string(), error.hint()));
    }
    of_class.find_map(|disk| {
        let error = medium.placed(disk.drive().at()).resolve(disk.size.0).err()?;
        Some((error.to_string(), error.hint()))
    })
}

#[cfg(test)]
mod tests {
    use crate::study::{Consent, Overrides, parse};

    fn said(price: &str, log: bool) -> Result<(), String> {
        let text = format!(
            r#"name = "priced"
title = "t"
question = "q"
price = {price}
[volume]
medium = "hdd-7200"
size = "1GiB"
log = {log}
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 10
workload = {{ kind = "drift", slots = 50, file_size = {{ kind = "fixed", size = "8KiB" }} }}
"#
        );
        let read = parse("priced.toml".as_ref(), text, &Overrides::default(), Consent::Given);
        read.map(drop).map_err(|error| fsage_model::problem::Problem::from(error).render(false))
    }

    #[test]
    fn media_of_the_class_of_a_logged_volume_are_priced() {
        assert_eq!(said(r#"["hdd-20tb", "smr", { preset = "hdd-7200", rpm = 5400 }]"#, true), Ok(()));
        assert_eq!(said("[]", false), Ok(()));
    }

    #[test]
    fn media_that_cannot_be_priced_are_refused_with_the_reason() {
        for (price, log, wanted) in [
            (r#"["smr"]"#, false, "no volume keeps the log"),
            (r#"["ssd"]"#, true, "the one is rotational, the other is not rotational"),
            (r#"["smr", "smr"]"#, true, "is given twice"),
            (r#"["hdd-7300"]"#, true, "there is no medium `hdd-7300`"),
            (r#"["hdd-7200,rpm=1"]"#, true, "rpm"),
        ] {
            let error = said(price, log).unwrap_err();
            assert!(error.contains(wanted) && error.contains("price"), "{price}: {error}");
        }
    }
}

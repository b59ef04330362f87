//! What discards a device, and with that undoes its preconditioning.

use fsage_model::filesystem::BARE;
use fsage_model::study::FileSystemSpec;

use super::{Driver as _, btrfs, built_in};

/// Whether mkfs of a file system discards the device, and with it what preconditioning wrote. Of a described one nobody knows.
#[must_use]
pub(crate) fn mkfs_discards(file_system: &FileSystemSpec) -> bool {
    let kind = &file_system.kind;
    let own = || file_system.options.get(kind).and_then(|options| options.mkfs.get("discard"));
    *kind != BARE.name && (built_in(kind).is_none() || own() != Some(&serde_json::Value::Bool(false)))
}

/// Whether a file system discards what it frees while it is mounted: where it is asked to, and btrfs by itself since
/// Linux 6.2.
#[must_use]
pub(crate) fn mount_discards(file_system: &FileSystemSpec) -> bool {
    let kind = &file_system.kind;
    let own = file_system.options.get(kind).map_or(&[][..], |options| options.mount.as_slice());
    let has = |name: &str| {
        let mut options = own.iter().flat_map(|options| options.split(','));
        options.any(|option| option.split('=').next() == Some(name))
    };
    has("discard") || (*kind == btrfs::BTRFS.name() && !has("nodiscard"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_to_discard_does_and_btrfs_unless_it_is_told_not_to() {
        let spec = |text: &str| serde_json::from_str::<FileSystemSpec>(text).unwrap();
        for (text, discards) in [
            (r#"{"kind": "ext4"}"#, false),
            (r#"{"kind": "ext4", "options": {"ext4": {"mount": ["noatime", "discard"]}}}"#, true),
            (r#"{"kind": "ext4", "options": {"ext4": {"mount": ["noatime,discard"]}}}"#, true),
            (r#"{"kind": "ext4", "options": {"ext4": {"mount": ["nodiscard"]}}}"#, false),
            (r#"{"kind": "ext4", "options": {"btrfs": {"mount": ["discard"]}}}"#, false),
            (r#"{"kind": "btrfs"}"#, true),
            (r#"{"kind": "btrfs", "options": {"btrfs": {"mount": ["nodiscard"]}}}"#, false),
            (r#"{"kind": "btrfs", "options": {"btrfs": {"mount": ["discard=async"]}}}"#, true),
            (r#"{"kind": "bare"}"#, false),
        ] {
            assert_eq!(mount_discards(&spec(text)), discards, "{text}");
        }
    }
}

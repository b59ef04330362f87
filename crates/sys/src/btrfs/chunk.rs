//! Chunks: which stretch of btrfs' own addresses lies where on the devices (`struct btrfs_chunk`).

use crate::bytes::{le16_at, le64_at};

const DATA: u64 = 1;
const RAID0: u64 = 1 << 3;
const RAID10: u64 = 1 << 6;
const RAID5: u64 = 1 << 7;
const RAID6: u64 = 1 << 8;
const RAID1: u64 = 1 << 4;
const DUP: u64 = 1 << 5;
const RAID1C3: u64 = 1 << 9;
const RAID1C4: u64 = 1 << 10;
const STRIPES_AT: usize = 48;
const STRIPE_BYTES: usize = 32;

/// One block group's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// First byte in btrfs' own addresses.
    pub logical: u64,
    /// Bytes; never 0, and the end fits into 64 bits.
    pub length: u64,
    /// Unit in which striped profiles go round; never 0.
    pub stripe_bytes: u64,
    /// What it holds and how many copies: `BTRFS_BLOCK_GROUP_…`.
    pub profile: u64,
    /// Stripes that together hold one copy of neighbouring data on RAID10.
    pub sub_stripes: u64,
    /// Never empty.
    pub stripes: Vec<Stripe>,
}

/// A chunk's part of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    /// btrfs' number of the device.
    pub device: u64,
    /// Byte offset on it.
    pub offset: u64,
}

impl Chunk {
    /// Decodes the body of a chunk item; `None` when it is invalid.
    #[must_use]
    pub fn decode(logical: u64, body: &[u8]) -> Option<Self> {
        let stripe = |index: usize| {
            let at = STRIPES_AT + index * STRIPE_BYTES;
            Some(Stripe { device: le64_at(body, at)?, offset: le64_at(body, at + 8)? })
        };
        let count = usize::from(le16_at(body, 44)?);
        let chunk = Self {
            logical,
            length: le64_at(body, 0)?,
            stripe_bytes: le64_at(body, 16)?,
            profile: le64_at(body, 24)?,
            sub_stripes: u64::from(le16_at(body, 46)?).max(1),
            stripes: (0..count).map(stripe).collect::<Option<_>>()?,
        };
        let sensible = chunk.length > 0 && chunk.stripe_bytes > 0 && count > 0;
        (sensible && logical.checked_add(chunk.length).is_some()).then_some(chunk)
    }

    /// First byte behind it.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.logical.saturating_add(self.length)
    }

    /// Whether file data may lie in it (true also for groups that mix data and metadata).
    #[must_use]
    pub const fn is_data(&self) -> bool {
        self.profile & DATA != 0
    }

    /// Bytes of device that a byte takes, for the mirroring profiles; 1 for all others.
    #[must_use]
    pub const fn copies(&self) -> u64 {
        match self.profile {
            profile if profile & RAID1C4 != 0 => 4,
            profile if profile & RAID1C3 != 0 => 3,
            profile if profile & (RAID1 | DUP | RAID10) != 0 => 2,
            _ => 1,
        }
    }

    /// Stripes that hold different data.
    fn data_stripes(&self) -> u64 {
        let stripes = u64::try_from(self.stripes.len()).unwrap_or(u64::MAX);
        let different = match self.profile {
            profile if profile & RAID0 != 0 => stripes,
            profile if profile & RAID10 != 0 => stripes / self.sub_stripes,
            profile if profile & RAID5 != 0 => stripes.saturating_sub(1),
            profile if profile & RAID6 != 0 => stripes.saturating_sub(2),
            _ => 1,
        };
        different.max(1)
    }

    /// Device and byte offset of every copy of an address, where each copy lies in one piece; empty for
    /// striped profiles, whose neighbouring addresses are not neighbours on the device, and outside of the
    /// chunk.
    pub fn copies_of(&self, logical: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        const STRIPED: u64 = RAID0 | RAID10 | RAID5 | RAID6;
        let within = logical.checked_sub(self.logical).filter(|within| *within < self.length);
        let within = within.filter(|_| self.profile & STRIPED == 0);
        let place = |stripe: &Stripe, within| Some((stripe.device, stripe.offset.checked_add(within)?));
        self.stripes.iter().filter_map(move |stripe| place(stripe, within?))
    }

    /// Device and byte offset of the first copy of an address; `None` outside of the chunk.
    #[must_use]
    pub fn place(&self, logical: u64) -> Option<(u64, u64)> {
        let within = logical.checked_sub(self.logical).filter(|within| *within < self.length)?;
        let columns = self.data_stripes();
        let (index, offset) = if columns == 1 {
            (0, within)
        } else {
            let (row, column) = (within / self.stripe_bytes / columns, within / self.stripe_bytes % columns);
            let first = if self.profile & RAID10 != 0 { column * self.sub_stripes } else { column };
            (first, row * self.stripe_bytes + within % self.stripe_bytes)
        };
        let stripe = self.stripes.get(usize::try_from(index).ok()?)?;
        Some((stripe.device, stripe.offset.checked_add(offset)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn chunk(profile: u64, stripes: &[(u64, u64)], sub_stripes: u16) -> Chunk {
        let mut body = Vec::new();
        for field in [64 * MIB, 2, 65536, profile] {
            body.extend(u64::to_le_bytes(field));
        }
        body.extend([0; 12]);
        body.extend(u16::try_from(stripes.len()).unwrap().to_le_bytes());
        body.extend(sub_stripes.to_le_bytes());
        for (device, offset) in stripes {
            body.extend(device.to_le_bytes());
            body.extend(offset.to_le_bytes());
            body.extend([0; 16]);
        }
        let chunk = Chunk::decode(1000 * MIB, &body).unwrap();
        assert!(
            (0..body.len())
                .all(|end| Chunk::decode(1000 * MIB, &body[..end]).is_none_or(|_| end >= body.len() - 16))
        );
        chunk
    }

    #[test]
    fn places_follow_the_profile() {
        let single = chunk(DATA, &[(1, 5 * MIB)], 0);
        assert_eq!(single.place(1003 * MIB), Some((1, 8 * MIB)));
        assert_eq!((single.place(999 * MIB), single.place(1064 * MIB)), (None, None));
        let dup = chunk(DATA | DUP, &[(1, 5 * MIB), (1, 500 * MIB)], 0);
        assert_eq!((dup.place(1003 * MIB), dup.copies()), (Some((1, 8 * MIB)), 2));
        assert!(dup.copies_of(1003 * MIB).eq([(1, 8 * MIB), (1, 503 * MIB)]));
        assert_eq!((dup.copies_of(999 * MIB).count(), dup.copies_of(1064 * MIB).count()), (0, 0));
        let raid0 = chunk(DATA | RAID0, &[(1, MIB), (2, 9 * MIB)], 0);
        assert_eq!(raid0.place(1000 * MIB + 65536 + 7), Some((2, 9 * MIB + 7)));
        assert_eq!(raid0.place(1000 * MIB + 2 * 65536), Some((1, MIB + 65536)));
        assert_eq!(raid0.copies_of(1000 * MIB).count(), 0);
        let raid10 = chunk(DATA | RAID10, &[(1, 0), (2, 0), (3, 0), (4, 0)], 2);
        assert_eq!(raid10.place(1000 * MIB + 65536), Some((3, 0)));
        let raid5 = chunk(DATA | RAID5, &[(1, 0), (2, 0), (3, 0)], 0);
        assert_eq!(raid5.place(1000 * MIB + 3 * 65536), Some((2, 65536)));
    }
}

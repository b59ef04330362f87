//! Where a byte of the disk is on the platters.
//!
//! Zones of equal track size, outermost first; in a zone cylinder by cylinder, in a cylinder surface by
//! surface. Every track is skewed against the one before by just the time that it takes to switch to it, so
//! that a transfer over a track's end continues without losing a turn. Two consequences carry the whole
//! model:
//!
//! - the *stream time* of a byte, the time the head needs from byte 0 to it when nothing interrupts it, also
//!   tells the byte's angle (modulo one turn);
//! - the time of any contiguous transfer is the difference of two stream times, whatever it crosses.
//!
//! Known limits: sectors are as long as bytes (a transfer may begin anywhere), no defects are remapped, and
//! the time of a turn is a whole number of nanoseconds (7,200 rpm: 8,333,333 ns, off by 4 in 10^8).

use fsage_model::medium::hdd::Parameters;

use crate::media::number::scale;

/// A place on the platters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Location {
    pub byte: u64,
    pub cylinder: u64,
    pub surface: u64,
    /// Time from byte 0 to here without a break, with every switch of track.
    pub stream_ns: u64,
    /// The same without the switches: only the time that data passes under the head.
    pub media_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    start: Location,
    track_bytes: u64,
}

/// The zones, and how far apart their cylinders are.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    surfaces: u64,
    turn_ns: u64,
    head_switch_ns: u64,
    cylinder_switch_ns: u64,
    cylinders: u64,
}

/// Nanoseconds of one turn.
pub(super) const fn turn_ns(rpm: u64) -> u64 {
    60_000_000_000 / rpm
}

impl Geometry {
    /// The geometry of the disk that the parameters describe.
    pub(super) fn new(parameters: &Parameters) -> Self {
        let mut geometry = Self {
            zones: Vec::new(),
            surfaces: parameters.surfaces,
            turn_ns: turn_ns(parameters.rpm),
            head_switch_ns: parameters.head_switch_ns,
            cylinder_switch_ns: parameters.cylinder_switch_ns,
            cylinders: parameters.cylinders,
        };
        let mut start = Location { byte: 0, cylinder: 0, surface: 0, stream_ns: 0, media_ns: 0 };
        for (cylinders, track_bytes) in parameters.zone_sizes() {
            geometry.zones.push(Zone { start, track_bytes });
            start = Location {
                byte: start.byte.saturating_add(cylinders * geometry.surfaces * track_bytes),
                cylinder: start.cylinder + cylinders,
                surface: 0,
                stream_ns: start.stream_ns.saturating_add(cylinders * geometry.cylinder_ns()),
                media_ns: start.media_ns.saturating_add(cylinders * geometry.surfaces * geometry.turn_ns),
            };
        }
        geometry
    }

    pub(super) const fn turn_ns(&self) -> u64 {
        self.turn_ns
    }

    /// Bytes of a track of the outermost zone.
    pub(super) fn outer_track_bytes(&self) -> u64 {
        self.zones.first().map_or(1, |z| z.track_bytes)
    }

    /// Stream time of one cylinder and the way to the next.
    const fn cylinder_ns(&self) -> u64 {
        self.surfaces * self.turn_ns + (self.surfaces - 1) * self.head_switch_ns + self.cylinder_switch_ns
    }

    /// Where a byte is; one beyond the end is at the end.
    pub(super) fn locate(&self, byte: u64) -> Location {
        let after = self.zones.partition_point(|z| z.start.byte <= byte);
        let Some(zone) = self.zones.get(after.saturating_sub(1)) else {
            return Location { byte, cylinder: 0, surface: 0, stream_ns: 0, media_ns: 0 };
        };
        let within = byte.saturating_sub(zone.start.byte);
        let track = within / zone.track_bytes;
        let (cylinder, surface) = (track / self.surfaces, track % self.surfaces);
        let angle_ns = scale(within % zone.track_bytes, self.turn_ns, zone.track_bytes);
        Location {
            byte,
            cylinder: (zone.start.cylinder + cylinder).min(self.cylinders.saturating_sub(1)),
            surface,
            stream_ns: zone.start.stream_ns
                + cylinder * self.cylinder_ns()
                + surface * (self.turn_ns + self.head_switch_ns)
                + angle_ns,
            media_ns: zone.start.media_ns + track * self.turn_ns + angle_ns,
        }
    }

    /// First and last byte (exclusive) of the track that a byte is on.
    pub(super) fn track(&self, byte: u64) -> (u64, u64) {
        let after = self.zones.partition_point(|z| z.start.byte <= byte);
        let Some(zone) = self.zones.get(after.saturating_sub(1)) else { return (byte, byte) };
        let within = byte.saturating_sub(zone.start.byte);
        let start = zone.start.byte + within / zone.track_bytes * zone.track_bytes;
        (start, start + zone.track_bytes)
    }

    /// The byte that the head has reached after `stream_ns` from byte 0: the inverse of `locate`, rounded
    /// down.
    pub(super) fn byte_at(&self, stream_ns: u64) -> u64 {
        let after = self.zones.partition_point(|z| z.start.stream_ns <= stream_ns);
        let Some(zone) = self.zones.get(after.saturating_sub(1)) else { return 0 };
        let within = stream_ns.saturating_sub(zone.start.stream_ns);
        let (cylinder, within) = (within / self.cylinder_ns(), within % self.cylinder_ns());
        let track_ns = self.turn_ns + self.head_switch_ns;
        let surface = (within / track_ns).min(self.surfaces - 1);
        let angle_ns = (within - surface * track_ns).min(self.turn_ns);
        let track = cylinder * self.surfaces + surface;
        zone.start.byte + track * zone.track_bytes + scale(angle_ns, zone.track_bytes, self.turn_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::hdd_parameters;
    use proptest::prelude::*;

    #[test]
    fn the_whole_disk_has_places_and_the_last_is_at_the_inner_edge() {
        let parameters = hdd_parameters("hdd-7200");
        let geometry = Geometry::new(&parameters);
        let last = geometry.locate(parameters.capacity_bytes() - 1);
        assert_eq!((last.cylinder, last.surface), (parameters.cylinders - 1, parameters.surfaces - 1));
        assert!(geometry.zones.len() <= 64);
    }

    proptest! {
        #[test]
        fn stream_time_grows_with_the_place_and_turns_back_into_it(
            at in 0.0..1.0_f64, length in 1_u64..(64 << 20),
        ) {
            let parameters = hdd_parameters("hdd-7200");
            let (geometry, size) = (Geometry::new(&parameters), parameters.capacity_bytes());
            let byte = crate::media::number::to_u64(at * crate::media::number::as_f64(size - 1));
            let (a, b) = (geometry.locate(byte), geometry.locate((byte + length).min(size)));
            prop_assert!(b.stream_ns >= a.stream_ns && b.media_ns >= a.media_ns);
            prop_assert!(b.stream_ns - a.stream_ns >= b.media_ns - a.media_ns);
            let back = geometry.byte_at(a.stream_ns);
            prop_assert!(back <= byte && byte - back <= 1, "{byte} -> {a:?} -> {back}");
        }
    }
}

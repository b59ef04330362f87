//! Images that trials of this run are just making: of two trials that want the same one, the first makes it and
//! the other waits for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a trial waits before it looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The keys of the images that are being made.
#[derive(Debug, Clone, Default)]
pub(super) struct Making(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    keys: Mutex<BTreeSet<String>>,
    changed: Condvar,
}

impl Shared {
    fn keys(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to make an image; others wait until it is dropped.
#[derive(Debug)]
#[must_use = "others make the image too once this is dropped"]
pub(super) struct Claim {
    making: Making,
    key: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.making.0.keys().remove(&self.key);
        self.making.0.changed.notify_all();
    }
}

/// What came of wanting an image.
#[derive(Debug)]
pub(super) enum Wanted<T> {
    /// It is there.
    Found(T),
    /// It is not, and is the caller's to make.
    Make(Claim),
    /// The run is to end.
    Ended,
}

impl Making {
    /// Finds the image of this key, waiting while another trial makes it.
    pub(super) fn want<T>(
        &self,
        key: &str,
        find: impl Fn() -> Option<T>,
        is_over: impl Fn() -> bool,
    ) -> Wanted<T> {
        let mut keys = self.0.keys();
        loop {
            if !keys.contains(key) {
                // Under the lock: who makes it says so before anybody else finds that it is not there.
                return match find() {
                    Some(found) => Wanted::Found(found),
                    None => {
                        keys.insert(key.to_owned());
                        Wanted::Make(Claim { making: self.clone(), key: key.to_owned() })
                    }
                };
            }
            if is_over() {
                return Wanted::Ended;
            }
            let waited = self.0.changed.wait_timeout(keys, LOOK_EVERY);
            keys = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_makes_it_and_the_others_find_it() {
        let (making, there, made) = (Making::default(), Mutex::new(None), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| match making.want("k", || *there.lock().unwrap(), || false) {
                    Wanted::Found(image) => assert_eq!(image, 7),
                    Wanted::Make(_claim) => {
                        made.fetch_add(1, Ordering::SeqCst);
                        *there.lock().unwrap() = Some(7);
                    }
                    Wanted::Ended => panic!("nobody asked for the end"),
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn another_makes_it_where_the_first_fails_and_nobody_waits_for_ever() {
        let making = Making::default();
        let Wanted::Make(first) = making.want("k", || None::<u8>, || false) else { panic!() };
        assert!(matches!(making.want("k", || None::<u8>, || true), Wanted::Ended));
        assert!(matches!(making.want("other", || None::<u8>, || false), Wanted::Make(_)));
        drop(first);
        assert!(matches!(making.want("k", || None::<u8>, || false), Wanted::Make(_)));
    }
}

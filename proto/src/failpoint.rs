//! Failpoints: places at which a test can kill the process.
//!
//! Only builds with debug assertions have them. The variable `FAILPOINT` names the place and which hit of it kills:
//! `before-commit:42`.

/// Aborts the process, as kill -9 would, if a test asks for it at this place. Does nothing in release builds.
#[inline(always)]
pub fn reach(_place: &str) {
    #[cfg(debug_assertions)]
    armed::reach(_place);
}

#[cfg(debug_assertions)]
mod armed {
    use std::{
        env, process,
        sync::{
            LazyLock,
            atomic::{AtomicU32, Ordering},
        },
    };

    struct Armed {
        place: String,
        /// How many more hits there are until the process dies.
        hits_left: AtomicU32,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let value = env::var("FAILPOINT").ok()?;
        let parsed = value.rsplit_once(':').and_then(|(place, hit)| Some((place, hit.parse().ok()?)));
        let (place, hit) = parsed.expect("FAILPOINT is `PLACE:HIT`, such as `before-commit:42`");
        Some(Armed { place: place.to_owned(), hits_left: AtomicU32::new(hit) })
    });

    pub(super) fn reach(place: &str) {
        let Some(armed) = ARMED.as_ref().filter(|armed| armed.place == place) else { return };
        if armed.hits_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            process::abort();
        }
    }
}

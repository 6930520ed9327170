//! How much of its quota a team uses.

use teamwire_proto::v1;

use super::size;

/// From how many percent on it is worth a line.
const NEAR_PERCENT: u64 = 80;

/// From how many percent on it counts as full: little more fits.
const FULL_PERCENT: u64 = 99;

/// A part of a team that has used much of its quota.
pub(crate) struct NearlyFull {
    /// What uses how much.
    pub text: String,
    /// Whether teammates can add nothing more there.
    pub is_full: bool,
}

/// Returns what is nearly full or full: the team, its tasks, or the history of its tasks.
pub(crate) fn nearly_full(team: &v1::Team) -> Vec<NearlyFull> {
    let Some(storage) = &team.storage else { return Vec::new() };
    let parts = [
        ("The team uses", "its", storage.bytes, storage.bytes_max),
        ("The team's tasks use", "their", storage.task_bytes, storage.task_bytes_max),
        ("The history of the team's tasks uses", "its", storage.task_history_bytes, storage.task_history_bytes_max),
    ];
    let found = parts.into_iter().filter_map(|(what, whose, bytes, max)| {
        let percent = bytes.saturating_mul(100).checked_div(max)?;
        let text = format!("{what} {percent}% of {whose} quota: {} of {}.", size(bytes), size(max));
        (percent >= NEAR_PERCENT).then_some(NearlyFull { text, is_full: percent >= FULL_PERCENT })
    });
    found.collect()
}

/// Returns whether teammates can send no more messages, or hardly any.
pub(crate) fn is_full(team: &v1::Team) -> bool {
    team.storage.is_some_and(|storage| {
        storage.bytes.saturating_mul(100).checked_div(storage.bytes_max).is_some_and(|percent| percent >= FULL_PERCENT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn team(bytes: u64, task_bytes: u64) -> v1::Team {
        let storage = v1::TeamStorage {
            bytes,
            bytes_max: 2 * MIB,
            task_bytes,
            task_bytes_max: MIB / 2,
            ..v1::TeamStorage::default()
        };
        v1::Team { storage: Some(storage), ..v1::Team::default() }
    }

    fn texts(team: &v1::Team) -> Vec<String> {
        nearly_full(team).into_iter().map(|part| part.text).collect()
    }

    #[test]
    fn a_full_or_nearly_full_team_is_shown_as_such() {
        let full = team(2 * MIB, 0);
        assert_eq!(texts(&full), ["The team uses 100% of its quota: 2.0 MiB of 2.0 MiB."]);
        assert!(is_full(&full) && nearly_full(&full)[0].is_full);
        let nearly = team(MIB * 17 / 10, MIB / 2);
        assert_eq!(
            texts(&nearly),
            [
                "The team uses 84% of its quota: 1.7 MiB of 2.0 MiB.",
                "The team's tasks use 100% of their quota: 512.0 KiB of 512.0 KiB."
            ]
        );
        assert!(!is_full(&nearly) && !nearly_full(&nearly)[0].is_full && nearly_full(&nearly)[1].is_full);
        assert_eq!(texts(&team(MIB, 0)), Vec::<String>::new());
        assert_eq!(texts(&v1::Team::default()), Vec::<String>::new());
    }
}

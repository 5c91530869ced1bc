//! What a store of known history may show after some of its bytes rotted (D5, D6).

use rollstore::RolloutStore;
use rollstore::disk::sim::SimDisk;

use crate::fuzz::look::{check_refusal, open, open_read_only, or_refusal, repair, verify};
use crate::fuzz::planted::Planted;
use crate::state::StoreState;

/// Looks at a spoiled copy of `sound` in every way. Its checksums were not made right again.
///
/// # Panics
/// Where the store shows what it never held, or hides what it held.
pub(super) fn judge(disk: &SimDisk, sound: &Planted) {
    let is_sound = verify(&disk.kill());
    for opened in [open_read_only(&disk.kill()), open(&disk.kill())] {
        let opened = match opened {
            Ok(store) => store,
            Err(error) => {
                check_refusal("open", &error);
                assert!(is_sound != Some(true), "verified as sound, and does not open: {error}");
                continue;
            }
        };
        let whole = check_shown(&opened, sound);
        assert!(whole || is_sound != Some(true), "verified as sound, and cannot be read");
    }
    if let Some(repaired) = repair(&disk.kill()) {
        check_genuine(&repaired, sound);
    }
}

/// The store shows a state of its history but for rollouts that it refuses to read. Returns whether there are none.
fn check_shown(store: &RolloutStore, sound: &Planted) -> bool {
    let (found, unreadable) = StoreState::of_readable(store).unwrap_or_else(|error| panic!("{error}"));
    for (id, error) in &unreadable {
        check_refusal(&format!("rollout {id}"), error);
    }
    let allowed = sound.history.iter().skip(sound.settled).map(|state| {
        let mut state = state.clone();
        state.rollouts.retain(|id, _| unreadable.iter().all(|(other, _)| other != id));
        state
    });
    let allowed: Vec<StoreState> = allowed.collect();
    if !allowed.contains(&found) {
        let diffs: Vec<String> = allowed.iter().map(|allowed| found.diff(allowed)).collect();
        panic!("found / a state of its history\n{}", diffs.join("or\n"));
    }
    unreadable.is_empty()
}

/// Each column of each rollout is one that the store held under that id.
fn check_genuine(store: &RolloutStore, sound: &Planted) {
    let Some((found, _)) = or_refusal("read", StoreState::of_readable(store)) else { return };
    for (id, rollout) in &found.rollouts {
        let known = || sound.history.iter().filter_map(|state| state.rollouts.get(id));
        for (name, column) in &rollout.columns {
            let genuine = known().any(|known| known.columns.get(name) == Some(column));
            assert!(genuine, "rollout {id}: {name} is not what was written: {column:?}");
        }
    }
}

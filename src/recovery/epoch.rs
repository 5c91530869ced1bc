//! A new epoch: numbers go on above everything that was ever reserved.

use crate::format::manifest::Manifest;
use crate::ids::Lsn;
use crate::limits;
use crate::planted::{Bug, planted};

/// Makes `next` the first manifest of a new epoch of the store that `others` tell of: LSNs and versions continue above
/// every ceiling, so that nothing which only a lost or abandoned frame knew is given a second time.
pub(crate) fn begin(next: &mut Manifest, others: &[&Manifest]) {
    let highest = |of: fn(&Manifest) -> u64| others.iter().map(|manifest| of(manifest)).max().unwrap_or(0);
    let (lsn, ref_version, kl_version) = (
        highest(|manifest| manifest.lsn_ceiling),
        highest(|manifest| manifest.ref_version_ceiling),
        highest(|manifest| manifest.kl_version_ceiling),
    );
    // A repair may have found frames that no ceiling knows of.
    let (lsn, ref_version) = (lsn.max(next.state.lsn.get()), ref_version.max(next.state.ref_clock.next));
    let kl_version = kl_version.max(next.state.kl_clock.next);
    next.epoch = highest(|manifest| manifest.epoch) + 1;
    // No frame of this lineage lies between its last one and the ceiling.
    if !planted(Bug::ReuseLsn) {
        next.state.lsn = Lsn::new(lsn);
    }
    if !planted(Bug::ReuseRefVersion) {
        next.state.ref_clock.next = ref_version;
    }
    next.state.kl_clock.next = kl_version;
    next.lsn_ceiling = lsn + limits::LSNS_RESERVED;
    next.ref_version_ceiling = ref_version + limits::VERSIONS_RESERVED;
    next.kl_version_ceiling = kl_version + limits::VERSIONS_RESERVED;
}

//! Numbers go on above everything that was ever reserved: with a new epoch, and where commits were lost.

use crate::format::manifest::Manifest;
use crate::ids::Lsn;
use crate::limits;
use crate::planted::{Bug, planted};

/// Makes `next` the first manifest of a new epoch of the store that `others` tell of: LSNs and versions continue above
/// every ceiling, so that nothing which only a lost or abandoned frame knew is given a second time.
pub(crate) fn begin(next: &mut Manifest, others: &[&Manifest]) {
    let highest = |of: fn(&Manifest) -> u64| others.iter().map(|manifest| of(manifest)).max().unwrap_or(0);
    next.lsn_ceiling = highest(|manifest| manifest.lsn_ceiling);
    next.ref_version_ceiling = highest(|manifest| manifest.ref_version_ceiling);
    next.kl_version_ceiling = highest(|manifest| manifest.kl_version_ceiling);
    next.epoch = highest(|manifest| manifest.epoch) + 1;
    pass_ceilings(next);
}

/// Lets LSNs and versions continue above the ceilings, and reserves the next ones.
pub(super) fn pass_ceilings(manifest: &mut Manifest) {
    // A repair may have found frames that no ceiling knows of.
    let lsn = manifest.lsn_ceiling.max(manifest.state.lsn.get());
    let ref_version = manifest.ref_version_ceiling.max(manifest.state.ref_clock.next);
    let kl_version = manifest.kl_version_ceiling.max(manifest.state.kl_clock.next);
    // No frame of this lineage lies between its last one and the ceiling.
    if !planted(Bug::ReuseLsn) {
        manifest.state.lsn = Lsn::new(lsn);
    }
    if !planted(Bug::ReuseRefVersion) {
        manifest.state.ref_clock.next = ref_version;
    }
    manifest.state.kl_clock.next = kl_version;
    manifest.lsn_ceiling = lsn + limits::LSNS_RESERVED;
    manifest.ref_version_ceiling = ref_version + limits::VERSIONS_RESERVED;
    manifest.kl_version_ceiling = kl_version + limits::VERSIONS_RESERVED;
}

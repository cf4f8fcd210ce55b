//! Landlock: no file by its path, no port, no signal to others. What is open already stays open.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr, RulesetStatus,
    Scope,
};

use crate::confinement::Protection;

/// What is asked for. A kernel that knows less enforces what it knows.
const WANTED: ABI = ABI::V6;

pub(super) fn restrict() -> Protection {
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(WANTED)))
        .and_then(|rules| rules.scope(Scope::from_all(WANTED)))
        .and_then(|rules| rules.create())
        .and_then(|rules| rules.restrict_self());
    let status = restricted.map_err(|error| format!("the kernel refuses it: {error}"))?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced, _) => Ok("no files, no network".to_owned()),
        (RulesetStatus::PartiallyEnforced, _) => Ok("no files; network only with Linux 6.7 or newer".to_owned()),
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
            Err("it is not enabled in this kernel; add `landlock` to its `lsm=` parameter".to_owned())
        }
        (RulesetStatus::NotEnforced, _) => Err("this kernel has none; it came with Linux 5.13".to_owned()),
    }
}

//! The interface of version 0.1.0 is frozen: plugins that were built for it must keep working, whatever server they
//! meet.

use std::path::Path;

use sha2::{Digest, Sha256};

/// The SHA-256 of `wit/0.1.0/job.wit`, comments included.
const FROZEN: &str = "73b40e05b77453c1f8bbec17c0a783d767b67863533085cdcdb7f6c83adf2db9";

#[test]
fn the_interface_0_1_0_does_not_change() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/0.1.0/job.wit");
    let bytes = std::fs::read(&path).expect("the interface is part of the repository");
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        digest, FROZEN,
        "wit/0.1.0/job.wit has changed, but 0.1.0 is frozen, comments included. Restore the file, copy the folder to the next \
         version (wit/0.1.1 for an addition, wit/0.2.0 for a break) and change the copy; wit/README.md says how"
    );
}

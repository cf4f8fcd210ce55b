//! Only its owner may read a data folder. It holds payloads, results and the keys of secrets.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::OpenError;
use crate::disk::check;
use crate::store::store_dir;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
const OTHERS: u32 = 0o077;

/// Creates the folder, or removes the permissions of others from one that exists. One of another user is refused before
/// anything is written, also to root: files that root makes in it would lock its owner out.
pub fn prepare(dir: &Path) -> Result<(), OpenError> {
    let refused = |error: io::Error| check::refused(dir, &error);
    for path in [dir, &store_dir(dir)] {
        match fs::metadata(path) {
            Ok(found) => check_owner(path, found.uid())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(error)),
        }
    }
    DirBuilder::new().recursive(true).mode(FOLDER).create(dir).map_err(refused)?;
    tighten(dir, FOLDER);
    // Nothing below these can be reached without passing the folder itself.
    for entry in fs::read_dir(dir).map_err(refused)?.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => tighten(&entry.path(), FOLDER),
            Ok(kind) if kind.is_file() => tighten(&entry.path(), FILE),
            _ => {}
        }
    }
    Ok(())
}

fn check_owner(path: &Path, owner: u32) -> Result<(), OpenError> {
    let user = rustix::process::geteuid().as_raw();
    if owner == user { Ok(()) } else { Err(OpenError::Owner { path: path.to_owned(), owner, user }) }
}

/// Takes the rights of others away. Some file systems know no rights: there it is worth a warning and no more.
fn tighten(path: &Path, mode: u32) {
    let Ok(found) = fs::metadata(path) else { return };
    if found.permissions().mode() & OTHERS == 0 {
        return;
    }
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Ok(()) => tracing::info!("{} could be reached by other users; now only its owner can", path.display()),
        Err(error) => tracing::warn!("{} can be reached by other users: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn a_new_folder_is_its_owners_alone_and_an_open_one_is_closed() {
        let place = tempfile::tempdir().expect("a folder");
        let new = place.path().join("new");
        prepare(&new).expect("makes it");
        assert_eq!(mode(&new), 0o700);

        let old = place.path().join("old");
        fs::create_dir_all(old.join("store")).expect("makes it");
        fs::write(old.join("witness"), b"").expect("makes a file");
        for (path, open) in [(old.clone(), 0o755), (old.join("store"), 0o755), (old.join("witness"), 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(open)).expect("opens it");
        }
        prepare(&old).expect("takes it");
        assert_eq!([mode(&old), mode(&old.join("store")), mode(&old.join("witness"))], [0o700, 0o700, 0o600]);
    }

    #[test]
    fn a_folder_of_another_user_is_refused_and_left_as_it_is() {
        let place = tempfile::tempdir().expect("a folder");
        let dir = place.path().join("data");
        fs::create_dir(&dir).expect("makes it");
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("opens it");
        if std::os::unix::fs::chown(&dir, Some(12_345), None).is_err() {
            println!("skipped: only root may give a folder away");
            return;
        }
        let words = prepare(&dir).expect_err("it is another's").to_string();
        assert!(words.contains("belongs to user 12345") && words.contains("chown"), "{words}");
        assert!(words.contains(&dir.display().to_string()), "{words}");
        assert_eq!((mode(&dir), fs::read_dir(&dir).expect("lists").count()), (0o755, 0));
    }
}

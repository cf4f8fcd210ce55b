//! Where the folders that plugins are granted may be, and how they are opened.
//!
//! The operator names roots when the server starts. A granted folder is inside one of them and does not overlap with
//! what no plugin may see: the data folder, key files, and the kernel's own file systems. That is checked when a folder
//! is granted, and again each time it is opened for a guest, because a path may have become a symbolic link in between.
//! It is opened component by component without following links, so the folder that was checked is the one the guest
//! gets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use crate::shortage::is_shortage;

/// The kernel's own file systems. Writing to them changes the machine.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Which folders may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderScope {
    /// Any folder: with `windlass run`, the user grants their own folders.
    Anywhere,
    /// Only folders inside the grant roots.
    Roots(Arc<GrantRoots>),
}

/// The folders inside which folders may be granted. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantRoots {
    roots: Vec<PathBuf>,
    private: Vec<PathBuf>,
}

/// Why a folder cannot be a grant root.
#[derive(Debug, thiserror::Error)]
pub enum BadRoot {
    #[error("the grant root {} cannot be opened: {why}. Create the folder, or start without this --grant-root", path.display())]
    Missing { path: PathBuf, why: io::Error },
    #[error("the grant root {} {how} {}, which no plugin may see. Choose a folder that holds only what plugins may be granted",
        path.display(), private.display())]
    Overlaps { path: PathBuf, how: &'static str, private: PathBuf },
}

/// Why a folder cannot be granted, or opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("it {how} {}, which no plugin may see; choose another folder", private.display())]
    Private { how: &'static str, private: PathBuf },
    #[error("the server was started without --grant-root, so no folder can be granted; restart it with --grant-root {}",
        path.display())]
    NoRoots { path: PathBuf },
    #[error("it is in none of the folders that this server may grant ({roots}); use a folder in one of them, or restart the server \
        with --grant-root {} as well", path.display())]
    Outside { path: PathBuf, roots: String },
    #[error("{} is a symbolic link, which it was not when the folder was granted; grant the folder again if this is intended",
        path.display())]
    Link { path: PathBuf },
    #[error("its path is not absolute, or contains `.` or `..`; grant the folder again by its full path")]
    Path,
    #[error("{0}. Create it, or change the grant")]
    System(#[source] io::Error),
}

impl Default for FolderScope {
    fn default() -> FolderScope {
        FolderScope::Roots(Arc::default())
    }
}

impl FolderScope {
    /// The canonical path of a folder, if it can be granted. This path is stored and opened later.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, Unusable> {
        let canonical = path.canonicalize().map_err(Unusable::System)?;
        self.open(&canonical)?;
        Ok(canonical)
    }

    /// Whether a path may be opened, judged by its text alone.
    pub fn allows(&self, path: &Path) -> Result<(), Unusable> {
        match self {
            FolderScope::Anywhere => Ok(()),
            FolderScope::Roots(roots) => roots.allows(path),
        }
    }

    /// A hint for the operator who has to choose a folder; `None` when any folder will do.
    pub fn hint(&self) -> Option<String> {
        match self {
            FolderScope::Anywhere => None,
            FolderScope::Roots(roots) if roots.roots.is_empty() => {
                Some("the server must be started with --grant-root FOLDER first".to_owned())
            }
            FolderScope::Roots(roots) => Some(format!("the folder must be in {}", roots.listed(" or "))),
        }
    }

    pub(crate) fn open(&self, path: &Path) -> Result<Opened, Unusable> {
        match self {
            FolderScope::Anywhere => Ok(Opened { folder: None, path: path.to_owned() }),
            FolderScope::Roots(roots) => roots.open(path),
        }
    }
}

impl GrantRoots {
    /// `private`: existing files and folders that no root may contain or be inside, besides the kernel's file systems.
    pub fn new(roots: &[PathBuf], private: &[PathBuf]) -> Result<GrantRoots, BadRoot> {
        let real = |path: &PathBuf| path.canonicalize().or_else(|_| std::path::absolute(path));
        let private: Vec<PathBuf> = private.iter().filter_map(|path| real(path).ok()).collect();
        let mut checked = GrantRoots { roots: Vec::new(), private };
        for path in roots {
            let missing = |why| BadRoot::Missing { path: path.clone(), why };
            let root = path.canonicalize().map_err(missing)?;
            if !root.is_dir() {
                return Err(missing(io::ErrorKind::NotADirectory.into()));
            }
            if let Some((how, private)) = checked.overlap(&root) {
                return Err(BadRoot::Overlaps { path: path.clone(), how, private });
            }
            checked.roots.push(root);
        }
        Ok(checked)
    }

    fn allows(&self, path: &Path) -> Result<(), Unusable> {
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(plain) {
            return Err(Unusable::Path);
        }
        if let Some((how, private)) = self.overlap(path) {
            return Err(Unusable::Private { how, private });
        }
        if self.roots.is_empty() {
            return Err(Unusable::NoRoots { path: path.to_owned() });
        }
        if !self.roots.iter().any(|root| path.starts_with(root)) {
            return Err(Unusable::Outside { path: path.to_owned(), roots: self.listed(", ") });
        }
        Ok(())
    }

    fn overlap(&self, path: &Path) -> Option<(&'static str, PathBuf)> {
        let private = SYSTEM.iter().map(Path::new).chain(self.private.iter().map(PathBuf::as_path));
        private.filter_map(|private| Some((relation(path, private)?, private.to_owned()))).next()
    }

    fn listed(&self, between: &str) -> String {
        self.roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(between)
    }

    /// Opens a folder component by component. None of them may be a link, or a private folder under another name (a
    /// bind mount, for example).
    fn open(&self, path: &Path) -> Result<Opened, Unusable> {
        self.allows(path)?;
        let system = |errno: rustix::io::Errno| Unusable::System(errno.into());
        let mut folder = rustix::fs::open("/", flags(), Mode::empty()).map_err(system)?;
        let mut so_far = PathBuf::from("/");
        for part in path.components().skip(1) {
            so_far.push(part);
            folder = rustix::fs::openat(&folder, part.as_os_str(), flags(), Mode::empty()).map_err(|errno| {
                let found = rustix::fs::statat(&folder, part.as_os_str(), AtFlags::SYMLINK_NOFOLLOW);
                let is_link = found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
                if is_link { Unusable::Link { path: so_far.clone() } } else { system(errno) }
            })?;
            let found = rustix::fs::fstat(&folder).map_err(system)?;
            if let Some(private) = self.private.iter().find(|private| is_at(private, &found)) {
                return Err(Unusable::Private { how: "is inside", private: private.clone() });
            }
        }
        let found = rustix::fs::fstat(&folder).map_err(system)?;
        let contains = |private: &&PathBuf| private.ancestors().skip(1).any(|above| is_at(above, &found));
        match self.private.iter().find(contains) {
            Some(private) => Err(Unusable::Private { how: "contains", private: private.clone() }),
            None => Ok(Opened { folder: Some(folder), path: path.to_owned() }),
        }
    }
}

/// A folder that was checked and is held open.
#[derive(Debug)]
pub(crate) struct Opened {
    folder: Option<OwnedFd>,
    path: PathBuf,
}

impl Opened {
    /// A path to the folder that is held open, even if its own path leads elsewhere by now. Without `/proc`, the
    /// folder's own path.
    pub(crate) fn path(&self) -> PathBuf {
        let held = self.folder.as_ref().map(|folder| PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())));
        held.filter(|held| held.exists()).unwrap_or_else(|| self.path.clone())
    }
}

impl Unusable {
    /// Whether the system ran out of resources, so that the folder itself may be fine.
    pub(crate) fn is_shortage(&self) -> bool {
        matches!(self, Unusable::System(error) if is_shortage(error))
    }
}

/// How a folder overlaps with a private path.
fn relation(folder: &Path, private: &Path) -> Option<&'static str> {
    if folder == private {
        Some("is")
    } else if private.starts_with(folder) {
        Some("contains")
    } else if folder.starts_with(private) {
        Some("is inside")
    } else {
        None
    }
}

/// Whether a path leads to exactly this file or folder.
fn is_at(path: &Path, found: &Stat) -> bool {
    rustix::fs::stat(path).is_ok_and(|at| (at.st_dev, at.st_ino) == (found.st_dev, found.st_ino))
}

fn flags() -> OFlags {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The parent folders need not be readable; permission to traverse them is enough.
    #[cfg(target_os = "linux")]
    let flags = flags | OFlags::PATH;
    flags
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A root with a folder `in/deep`, and next to it `out` and the data folder.
    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new() -> Fixture {
            let fixture = Fixture(tempfile::tempdir().expect("a folder"));
            for folder in ["root/in/deep", "out", "data/compiled"] {
                fs::create_dir_all(fixture.path(folder)).expect("a folder");
            }
            fs::write(fixture.path("key"), "s3cret").expect("a file");
            fixture
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().expect("it exists").join(path)
        }

        fn roots(&self, roots: &[&str]) -> Result<GrantRoots, BadRoot> {
            let roots: Vec<PathBuf> = roots.iter().map(|root| self.path(root)).collect();
            GrantRoots::new(&roots, &[self.path("data"), self.path("key")])
        }

        fn scope(&self) -> FolderScope {
            FolderScope::Roots(Arc::new(self.roots(&["root"]).expect("a good root")))
        }
    }

    fn identity(path: &Path) -> (u64, u64) {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(path).expect("it exists");
        (found.dev(), found.ino())
    }

    #[test]
    fn a_root_does_not_overlap_with_anything_private() {
        let fixture = Fixture::new();
        symlink(fixture.path("data"), fixture.path("link")).expect("a link");
        fs::create_dir(fixture.path("holder")).expect("a folder");
        fs::write(fixture.path("file"), "").expect("a file");
        let table = [
            ("root", None),
            ("holder", None),
            ("data", Some("is ")),
            ("data/compiled", Some("is inside ")),
            ("link", Some("is ")),
            ("", Some("contains ")),
            ("gone", Some("cannot be opened")),
            ("file", Some("cannot be opened")),
        ];
        for (root, expected) in table {
            let message = fixture.roots(&[root]).err().map(|error| error.to_string());
            assert_eq!(message.is_some(), expected.is_some(), "{root}: {message:?}");
            assert!(
                expected.is_none_or(|part| message.as_ref().is_some_and(|text| text.contains(part))),
                "{message:?}"
            );
        }
        for root in ["/", "/proc", "/proc/self", "/sys", "/dev", "/dev/shm"] {
            assert!(GrantRoots::new(&[PathBuf::from(root)], &[]).is_err(), "{root}");
        }
    }

    #[test]
    fn a_folder_is_granted_inside_a_root_only() {
        let fixture = Fixture::new();
        let scope = fixture.scope();
        symlink(fixture.path("out"), fixture.path("root/leads-out")).expect("a link");
        symlink(fixture.path("root/in"), fixture.path("leads-in")).expect("a link");
        symlink(fixture.path("data"), fixture.path("root/leads-to-data")).expect("a link");
        for (path, expected) in [("root", "root"), ("root/in", "root/in"), ("leads-in/deep", "root/in/deep")] {
            assert_eq!(scope.resolve(&fixture.path(path)).expect(path), fixture.path(expected));
        }
        for (path, expected) in [
            ("out", "--grant-root"),
            ("root/../out", "--grant-root"),
            ("root/leads-out", "--grant-root"),
            ("root/leads-to-data", "which no plugin may see"),
            ("data/compiled", "which no plugin may see"),
            ("", "which no plugin may see"),
            ("root/gone", "Create it"),
        ] {
            let message = scope.resolve(&fixture.path(path)).expect_err(path).to_string();
            assert!(message.contains(expected), "{path}: {message}");
        }
        let message = FolderScope::default().resolve(&fixture.path("root/in")).expect_err("no roots").to_string();
        assert!(
            message.contains(&format!("restart it with --grant-root {}", fixture.path("root/in").display())),
            "{message}"
        );
        assert_eq!(
            FolderScope::Anywhere.resolve(&fixture.path("out")).expect("any folder is allowed"),
            fixture.path("out")
        );
    }

    #[test]
    fn a_path_that_became_a_link_after_the_grant_is_not_opened() {
        let fixture = Fixture::new();
        let scope = fixture.scope();
        let granted = scope.resolve(&fixture.path("root/in/deep")).expect("a good folder");
        // The last component and one in the middle; to outside the root, and back into it.
        for (swapped, target) in [("root/in/deep", "out"), ("root/in", "out"), ("root/in", "root/away")] {
            fs::create_dir_all(fixture.path("out/deep")).expect("a folder");
            let (from, away) = (fixture.path(swapped), fixture.path("root/away"));
            fs::rename(&from, &away).expect("moved");
            symlink(fixture.path(target), &from).expect("a link");
            let message = scope.open(&granted).expect_err("a link").to_string();
            assert!(message.contains(&format!("{} is a symbolic link", from.display())), "{message}");
            fs::remove_file(&from).expect("removed");
            fs::rename(&away, &from).expect("moved back");
        }
        assert!(scope.open(&granted).is_ok());
    }

    #[test]
    fn the_folder_that_was_checked_is_opened_even_if_the_path_changes_in_between() {
        let fixture = Fixture::new();
        let scope = fixture.scope();
        let folder = fixture.path("root/in");
        let checked = identity(&folder);
        let opened = scope.open(&folder).unwrap_or_else(|why| panic!("{why}"));
        fs::rename(&folder, fixture.path("root/away")).expect("moved");
        symlink(fixture.path("out"), &folder).expect("a link");
        assert_eq!(identity(&folder), identity(&fixture.path("out")), "the path leads elsewhere now");
        assert_eq!(identity(&opened.path()), checked);
    }

    #[test]
    fn a_private_folder_is_recognised_under_another_name() {
        // A bind mount needs privileges that a test does not have; a symbolic link also gives a folder two names.
        let fixture = Fixture::new();
        let inside = fixture.path("root/in/deep");
        for (private, expected) in [("root/in", "is inside"), ("root/in/deep/key", "contains")] {
            fs::write(inside.join("key"), "").expect("a file");
            // By its text alone this path is unrelated to the root.
            symlink(fixture.path("root/in"), fixture.path("alias")).expect("a link");
            let alias = fixture.path(&private.replacen("root/in", "alias", 1));
            let roots = GrantRoots { roots: vec![fixture.path("root")], private: vec![alias] };
            let message = roots.open(&inside).expect_err("it is private").to_string();
            assert!(message.contains(expected), "{message}");
            fs::remove_file(fixture.path("alias")).expect("removed");
        }
    }
}

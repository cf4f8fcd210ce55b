//! An API key out of a file: a key on a command line can be read by every user of the machine, in the list of
//! processes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A key, and the file it was read from.
#[derive(Clone, PartialEq, Eq)]
pub struct FileKey {
    pub path: PathBuf,
    pub key: String,
}

impl FileKey {
    /// The only line of the file. The error says what to do.
    pub fn read(path: &Path) -> Result<FileKey, String> {
        let shown = path.display();
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("the key file {shown} cannot be read: {error}"))?;
        let key = text.trim();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(format!("the key file {shown} should hold one line with the key, and nothing else"));
        }
        Ok(FileKey { path: path.to_owned(), key: key.to_owned() })
    }

    /// Whether other users of the machine can read the file.
    pub fn is_open_to_others(&self) -> bool {
        self.path.metadata().is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
    }
}

impl FromStr for FileKey {
    type Err = String;
    fn from_str(path: &str) -> Result<FileKey, String> {
        FileKey::read(Path::new(path))
    }
}

/// The key is shown nowhere.
impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileKey({})", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_holds_one_line_and_its_key_is_not_shown() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("key");
        let with = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            FileKey::read(&path)
        };
        for text in ["a-long-key", "a-long-key\n", "  a-long-key\r\n"] {
            let read = with(text).expect("a key");
            assert_eq!(read.key, "a-long-key");
            assert!(!format!("{read:?}").contains("a-long-key"));
        }
        for text in ["", "\n", "two words", "two\nlines\n"] {
            assert!(with(text).expect_err("no key").contains("one line"), "{text:?}");
        }
        std::fs::remove_file(&path).expect("removes it");
        assert!(FileKey::read(&path).expect_err("no file").contains("cannot be read"));
    }
}

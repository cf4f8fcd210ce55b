//! The tools of a language: searched for first, and otherwise installed into our own folder of the cache, with a
//! message.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

/// Tells the author what is happening.
pub fn say(text: &str) {
    eprintln!("==> {text}");
}

/// Runs a command that must succeed. Its output is shown.
pub fn run(command: &mut Command, why: &str) -> anyhow::Result<()> {
    let name = program(command);
    run_tool(command, &name, why)
}

/// The same for a tool that users know by a different name than that of the program.
pub fn run_tool(command: &mut Command, name: &str, why: &str) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", program(command)))?;
    if !status.success() {
        bail!("{why}: {name} exited with {status}; its output is above");
    }
    Ok(())
}

/// The output of a command, if it runs and succeeds.
pub fn ask(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn program(command: &Command) -> String {
    Path::new(command.get_program()).display().to_string()
}

/// Our folder of the user's cache.
pub fn cache() -> anyhow::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let folder = base
        .context("neither XDG_CACHE_HOME nor HOME is set: set one of them, so that tools can be installed")?
        .join("windlass");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Whether tools whose folder name starts with this have been installed.
pub fn are_installed(name: &str) -> bool {
    let entries = cache().ok().and_then(|cache| fs::read_dir(cache).ok()).into_iter().flatten().flatten();
    let mut named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(name));
    named.any(|entry| entry.path().join(".ready").exists())
}

/// A folder of tools that `make` fills once. A concurrent call waits for the first; an incomplete folder is recreated.
pub fn once(name: &str, make: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<PathBuf> {
    let cache = cache()?;
    let folder = cache.join(name);
    let ready = folder.join(".ready");
    if ready.exists() {
        return Ok(folder);
    }
    let lock = File::create(cache.join(format!("{name}.lock"))).context("cannot create a lock file in the cache")?;
    lock.lock().context("cannot lock the cache")?;
    if ready.exists() {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    make(&folder)?;
    fs::write(&ready, "").with_context(|| format!("cannot write {}", ready.display()))?;
    Ok(folder)
}

/// A Python environment with exactly the packages that a lock file names, which changes nothing else of the system.
/// Returns its interpreter. `what` describes them in the error for a system without Python.
pub fn venv(name: &str, lock: &Path, what: &str) -> anyhow::Result<PathBuf> {
    let text = read_lock(lock)?;
    let folder = once(&format!("{name}-{}", short_digest(&text)), |folder| {
        let python = python(what)?;
        say(&format!("installing {} into {} (pip): {what}", pinned(&text), folder.display()));
        let venv = "the tools need Python's venv; on Debian or Ubuntu: sudo apt-get install python3-venv";
        run(Command::new(&python).args(["-m", "venv"]).arg(folder), venv)?;
        let mut install = Command::new(folder.join("bin/python"));
        install.args(PIP_INSTALL).arg("-r").arg(lock);
        run(&mut install, "pip could not install them; is there a network?")
    })?;
    Ok(folder.join("bin/python"))
}

/// Only files with a known digest are installed, and none that would run a script of its own to be built.
const PIP_INSTALL: [&str; 9] = [
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--require-hashes",
    "--no-deps",
    "--only-binary",
    ":all:",
];

/// The packages of a lock file, for people.
fn pinned(lock: &[u8]) -> String {
    let text = String::from_utf8_lossy(lock);
    let packages = text.lines().filter(|line| !line.starts_with(['#', ' '])).filter_map(|line| line.split(' ').next());
    packages.collect::<Vec<_>>().join(" ")
}

fn read_lock(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}; is `sdk` in windlass.toml right?", path.display()))
}

/// A folder with exactly the packages that the package-lock.json in a folder of the SDK names.
pub fn node_modules(tools: &Path) -> anyhow::Result<PathBuf> {
    const FILES: [&str; 2] = ["package.json", "package-lock.json"];
    let [package, lock] = FILES.map(|name| read_lock(&tools.join(name)));
    let texts = [package?, lock?];
    once(&format!("js-{}", short_digest(&texts.concat())), |folder| {
        need("npm", "it installs the tools that turn JavaScript into a component", NODE)?;
        say(&format!("installing the JavaScript tools into {} (npm)", folder.display()));
        for (name, text) in FILES.iter().zip(&texts) {
            fs::write(folder.join(name), text)?;
        }
        let mut npm = Command::new("npm");
        // `ci` installs only what has the digest in the lock file, and scripts of packages do not run.
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(folder);
        run(&mut npm, "npm could not install them; is there a network?")
    })
}

/// A folder name derived from these bytes.
pub fn short_digest(bytes: &[u8]) -> String {
    short_hex(&Sha256::digest(bytes))
}

/// Enough of a digest to name a folder.
pub fn short_hex(digest: &[u8]) -> String {
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

pub fn python(what: &str) -> anyhow::Result<PathBuf> {
    for name in ["python3", "python"] {
        let version = ask(Command::new(name).args(["-c", "import sys; print(sys.version_info >= (3, 9))"]));
        if version.as_deref() == Some("True") {
            return Ok(PathBuf::from(name));
        }
    }
    bail!(
        "python3 (3.9 or newer) is missing: with it windlass brings {what}. To get it, on Debian or Ubuntu: \
         sudo apt-get install python3 python3-venv"
    )
}

/// How to get Node.js.
pub const NODE: &str = "sudo apt-get install nodejs npm (Debian, Ubuntu), or https://nodejs.org; version 20 or newer";

/// Requires a program: its name, why it is needed, and how to get it.
pub fn need(name: &str, why: &str, how: &str) -> anyhow::Result<()> {
    if found(name).is_none() {
        bail!("{name} is missing: {why}. To get it: {how}");
    }
    Ok(())
}

/// The path of a program on the PATH.
pub fn found(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_reason_and_its_remedy() {
        let error = need("no-such-tool", "it does the work", "run this").expect_err("it does not exist").to_string();
        assert_eq!(error, "no-such-tool is missing: it does the work. To get it: run this");
    }

    #[test]
    fn everything_that_is_installed_has_a_digest() {
        let sdks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk");
        for lock in
            ["python/requirements.txt", "c/requirements.txt", "go/requirements.txt", "../scripts/schemathesis.txt"]
        {
            let text = fs::read_to_string(sdks.join(lock)).unwrap_or_else(|error| panic!("{lock}: {error}"));
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            // A package is a line that begins at the margin; its digests are the lines after it.
            let packages = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
            for package in packages.lines() {
                assert!(package.contains("==") && package.contains("--hash=sha256:"), "{lock}: {package}");
                assert!(!package.contains("://"), "{lock}: {package}");
            }
            assert!(!pinned(text.as_bytes()).is_empty(), "{lock}");
        }
        let read = |name: &str| {
            let text = fs::read_to_string(sdks.join("js/tools").join(name)).expect("a file");
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
        };
        let (package, lock) = (read("package.json"), read("package-lock.json"));
        let packages = lock["packages"].as_object().expect("packages");
        assert_eq!(packages[""]["dependencies"], package["dependencies"]);
        for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            assert!(package["integrity"].as_str().is_some_and(|digest| digest.starts_with("sha512-")), "{name}");
            assert!(package["resolved"].is_null(), "{name} names a registry");
        }
    }

    #[test]
    fn the_packages_of_a_lock_file_are_listed_without_their_digests() {
        let lock = b"# made by x\na==1 \\\n    --hash=sha256:00\nb==2 ; x == 'y' \\\n    --hash=sha256:11\n";
        assert_eq!(pinned(lock), "a==1 b==2");
    }

    #[test]
    fn a_command_that_fails_is_an_error_that_names_it() {
        let error = run(&mut Command::new("false"), "the build failed").expect_err("it always fails").to_string();
        assert!(error.starts_with("the build failed: false exited with"), "{error}");
    }
}

//! What `windlass plugin build` installs: only files whose digest is in a lock file, and without running a script of
//! theirs. The packages are made by the tests, and no index is asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_e2e::windlass;

/// A new plugin, and a cache of its own.
struct Fresh {
    work: tempfile::TempDir,
}

/// What a command printed to standard error, and whether it succeeded.
type Ran = (bool, String);

impl Fresh {
    fn new(lang: &str) -> Fresh {
        let fresh = Fresh { work: tempfile::tempdir().expect("a folder") };
        let (made, said) =
            fresh.run(windlass().args(["plugin", "new", "fresh", "--lang", lang, "--dir"]).arg(fresh.plugin()));
        assert!(made, "{said}");
        fresh
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn plugin(&self) -> PathBuf {
        self.path("plugin")
    }

    /// Writes a file and the folders that it needs.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("room");
        fs::write(&path, text).expect("room");
        path
    }

    fn build(&self) -> Ran {
        let mut command = windlass();
        command.args(["plugin", "build", "--no-check"]).arg(self.plugin()).env("XDG_CACHE_HOME", self.path("cache"));
        // Nothing that npm has seen before, and of Python only the packages of the test.
        command.env("npm_config_cache", self.path("npm"));
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", self.path("wheels")).env("PIP_CONFIG_FILE", "/dev/null");
        self.run(&mut command)
    }

    fn run(&self, command: &mut Command) -> Ran {
        let ended = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
        let ended = ended.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        (ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned())
    }

    /// The folders of tools that were installed completely.
    fn installed(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache/windlass")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.join(".ready").exists()).collect()
    }

    /// A package for npm whose script leaves a trace, packed; and a lock file with its digest.
    fn lock_package_with_script(&self) -> (PathBuf, PathBuf) {
        let trace = self.path("trace");
        let script = format!("touch {}", trace.display());
        let package = serde_json::json!({"name": "scripted", "version": "1.0.0", "scripts": {"postinstall": script}});
        self.write("scripted/package.json", &package.to_string());
        let npm = |arguments: &[&str], folder: &Path| {
            let (done, said) =
                self.run(Command::new("npm").args(arguments).arg("--loglevel=error").current_dir(folder));
            assert!(done, "npm {arguments:?}: {said}");
        };
        npm(&["pack"], &self.path("scripted"));
        let packed = self.path("scripted/scripted-1.0.0.tgz");
        let tools = self.plugin().join("sdk/tools");
        let wanted =
            serde_json::json!({"private": true, "dependencies": {"scripted": format!("file:{}", packed.display())}});
        fs::write(tools.join("package.json"), wanted.to_string()).expect("room");
        fs::remove_file(tools.join("package-lock.json")).expect("the SDK has a lock file");
        npm(&["install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"], &tools);
        assert!(!trace.exists(), "nothing has been installed yet");
        (packed, trace)
    }
}

#[test]
fn no_script_of_a_javascript_package_runs() {
    let fresh = Fresh::new("js");
    let (_, trace) = fresh.lock_package_with_script();
    let (built, said) = fresh.build();
    assert!(!built && said.contains("not installed: esbuild"), "only the tool of the test is there: {said}");
    let installed = fresh.installed();
    assert!(installed.iter().any(|folder| folder.join("node_modules/scripted").exists()), "{installed:?}: {said}");
    assert!(!trace.exists(), "its script has run");
}

#[test]
fn a_javascript_package_that_was_replaced_is_not_installed() {
    let fresh = Fresh::new("js");
    let (packed, _) = fresh.lock_package_with_script();
    let mut other = fs::read(&packed).expect("it was packed");
    // The time in the header of the archive: still a good archive, with another digest.
    other[4] ^= 1;
    fs::write(&packed, other).expect("room");
    let (built, said) = fresh.build();
    assert!(!built && said.contains("npm could not install them"), "{said}");
    assert_eq!(fresh.installed(), Vec::<PathBuf>::new());
}

#[test]
fn a_python_package_with_another_digest_is_not_installed() {
    const MAKE: &str = "import sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1], 'w') as made:\n\
        \x20   made.writestr('ziglang/__main__.py', 'raise SystemExit(0)')\n\
        \x20   info = 'ziglang-0.17.0.dist-info/'\n\
        \x20   made.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: ziglang\\nVersion: 0.17.0\\n')\n\
        \x20   made.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        \x20   made.writestr(info + 'RECORD', '')\n";
    let fresh = Fresh::new("c");
    let lock = fs::read_to_string(fresh.plugin().join("sdk/requirements.txt")).expect("the SDK has a lock file");
    assert!(lock.contains("ziglang==0.17.0 "), "the wheel of this test stands in for another version: {lock}");
    fs::create_dir(fresh.path("wheels")).expect("room");
    let wheel = fresh.path("wheels/ziglang-0.17.0-py3-none-any.whl");
    let (made, said) = fresh.run(Command::new("python3").args(["-c", MAKE]).arg(&wheel));
    assert!(made, "{said}");
    let (built, said) = fresh.build();
    assert!(!built && said.contains("pip could not install them") && said.contains("HASHES"), "{said}");
    assert_eq!(fresh.installed(), Vec::<PathBuf>::new());
}

#[test]
fn a_crate_that_the_lock_file_does_not_name_is_not_built() {
    let fresh = Fresh::new("rust");
    let manifest = fresh.plugin().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).expect("the template has one");
    fs::write(&manifest, text.replace("[dependencies]\n", "[dependencies]\nitoa = \"1\"\n")).expect("room");
    let before = fs::read(fresh.plugin().join("Cargo.lock")).expect("the template has one");
    // In the usual cache, where a compiler for guests may be.
    let (built, said) = fresh.run(windlass().args(["plugin", "build", "--no-check"]).arg(fresh.plugin()));
    assert!(!built && said.contains("--locked") && said.contains("cargo update --workspace"), "{said}");
    assert_eq!(fs::read(fresh.plugin().join("Cargo.lock")).expect("it stays"), before);
}

#[test]
fn every_action_of_the_workflows_is_named_by_its_digest() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.github/workflows");
    let mut named = 0;
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        for line in text.lines().filter_map(|line| line.split_once("uses:")) {
            // What is in this repository has no version.
            let action = line.1.trim();
            if action.starts_with("./") {
                continue;
            }
            let (_, version) = action.split_once('@').expect("a version");
            let digest = version.split_whitespace().next().unwrap_or_default();
            let is_digest = digest.len() == 40 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_digest, "{action} in {}: a tag can be moved to other code", entry.path().display());
            named += 1;
        }
    }
    assert!(named > 5, "only {named} actions");
}

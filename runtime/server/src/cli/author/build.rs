//! `windlass plugin build`: from sources to a component, with the tools of its language.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use windlass_core::plugin::manifest::Lang;
use windlass_executor::{componentize, strip};

use crate::cli::author::check;
use crate::cli::author::project::Project;
use crate::cli::author::tools;
use crate::cli::author::tools::{ask, run, run_tool, say};

/// Build a plugin's folder into a component, and check that a server would accept it
///
/// Needs no server, and uploads nothing: `windlass plugin push` builds and uploads. Missing tools, other than the
/// compiler of your language, are downloaded once into ~/.cache/windlass. `windlass doctor` shows which tools are
/// installed.
#[derive(Debug, Args)]
pub struct Build {
    /// The plugin's folder, with a windlass.toml in it
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Where to write the component [default: DIR/build/NAME.wasm]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Do not check the component, which saves a few seconds for a large one. The server checks it when it is uploaded
    #[arg(long)]
    no_check: bool,
}

const TARGET: &str = "wasm32-wasip2";
/// The oldest Go that can export functions.
const OLDEST_GO: (u32, u32) = (1, 24);

/// Make a component smaller: remove everything that is not code, except the names of functions
#[derive(Debug, Args)]
pub struct Strip {
    component: PathBuf,
    /// Where to write the smaller component
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl Strip {
    pub fn run(self) -> anyhow::Result<()> {
        write_stripped(&self.component, &self.out)
    }
}

fn write_stripped(component: &Path, out: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(component).with_context(|| format!("cannot read {}", component.display()))?;
    let stripped = strip(&bytes).with_context(|| component.display().to_string())?;
    fs::write(out, stripped).with_context(|| format!("cannot write {}", out.display()))
}

impl Build {
    pub fn run(self, json: bool) -> anyhow::Result<()> {
        let project = Project::open(&self.dir)?;
        let out = self.out.unwrap_or_else(|| project.component());
        build(&project, &out)?;
        if self.no_check {
            let size = fs::metadata(&out).with_context(|| format!("cannot read {}", out.display()))?.len();
            return check::report(json, &out, size, None);
        }
        check::check(json, &project, &out)
    }
}

/// What can be built from a project.
pub enum Product {
    Component,
    /// The component in which `windlass dev` runs sources. Only for languages that have such a runtime.
    Runtime,
    /// The sources for that runtime, as one text.
    Sources {
        check: bool,
    },
}

/// Builds the component and writes it to `out`, completely or not at all.
pub fn build(project: &Project, out: &Path) -> anyhow::Result<()> {
    make(project, &Product::Component, out)
}

/// The same for any product.
pub fn make(project: &Project, product: &Product, out: &Path) -> anyhow::Result<()> {
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let out = &std::path::absolute(out)?;
    let part = &out.with_extension("wasm.part");
    match project.lang {
        Lang::Rust => rust(project, part)?,
        Lang::Python => python(project, product, part)?,
        Lang::Js | Lang::Ts => javascript(project, product, part)?,
        Lang::Go => go(project, part)?,
        Lang::C => c(project, part)?,
    }
    fs::rename(part, out).with_context(|| format!("cannot write {}", out.display()))
}

fn rust(project: &Project, out: &Path) -> anyhow::Result<()> {
    let rustup = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh";
    tools::need("cargo", "it builds Rust", rustup)?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]);
    cargo.current_dir(&project.folder);
    let lock = cargo_lock(&project.folder);
    let is_locked = lock.exists();
    if is_locked {
        cargo.arg("--locked");
    } else {
        say(&format!(
            "{} holds the versions and digests of all crates from now on; keep it with the sources",
            lock.display()
        ));
    }
    if let Some(rustc) = rustc_with_target()? {
        cargo.env("RUSTC", rustc);
    }
    say("building (cargo)");
    cargo.stderr(std::process::Stdio::inherit());
    let output = cargo.output().context("cannot start cargo")?;
    if !output.status.success() {
        let renew = "; if Cargo.toml has changed, `cargo update --workspace` brings Cargo.lock up to date";
        bail!(
            "the build failed: cargo exited with {}; its output is above{}",
            output.status,
            if is_locked { renew } else { "" }
        );
    }
    let built = last_component(&output.stdout, &project.folder)
        .context("cargo built no component: Cargo.toml needs `crate-type = [\"cdylib\", \"rlib\"]` under [lib]")?;
    write_stripped(Path::new(&built), out)
}

/// The lock file of the workspace that a folder belongs to.
fn cargo_lock(folder: &Path) -> PathBuf {
    let mut locate = Command::new("cargo");
    locate.args(["locate-project", "--workspace", "--message-format", "plain"]).current_dir(folder);
    let manifest = ask(&mut locate).map_or_else(|| folder.join("Cargo.toml"), PathBuf::from);
    manifest.with_file_name("Cargo.lock")
}

/// The component that cargo reports for this folder's package.
fn last_component(messages: &[u8], folder: &Path) -> Option<String> {
    let manifest = folder.join("Cargo.toml");
    let lines = String::from_utf8_lossy(messages);
    let mut built =
        lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).filter(|message| {
            message["reason"] == "compiler-artifact"
                && message["manifest_path"].as_str().map(Path::new) == Some(&manifest)
        });
    let files = built.next_back()?["filenames"].clone();
    files.as_array()?.iter().filter_map(|file| file.as_str()).find(|file| file.ends_with(".wasm")).map(str::to_owned)
}

/// A compiler that has the target; `None` for cargo's default.
fn rustc_with_target() -> anyhow::Result<Option<PathBuf>> {
    let has_std = |rustc: &OsStr| {
        let folder = ask(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]));
        let names = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        names.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
    };
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if has_std(&rustc) {
        return Ok(None);
    }
    // A toolchain that was installed without rustup.
    for entry in fs::read_dir(tools::cache()?)?.flatten() {
        let toolchain = entry.path().join("rustc");
        if entry.file_name().to_string_lossy().starts_with("rust-web-") && has_std(toolchain.as_os_str()) {
            return Ok(Some(toolchain));
        }
    }
    if tools::found("rustup").is_some() {
        say(&format!("adding the target {TARGET} to your Rust toolchain (rustup target add {TARGET})"));
        run(Command::new("rustup").args(["target", "add", TARGET]), "rustup could not add the target")?;
        return Ok(None);
    }
    bail!("the Rust target {TARGET} is missing: components are built for it. To get it: rustup target add {TARGET}")
}

fn python(project: &Project, product: &Product, out: &Path) -> anyhow::Result<()> {
    let sdk = project.sdk();
    let lock = sdk.join("requirements.txt");
    let python = tools::venv("python", &lock, "componentize-py, which turns Python into components")?;
    announce(product, "componentize-py");
    let mut build = Command::new(python);
    build.arg(sdk.join("build.py"));
    script(project, product, &mut build, "componentize-py", out)
}

fn javascript(project: &Project, product: &Product, out: &Path) -> anyhow::Result<()> {
    let sdk = project.sdk();
    tools::need("node", "it runs the tools that turn JavaScript into a component", tools::NODE)?;
    let modules = tools::node_modules(&sdk.join("tools"))?;
    announce(product, "esbuild, componentize-qjs");
    let mut build = Command::new("node");
    build.arg(sdk.join("build.mjs")).env("WINDLASS_TOOLS", modules);
    script(project, product, &mut build, "the JavaScript build", out)
}

/// Reports a build. Collecting sources is too quick to be reported.
fn announce(product: &Product, tools: &str) {
    match product {
        Product::Component | Product::Runtime => say(&format!("building ({tools})")),
        Product::Sources { .. } => {}
    }
}

/// Runs the build script of an SDK: the folder and the output are arguments, the rest is in the environment.
fn script(project: &Project, product: &Product, command: &mut Command, name: &str, out: &Path) -> anyhow::Result<()> {
    match product {
        Product::Component => {}
        Product::Runtime => {
            command.arg("--runtime");
        }
        Product::Sources { check } => {
            command.arg("--sources").env("WINDLASS_BUILD_CHECK", if *check { "1" } else { "0" });
        }
    }
    command.arg(&project.folder).arg(out).current_dir(&project.folder);
    if let Some(entry) = &project.manifest.build.entry {
        command.env("WINDLASS_BUILD_ENTRY", entry);
    }
    if project.manifest.build.http {
        command.env("WINDLASS_BUILD_HTTP", "1");
    }
    match product {
        Product::Component | Product::Runtime => run_tool(command, name, "the build failed"),
        Product::Sources { .. } => {
            let status = command.status().with_context(|| format!("cannot start {name}"))?;
            anyhow::ensure!(status.success(), "the sources were refused; the reason is above");
            Ok(())
        }
    }
}

fn go(project: &Project, out: &Path) -> anyhow::Result<()> {
    let mut go = Command::new(go_program(project)?);
    say("building (go)");
    let module = out.with_extension("module");
    // Without the flag, the linker refuses that the SDK allocates memory outside Go's heap, which values from the host
    // need.
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-checklinkname=0 -s -w", "-o"])
        .arg(&module)
        .arg(".");
    go.envs([("GOOS", "wasip1"), ("GOARCH", "wasm"), ("CGO_ENABLED", "0")]).current_dir(&project.folder);
    // go.mod must not make it download another Go. What go.sum does not name, it refuses without being told.
    go.env("GOTOOLCHAIN", "local");
    run_tool(&mut go, "go", "the build failed")?;
    finish(&module, out)
}

/// Go on the PATH if it is new enough, otherwise one in the cache.
fn go_program(project: &Project) -> anyhow::Result<PathBuf> {
    let version = ask(Command::new("go").args(["env", "GOVERSION"]));
    if version.as_deref().and_then(go_version).is_some_and(|version| version >= OLDEST_GO) {
        return Ok(PathBuf::from("go"));
    }
    let lock = project.sdk().join("requirements.txt");
    let python = tools::venv("go", &lock, "its own Go, because the PATH has no version from 1.24 on")?;
    Ok(python.with_file_name("go"))
}

fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("go")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The files of the C SDK that are compiled into a plugin.
const C_SDK: [&str; 4] = ["windlass.c", "windlass_imports.c", "windlass_http.c", "bindings/windlass_wit.c"];

fn c(project: &Project, out: &Path) -> anyhow::Result<()> {
    let sdk = project.sdk();
    let sources = c_sources(&project.folder)?;
    let lock = sdk.join("requirements.txt");
    let python = tools::venv("zig", &lock, "zig cc, which compiles C to WebAssembly")?;
    say("building (zig cc)");
    let module = out.with_extension("module");
    let cache = tools::cache()?.join("zig-cache");
    let mut cc = Command::new(python);
    cc.args([
        "-m",
        "ziglang",
        "cc",
        "-target",
        "wasm32-wasi",
        "-mexec-model=reactor",
        "-std=gnu11",
        "-Wall",
        "-Os",
        "-s",
    ]);
    // Without it an instance uses 16 MiB for its stack.
    cc.arg("-Wl,-z,stack-size=1048576").arg("-I").arg(&sdk).arg("-I").arg(&project.folder);
    cc.args(&sources).args(C_SDK.map(|file| sdk.join(file))).arg("-o").arg(&module);
    cc.env("ZIG_GLOBAL_CACHE_DIR", &cache).env("ZIG_LOCAL_CACHE_DIR", &cache).current_dir(&project.folder);
    run_tool(&mut cc, "zig cc", "the build failed")?;
    finish(&module, out)
}

/// Every `.c` of the folder and of `src/`, but not the tests.
fn c_sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for place in [folder.to_path_buf(), folder.join("src")] {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".c") && !name.ends_with("_test.c") && !name.starts_with("test_") {
                sources.push(entry.path());
            }
        }
    }
    sources.sort();
    if sources.is_empty() {
        bail!("there is no .c file in {} or in its src/", folder.display());
    }
    Ok(sources)
}

/// Turns the module that a compiler produced into a component.
fn finish(module: &Path, out: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let _ = fs::remove_file(module);
    fs::write(out, componentize(bytes)?).with_context(|| format!("cannot write {}", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_go_is_read() {
        assert_eq!(go_version("go1.27.3"), Some((1, 27)));
        assert_eq!(go_version("go1.24"), Some((1, 24)));
        assert_eq!(go_version("devel"), None);
    }

    #[test]
    fn tests_are_not_part_of_a_component() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["b.c", "a.c", "a_test.c", "test_b.c", "a.h"] {
            fs::write(dir.path().join(name), "").expect("room");
        }
        let names: Vec<_> = c_sources(dir.path())
            .expect("two")
            .iter()
            .filter_map(|path| path.file_name())
            .map(OsStr::to_os_string)
            .collect();
        assert_eq!(names, ["a.c", "b.c"]);
    }

    #[test]
    fn the_component_of_the_folder_is_chosen_and_no_other() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","filenames":["/t/p.wasm","/t/libp.rlib"]}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/q/Cargo.toml","filenames":["/t/q.wasm"]}"#,
            "\n{\"reason\":\"build-finished\"}\n"
        );
        assert_eq!(last_component(messages.as_bytes(), Path::new("/p")).as_deref(), Some("/t/p.wasm"));
        assert_eq!(last_component(messages.as_bytes(), Path::new("/r")), None);
    }
}

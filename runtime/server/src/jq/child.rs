//! The child that runs a filter: reads it, checks it, and then reports for each payload whether it matches. A filter
//! can gain nothing there: the child has no environment, no files but its pipes, limits on its memory and processor
//! time, and hardly any system calls.

use std::io::{BufReader, BufWriter, Write, stdin, stdout};

use jaq_core::data::JustLut;
use jaq_core::load::{Arena, Error as LoadError, File, Loader, span};
use jaq_core::{Compiler, Ctx, Filter, Vars};
use jaq_json::{Val, read};
use rustix::process::{Resource, Rlimit, setrlimit};
use windlass_executor::confinement::confine;
use windlass_store::idle_thread::use_idle_priority;

use crate::jq::{needles, wire};
use crate::json::is_deeper;
use crate::limits;

type Data = JustLut<Val>;

/// Runs until the other side closes the pipe.
pub fn run() -> std::io::Result<()> {
    bound();
    // Before it reads anything. A protection that is missing is what `windlass doctor` reports.
    confine();
    let mut input = BufReader::with_capacity(1 << 20, stdin().lock());
    let mut output = BufWriter::new(stdout().lock());
    let code = wire::read_filter(&mut input)?;
    let filter = match compile(&code) {
        Ok(filter) => filter,
        Err(why) => return wire::write_checked(&mut output, &Err(why)),
    };
    wire::write_checked(&mut output, &Ok(needles::of(&code)))?;
    use_idle_priority();
    while let Some((ends, bytes)) = wire::read_payloads(&mut input)? {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let payloads = starts.zip(&ends).map(|(from, until)| &bytes[from..*until]);
        let passes: Vec<bool> = payloads.map(|payload| passes(&filter, payload)).collect();
        wire::write_passes(&mut output, &passes)?;
    }
    output.flush()
}

/// Limits that hold whatever the filter does. If one cannot be set, the others and the server's own check remain.
fn bound() {
    let bounds = [
        (Resource::Data, limits::JQ_MEMORY),
        (Resource::As, 4 * limits::JQ_MEMORY),
        (Resource::Cpu, limits::JQ_CPU.as_secs()),
        (Resource::Core, 0),
    ];
    for (resource, most) in bounds {
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Whether the filter yields anything but `false`, `null` and errors.
fn passes(filter: &Filter<Data>, payload: &[u8]) -> bool {
    // The parser recurses for every level, and a stack overflow would end the child.
    if is_deeper(payload, limits::JQ_DEPTH) {
        return false;
    }
    let Ok(value) = read::parse_single(payload) else { return false };
    let context = Ctx::<Data>::new(&filter.lut, Vars::new([]));
    let outputs = filter.id.run((context, value)).take(limits::JQ_OUTPUTS);
    outputs.map_while(Result::ok).any(|value| !matches!(value, Val::Null | Val::Bool(false)))
}

fn compile(code: &str) -> Result<Filter<Data>, String> {
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let modules = Loader::new(defs).load(&arena, File { code, path: () }).map_err(|errors| {
        let first = errors.into_iter().find_map(|(file, error)| explain_load(file.code, error));
        first.unwrap_or_else(|| "it cannot be parsed".into())
    })?;
    Compiler::default().with_funs(funs).compile(modules).map_err(|errors| {
        let mut all = errors.into_iter().flat_map(|(file, errors)| {
            errors
                .into_iter()
                .map(move |(name, what)| at(file.code, name, &format!("there is no {} with this name", what.as_str())))
        });
        all.next().unwrap_or_else(|| "it cannot be compiled".into())
    })
}

fn explain_load(code: &str, error: LoadError<&str>) -> Option<String> {
    match error {
        LoadError::Io(files) => files.first().map(|(path, _)| at(code, path, "modules cannot be loaded here")),
        LoadError::Lex(errors) => {
            errors.first().map(|(expected, found)| at(code, found, &format!("a {} should be here", expected.as_str())))
        }
        LoadError::Parse(errors) => {
            errors.first().map(|(expected, found)| at(code, found, &format!("a {} should be here", expected.as_str())))
        }
    }
}

/// An error message with its position in the filter.
fn at(code: &str, part: &str, what: &str) -> String {
    let start = span(code, part).start.min(code.len());
    let position = code.get(..start).map_or(start, |before| before.chars().count()) + 1;
    let rest: String = code.get(start..).unwrap_or_default().chars().take(20).collect();
    if rest.is_empty() { format!("at its end: {what}") } else { format!("at character {position}, `{rest}`: {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_passes_when_the_filter_yields_something_true() {
        for (code, payload, expected) in [
            (".a == 1", r#"{"a": 1}"#, true),
            (".a == 1", r#"{"a": 2}"#, false),
            (".a", r#"{"a": null}"#, false),
            (".a", r#"{"a": 0}"#, true),
            ("select(.n > 5) | .name", r#"{"n": 6, "name": "x"}"#, true),
            ("select(.n > 5)", r#"{"n": 5}"#, false),
            (".items[] | .sku == \"b\"", r#"{"items": [{"sku": "a"}, {"sku": "b"}]}"#, true),
            (".a.b", r#"{"a": "text"}"#, false),
            (".a", "not json", false),
            ("repeat(false)", "{}", false),
            (".name | test(\"^x\")", r#"{"name": "xy"}"#, true),
        ] {
            let filter = compile(code).unwrap_or_else(|error| panic!("{code}: {error}"));
            assert_eq!(passes(&filter, payload.as_bytes()), expected, "{code} on {payload}");
        }
    }

    #[test]
    fn a_payload_that_is_nested_too_deep_matches_no_filter_and_does_no_harm() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
        for code in [".", "[..] | length", "tojson", "walk(.)"] {
            let filter = compile(code).unwrap_or_else(|error| panic!("{code}: {error}"));
            assert!(passes(&filter, &nested(100)), "{code}");
            for depth in [limits::JQ_DEPTH + 1, 200_000] {
                assert!(!passes(&filter, &nested(depth)), "{code}");
            }
        }
    }

    #[test]
    fn the_error_of_a_filter_has_its_position() {
        for (code, position) in [
            (".a ==", "at its end"),
            (".a == (1", "closing parenthesis"),
            (".a | nosuch(1)", "at character 6"),
            (".a | $x", "at character 6"),
            ("\"\\q\"", "at character"),
            ("", "at its end"),
        ] {
            let error = compile(code).err().unwrap_or_else(|| panic!("{code} is wrong"));
            assert!(error.contains(position), "{code}: {error}");
        }
        assert!(compile("include \"/etc/passwd\"; .").is_err());
    }
}

//! Makes a component smaller without changing what it does: of its custom sections only the function names remain, for
//! backtraces, and they are demangled.
//!
//! Mangled names can be twice as long as the code of a stripped function. Called by `windlass plugin build`.

use rustc_demangle::try_demangle;

/// A component or module that is truncated, or declares a wrong length.
#[derive(Debug, thiserror::Error)]
#[error("the component cannot be made smaller, because it ends in the middle of a section; build it again")]
pub struct Broken;

pub(crate) const HEADER_BYTES: usize = 8;
pub(crate) const CUSTOM: u8 = 0;
/// In a component, the section that holds a core module.
const CORE_MODULE: u8 = 1;
/// In the section `name`, the part with the names of functions.
const FUNCTIONS: u8 = 1;
/// Of a longer name the end is retained, because the function's own name is there.
const NAME_BYTES: usize = 48;

/// The same component, smaller.
pub fn strip(component: &[u8]) -> Result<Vec<u8>, Broken> {
    rewrite(component, |kind, content, out| {
        match kind {
            CUSTOM => {}
            CORE_MODULE if content.starts_with(b"\0asm") => section(kind, &module(content)?, out),
            _ => section(kind, content, out),
        }
        Ok(())
    })
}

fn module(module: &[u8]) -> Result<Vec<u8>, Broken> {
    rewrite(module, |kind, content, out| {
        if kind != CUSTOM {
            section(kind, content, out);
            return Ok(());
        }
        let mut rest = content;
        if text(&mut rest)? == b"name" {
            let mut retained = vec![4];
            retained.extend(b"name");
            retained.extend(names(rest)?);
            section(CUSTOM, &retained, out);
        }
        Ok(())
    })
}

/// Copies the header, and each section as `each` writes it.
fn rewrite(
    bytes: &[u8],
    mut each: impl FnMut(u8, &[u8], &mut Vec<u8>) -> Result<(), Broken>,
) -> Result<Vec<u8>, Broken> {
    let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(Broken)?;
    let mut out = header.to_vec();
    while let Some((kind, after)) = rest.split_first() {
        rest = after;
        let content = text(&mut rest)?;
        each(*kind, content, &mut out)?;
    }
    Ok(out)
}

/// The names of functions; those of locals, data and types are omitted.
fn names(mut rest: &[u8]) -> Result<Vec<u8>, Broken> {
    let mut out = Vec::new();
    while let Some((kind, after)) = rest.split_first() {
        rest = after;
        let mut part = text(&mut rest)?;
        if *kind != FUNCTIONS {
            continue;
        }
        let count = number(&mut part)?;
        let mut names = Vec::new();
        write_number(count, &mut names);
        for _ in 0..count {
            write_number(number(&mut part)?, &mut names);
            let name = plain(&String::from_utf8_lossy(text(&mut part)?));
            write_number(name.len(), &mut names);
            names.extend(name.as_bytes());
        }
        section(FUNCTIONS, &names, &mut out);
    }
    Ok(out)
}

/// A name demangled, without the compiler's hash, and shortened.
fn plain(name: &str) -> String {
    let name = match try_demangle(name) {
        Ok(demangled) => format!("{demangled:#}"),
        Err(_) => name.to_owned(),
    };
    let mut cut = name.len().saturating_sub(NAME_BYTES);
    while !name.is_char_boundary(cut) {
        cut += 1;
    }
    if cut == 0 { name } else { format!("…{}", &name[cut..]) }
}

pub(crate) fn section(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    write_number(content.len(), out);
    out.extend(content);
}

/// Reads bytes that are preceded by their length.
pub(crate) fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Broken> {
    let length = number(rest)?;
    let (text, after) = rest.split_at_checked(length).ok_or(Broken)?;
    *rest = after;
    Ok(text)
}

/// Reads an unsigned LEB128 number.
fn number(rest: &mut &[u8]) -> Result<usize, Broken> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(Broken)?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return usize::try_from(value).map_err(|_| Broken);
        }
    }
    Err(Broken)
}

pub(crate) fn write_number(mut value: usize, out: &mut Vec<u8>) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(byte);
        }
        out.push(byte | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"(component
        (core module
            (func $_ZN6digest5tally5Tally4hash17h8bedc8fb89d4c30eE (param $first i32))
            (func $plain)
            (@custom "producers" "nobody reads this"))
        (@custom "component-name" "nor this"))"#;

    #[test]
    fn names_are_demangled_and_other_custom_sections_removed() {
        let whole = wat::parse_str(TEXT).expect("a component");
        let stripped = strip(&whole).expect("a component");
        assert!(stripped.len() < whole.len());
        let has = |text: &str| stripped.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has("digest::tally::Tally::hash") && has("plain"));
        for gone in ["_ZN6digest", "17h8bedc8fb89d4c30e", "producers", "nobody reads this", "component-name", "first"] {
            assert!(!has(gone), "{gone}");
        }
        wasmtime::Engine::default().precompile_component(&stripped).expect("still a component");
        assert_eq!(strip(&stripped).expect("a component"), stripped, "nothing is left to remove");
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        let name = plain(&format!("{}::last", "é".repeat(50)));
        assert!(name.starts_with('…') && name.ends_with("é::last") && name.len() <= NAME_BYTES + 4, "{name}");
    }

    #[test]
    fn a_truncated_component_is_refused() {
        let whole = wat::parse_str(TEXT).expect("a component");
        let cut: Vec<usize> = (0..whole.len()).filter(|end| strip(&whole[..*end]).is_ok()).collect();
        assert!(cut.len() < 8, "only where a section ends: {cut:?}");
    }
}

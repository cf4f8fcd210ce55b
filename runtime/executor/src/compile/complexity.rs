//! Rejects components that would take the compiler too long, because it cannot be interrupted.

use wasmparser::{Parser, Payload};

use crate::error::Rejected;

/// Checks the size of every function. Bytes that cannot be parsed pass, because the compiler reports what is wrong with
/// them.
pub(crate) fn check(bytes: &[u8], limit: usize) -> Result<(), Rejected> {
    let mut function = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload {
            Ok(Payload::CodeSectionStart { .. }) => function = 0,
            Ok(Payload::CodeSectionEntry(body)) => {
                let size = body.range().len();
                if size > limit {
                    return Err(Rejected::FunctionTooLarge { function, size, limit });
                }
                function += 1;
            }
            Ok(_) => {}
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_giant_function_is_refused_by_its_number() {
        let giant = "(drop (i32.const 1))".repeat(100);
        let text = format!("(component (core module (func) (func {giant})))");
        let bytes = wat::parse_str(text).expect("good text");
        assert!(matches!(check(&bytes, 300), Err(Rejected::FunctionTooLarge { function: 1, limit: 300, .. })));
        assert_eq!(check(&bytes, 400), Ok(()));
        assert_eq!(check(&bytes[..bytes.len() / 2], 300), Ok(()), "truncated: the compiler reports what is wrong");
    }
}

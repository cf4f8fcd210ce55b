//! Reading requests: JSON with errors that name the field, path and query parts.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::Uri;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use windlass_core::{JobId, Name};
use windlass_store::Caller;

use crate::http::Shared;
use crate::http::access::NAMESPACE_PARAMETER;
use crate::http::transport::body::{HeldBody, read};
use crate::http::transport::error::{Error, Result};
use crate::http::transport::unknown;
use crate::http::transport::unknown::Unknown;
use crate::http::transport::warnings;
use crate::json::is_deeper;
use crate::limits;

/// A whole request body, within `--max-body`.
pub struct Body {
    held: HeldBody,
    /// The client wants unknown fields to be refused.
    strict: bool,
}

impl FromRequest<Shared> for Body {
    type Rejection = Error;
    async fn from_request(request: Request, api: &Shared) -> Result<Body> {
        let strict = is_strict(request.uri());
        let held = read(request, api, api.max_body, "start the server with a larger --max-body").await?;
        Ok(Body { held, strict })
    }
}

impl Body {
    /// The whole body, unchanged.
    pub fn bytes(&self) -> Bytes {
        self.held.bytes.clone()
    }

    /// The body as `T`. Fields that `T` does not know become warnings, or a refusal when the client wants that.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        let (value, unknown) = self.watched()?;
        self.report(unknown)?;
        Ok(value)
    }

    /// The body as `T`, and what `T` does not know.
    pub fn watched<'a, T: Deserialize<'a>>(&'a self) -> Result<(T, Unknown)> {
        parse_watched(&self.held.bytes)
    }

    /// An object whose fields two types share; empty when there is no body.
    pub fn json_both<'a, A, B>(&'a self) -> Result<(A, B)>
    where
        A: Deserialize<'a> + Default,
        B: Deserialize<'a> + Default,
    {
        if self.held.bytes.trim_ascii().is_empty() {
            return Ok(Default::default());
        }
        let ((first, unknown), (second, other)) = (self.watched()?, self.watched()?);
        self.report(unknown.both(other))?;
        Ok((first, second))
    }

    /// A part of the body that was not parsed until now; `place` is its path in the body.
    pub fn json_part<'a, T: Deserialize<'a>>(&self, raw: &'a RawValue, place: &str) -> Result<T> {
        let (value, unknown) = unknown::read(&mut serde_json::Deserializer::from_str(raw.get()))
            .map_err(|error| Error::field(place, without_place(&error.to_string())))?;
        self.report(unknown.under(place))?;
        Ok(value)
    }

    /// Warns the client about unknown fields, or refuses the request because of them.
    pub fn report(&self, unknown: Unknown) -> Result<()> {
        report(unknown, "field", self.strict)
    }

    /// Refuses JSON that is nested too deeply for its later readers.
    pub fn check_depth(&self) -> Result<()> {
        check_depth(&self.held.bytes)
    }

    /// For requests whose body may be omitted.
    pub fn json_or_default<'a, T: Deserialize<'a> + Default>(&'a self) -> Result<T> {
        if self.held.bytes.trim_ascii().is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// The bytes of a part of this body, without copying them.
    pub fn part(&self, raw: &RawValue) -> Bytes {
        self.held.bytes.slice_ref(raw.get().as_bytes())
    }
}

/// JSON as `T`. Text that is not JSON and JSON that does not match `T` are different errors; the latter names the
/// field.
pub fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    check_depth(bytes)?;
    // The path is only determined when there is an error to report.
    serde_json::from_slice(bytes).map_err(|error| explain::<T>(bytes, &error))
}

/// The same, with the fields that `T` does not know.
fn parse_watched<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, Unknown)> {
    check_depth(bytes)?;
    let json = &mut serde_json::Deserializer::from_slice(bytes);
    let read = unknown::read(&mut *json).and_then(|read| json.end().map(|()| read));
    read.map_err(|error| explain::<T>(bytes, &error))
}

/// Whether the client wants unknown fields to be refused: `?strict=true`.
fn is_strict(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    pairs.any(|pair| matches!(pair, "strict" | "strict=true" | "strict=1"))
}

/// Adds warnings to the response, or refuses the request with the same sentences if the client is strict.
fn report(unknown: Unknown, what: &str, strict: bool) -> Result<()> {
    let sentences = unknown.sentences(what);
    if strict && !sentences.is_empty() {
        return Err(Error::invalid(sentences.join("; ")));
    }
    sentences.into_iter().for_each(warnings::add);
    Ok(())
}

fn check_depth(bytes: &[u8]) -> Result<()> {
    let most = limits::JSON_DEPTH;
    if !is_deeper(bytes, most) {
        return Ok(());
    }
    Err(Error::invalid(format!("the body is nested deeper than {most} levels of objects and lists; make it flatter")))
}

fn explain<'a, T: Deserialize<'a>>(bytes: &'a [u8], error: &serde_json::Error) -> Error {
    if !error.is_data() {
        return Error::not_json(format!("the body is not JSON: {error}"));
    }
    let deserializer = &mut serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(deserializer) {
        Err(error) if error.path().iter().next().is_some() => {
            Error::field(&error.path().to_string(), without_place(&error.inner().to_string()))
        }
        _ => Error::invalid(format!(
            "the body does not match what this request expects: {}",
            without_place(&error.to_string())
        )),
    }
}

/// Line and column are not needed once the field is named.
fn without_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message)
}

/// The job id in the path. A text that is not a job id is treated as a job that does not exist.
pub struct JobPath(pub JobId);

impl FromRequestParts<Shared> for JobPath {
    type Rejection = Error;
    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<JobPath> {
        let text = path(parts, api).await?;
        let id = text.parse();
        id.map(JobPath).map_err(|wrong| Error::not_found(format!("there is no job `{text}`: {wrong}")))
    }
}

/// Who sends the request. Access control has put it there.
pub fn caller(parts: &Parts) -> Result<Arc<Caller>> {
    let caller = parts.extensions.get::<Arc<Caller>>().cloned();
    caller.ok_or_else(|| Error::internal("a request came past access control"))
}

/// The name of a queue, a plugin or a schedule in the path: one of the caller's namespace.
pub struct NamePath(pub Name);

impl FromRequestParts<Shared> for NamePath {
    type Rejection = Error;
    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<NamePath> {
        let name = Name::parse("name", &path(parts, api).await?)?;
        Ok(NamePath(name.within(&caller(parts)?.allowed.namespace)))
    }
}

async fn path(parts: &mut Parts, api: &Shared) -> Result<String> {
    let path = Path::<String>::from_request_parts(parts, api).await;
    path.map(|Path(text)| text).map_err(|error| Error::invalid(format!("the path cannot be read: {error}")))
}

/// Any text in the path, such as the name a worker gave itself.
pub struct TextPath(pub String);

impl FromRequestParts<Shared> for TextPath {
    type Rejection = Error;
    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<TextPath> {
        path(parts, api).await.map(TextPath)
    }
}

/// The query, as `T`.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Error;
    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Query<T>> {
        let pairs = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        match unknown::read::<T, _>(serde_urlencoded::Deserializer::new(pairs)) {
            Ok((query, unknown)) => {
                let unknown = unknown.without("strict");
                // With a session, access control has read the namespace.
                let has_session = caller(parts).is_ok_and(|caller| caller.session.is_some());
                let unknown = if has_session { unknown.without(NAMESPACE_PARAMETER) } else { unknown };
                report(unknown, "query parameter", is_strict(&parts.uri))?;
                Ok(Query(query))
            }
            // The error names the parameter.
            Err(_) => {
                let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
                query.map(|query| Query(query.0)).map_err(|error| Error::invalid(error.body_text()))
            }
        }
    }
}

#[cfg(test)]
impl From<&str> for Body {
    fn from(text: &str) -> Body {
        Body { held: text.into(), strict: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_is_read_from_the_query() {
        for (uri, expected) in [
            ("/x", false),
            ("/x?strict=true", true),
            ("/x?a=b&strict", true),
            ("/x?strict=false", false),
            ("/x?restrict=true", false),
        ] {
            assert_eq!(is_strict(&Uri::from_static(uri)), expected, "{uri}");
        }
    }
}

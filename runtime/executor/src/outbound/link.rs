//! Links `wasi:http`, with limits where the default implementation has none: a request that is never sent takes host
//! memory, and the guest chooses its method, host, path and headers.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, LinkerInstance, Resource, ResourceTable};
use wasmtime_wasi_http::p2::HeaderError;
use wasmtime_wasi_http::p2::bindings::http::types::{self, HostFields, HostOutgoingRequest, Method, Scheme};
use wasmtime_wasi_http::p2::types::HostOutgoingRequest as Unsent;
use wasmtime_wasi_http::{FieldMap, WasiHttpView};

use crate::attempt::state::State;
use crate::limits::{HTTP_AUTHORITY_BYTES, HTTP_METHOD_BYTES, HTTP_PATH_BYTES, HTTP_UNSENT};

/// The interface as wasmtime names it; it serves guests built for any 0.2 version.
const TYPES: &str = "wasi:http/types@0.2.12";

/// Traps a guest that creates requests without sending them. `wasi:http` has no error code for this.
#[derive(Debug, thiserror::Error)]
#[error(
    "it holds {HTTP_UNSENT} HTTP requests and lists of headers that it has not sent; send or drop some before making more"
)]
struct TooManyUnsent;

type Set = Result<(), ()>;

pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
    link_makers(&mut types)?;
    link_setters(&mut types)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// What makes an entry in the guest's table: there may be only so many.
fn link_makers(types: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    types.func_wrap("[constructor]fields", |mut store: StoreContextMut<'_, State>, (): ()| {
        let mut http = store.data_mut().http();
        check_unsent(http.table)?;
        Ok((HostFields::new(&mut http)?,))
    })?;
    types.func_wrap(
        "[static]fields.from-list",
        |mut store: StoreContextMut<'_, State>, (entries,): (Vec<(String, Vec<u8>)>,)| {
            let mut http = store.data_mut().http();
            check_unsent(http.table)?;
            Ok((guest_visible(HostFields::from_list(&mut http, entries))?,))
        },
    )?;
    types.func_wrap(
        "[method]fields.clone",
        |mut store: StoreContextMut<'_, State>, (fields,): (Resource<FieldMap>,)| {
            let mut http = store.data_mut().http();
            check_unsent(http.table)?;
            Ok((HostFields::clone(&mut http, fields)?,))
        },
    )?;
    types.func_wrap(
        "[constructor]outgoing-request",
        |mut store: StoreContextMut<'_, State>, (headers,): (Resource<FieldMap>,)| {
            let mut http = store.data_mut().http();
            check_unsent(http.table)?;
            Ok((HostOutgoingRequest::new(&mut http, headers)?,))
        },
    )
}

/// What sets a part of a request: it may be only so long.
fn link_setters(types: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store: StoreContextMut<'_, State>, (request, method): (Resource<Unsent>, Method)| {
            let too_long = matches!(&method, Method::Other(text) if text.len() > HTTP_METHOD_BYTES);
            let set = |http: &mut _| HostOutgoingRequest::set_method(http, request, method);
            Ok((if too_long { Set::Err(()) } else { set(&mut store.data_mut().http())? },))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut store: StoreContextMut<'_, State>, (request, path): (Resource<Unsent>, Option<String>)| {
            let too_long = path.as_ref().is_some_and(|path| path.len() > HTTP_PATH_BYTES);
            let set = |http: &mut _| HostOutgoingRequest::set_path_with_query(http, request, path);
            Ok((if too_long { Set::Err(()) } else { set(&mut store.data_mut().http())? },))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-scheme",
        |mut store: StoreContextMut<'_, State>, (request, scheme): (Resource<Unsent>, Option<Scheme>)| {
            let too_long = matches!(&scheme, Some(Scheme::Other(text)) if text.len() > HTTP_METHOD_BYTES);
            let set = |http: &mut _| HostOutgoingRequest::set_scheme(http, request, scheme);
            Ok((if too_long { Set::Err(()) } else { set(&mut store.data_mut().http())? },))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store: StoreContextMut<'_, State>, (request, authority): (Resource<Unsent>, Option<String>)| {
            let too_long = authority.as_ref().is_some_and(|authority| authority.len() > HTTP_AUTHORITY_BYTES);
            let set = |http: &mut _| HostOutgoingRequest::set_authority(http, request, authority);
            Ok((if too_long { Set::Err(()) } else { set(&mut store.data_mut().http())? },))
        },
    )
}

/// Whether the guest may create one more. Counted each time, because entries leave the table in many ways.
fn check_unsent(table: &mut ResourceTable) -> wasmtime::Result<()> {
    let unsent = table.iter_mut().filter(|entry| entry.is::<Unsent>() || entry.is::<FieldMap>()).count();
    if unsent < HTTP_UNSENT { Ok(()) } else { Err(TooManyUnsent.into()) }
}

/// Separates errors that the guest may see from traps.
fn guest_visible<T>(answer: Result<T, HeaderError>) -> wasmtime::Result<Result<T, types::HeaderError>> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(error) => error.downcast().map(Err),
    }
}

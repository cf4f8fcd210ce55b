//! `windlass:dev/sources`: the files that `windlass dev` sends along with a prepared runtime. Only such a runtime
//! imports it.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use crate::attempt::state::State;

/// One function, so it is linked by hand: `read: func() -> option<string>`.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.instance("windlass:dev/sources@0.1.0")?.func_wrap("read", |mut store: StoreContextMut<'_, State>, (): ()| {
        let state = store.data_mut();
        state.host_called();
        Ok((state.sources.as_ref().map(Arc::clone),))
    })
}

//! `config`: the plugin's own settings.

use crate::bindings::windlass::job::config as wit;
use crate::state::State;

impl wit::Host for State {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        self.host_called();
        Ok(self.permissions.config(&name).map(str::to_owned))
    }
}

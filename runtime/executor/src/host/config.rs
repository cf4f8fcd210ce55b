//! `config`: the plugin's own settings.

use crate::attempt::state::State;
use crate::bindings::windlass::job::config as wit;

impl wit::Host for State {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        self.host_called();
        Ok(self.permissions.config(&name).map(str::to_owned))
    }
}

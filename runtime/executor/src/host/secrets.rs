//! `secrets`: values that are shown to the guest they are granted to, and to nobody else.

use crate::attempt::state::State;
use crate::bindings::windlass::job::secrets as wit;
use crate::permissions::{Refused, SecretAnswer};

impl wit::Host for State {
    fn get(&mut self, name: String) -> wasmtime::Result<Result<String, wit::Refusal>> {
        self.host_called();
        Ok(match self.permissions.secret(&name) {
            SecretAnswer::Given(secret) => Ok(secret.reveal().to_owned()),
            SecretAnswer::Missing(how) => Err(wit::Refusal::Missing(how)),
            SecretAnswer::Denied(Refused { how, denied }) => {
                if let Some(denied) = denied {
                    self.gauge.deny(&denied);
                }
                Err(wit::Refusal::Denied(how))
            }
        })
    }
}

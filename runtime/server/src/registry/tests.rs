use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::{Blob, Name, NewJob, PluginCommand, Runner, Swap};
use windlass_executor::Config;
use windlass_store::{Assignment, By, Claim, Clock, Durability, Options};

use crate::clock::SystemClock;
use crate::registry::*;
use crate::secrets::keyring::KeyFile;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Makes the plugin `shop` serve these queues, without going through the registry.
async fn serve(store: &Store, component: Blob, queues: &[&str]) {
    let queues = Some(queues.iter().map(|queue| name(queue)).collect());
    let upload =
        PluginCommand::Upload { component, imports: vec![], manifest: None, queues, by: None, swap: Some(Swap::Drain) };
    store.change_plugin(name("shop"), upload).await.expect("it is stored");
}

async fn claim(store: &Store, queue: &str) -> Assignment {
    let job = NewJob { queue: Some(name(queue)), ..NewJob::default() };
    store.enqueue(vec![job]).await.expect("it is stored");
    let claim = Claim { by: By::Local, queues: Vec::new(), count: 1, wait: Duration::from_secs(10) };
    store.claim(claim).await.expect("it is claimed").remove(0)
}

#[tokio::test]
async fn an_attempt_may_use_all_queues_of_its_plugin_while_the_registrys_copy_is_out_of_date() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(SystemClock::start()) as Arc<dyn Clock>;
    let options = Options { dir: dir.path().to_owned(), durability: Durability::Os };
    let store = Store::open(options, clock).expect("a fresh folder");
    let component = store.store_blob(Bytes::from_static(b"no component")).await.expect("it is stored");
    serve(&store, component, &["orders"]).await;
    let executor = Executor::new(Config { instances: 1, ..Config::default() }).expect("an executor");
    let secrets =
        Secrets::load(store.clone(), &KeyFile::new(&dir.path().join("secrets.key"))).await.expect("a new key");
    let loading = Registry::load(store.clone(), executor, secrets, FolderScope::default(), limits::BODY);
    let registry = loading.await.expect("it is loaded");

    serve(&store, component, &["orders", "invoices"]).await;
    let Assignment { job, served, .. } = claim(&store, "orders").await;
    let Some(Runner::Local { plugin, version }) = job.run.map(|run| run.runner) else { panic!("no plugin") };
    let found = registry.find_stored(&plugin, &version).await.expect("it is stored");
    let setup = registry.setup_for(&plugin, &found, &served);
    assert_eq!(setup.permissions.queues, ["orders", "invoices"]);
}

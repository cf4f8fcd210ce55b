//! Good ways to sign in, and what a session of a person is.

use serde_json::json;
use windlass_e2e::{Browser, Data, Provider, Server, address_of_its_own};

use super::*;

#[test]
fn people_are_what_their_groups_make_them() {
    let provider = Provider::start();
    let server = start(&provider);
    make_namespace(&server, "acme", &json!({}));
    let stranger = server.without_key().get(STATUS).body;
    assert_eq!(stranger["methods"], json!(["key", "oidc"]), "{stranger}");
    assert_eq!(stranger["provider"], "127.0.0.1", "{stranger}");
    for (who, name, role, namespace, everywhere) in [
        ("ann", "Ann", "operator", "default", false),
        ("bob", "Bob", "admin", "default", true),
        ("cho", "cho@example.com", "viewer", "acme", false),
    ] {
        let mut browser = Browser::of(who);
        assert_eq!(sign_in(&server, &mut browser), "/ui/jobs?state=dead", "{who} returns to where they came from");
        assert!(browser.cookie(&server.url(CALLBACK), "windlass_sign_in").is_none(), "that is over");
        let shown = status(&server, &session(&server, &browser));
        for (field, expected) in [
            ("signed_in", json!(true)),
            ("actor", json!(format!("oidc:{who}"))),
            ("name", json!(name)),
            ("role", json!(role)),
            ("namespace", json!(namespace)),
            ("chooses_namespace", json!(everywhere)),
            ("session", json!(true)),
        ] {
            assert_eq!(shown[field], expected, "{field} of {shown}");
        }
    }
}

#[test]
fn what_a_person_does_has_their_name_and_a_session_ends_when_they_sign_out() {
    let provider = Provider::start();
    let server = start(&provider);
    let mut ann = Browser::of("ann");
    let back = up_to_callback(&server, &mut ann);
    let page = ann.open(&back);
    assert_eq!(place(&page, &server), "/ui/jobs?state=dead");
    let cookie = session(&server, &ann);
    let console = [("Cookie", cookie.as_str()), ("X-Windlass-Console", "1"), ("Sec-Fetch-Site", "same-origin")];
    let page = server.without_key();
    let job = page.post_with("/api/v1/enqueue", &console, &json!({"queue": "by-hand"}));
    assert_eq!(job.status, 201, "{job:?}");
    assert_eq!(server.job(job.body["job_id"].as_str().expect("an id"))["created_by"], "oidc:ann");
    assert_eq!(page.post_with("/api/v1/queues/by-hand/pause", &console, &json!({})).status, 200);
    assert_eq!(page.post_with("/api/v1/queues/by-hand/pause", &console[..1], &json!({})).status, 403, "as any session");
    assert_eq!(page.get_with("/api/v1/auth/keys", &console[..1]).status, 403, "that is for an admin");
    assert_eq!(page.delete_with("/api/v1/auth/session", &console).status, 200);
    assert_eq!(page.get_with(QUEUES, &console[..1]).status, 401);
    let log = server.get("/api/v1/audit-logs?actor=oidc:ann&limit=100").body;
    let actions: Vec<_> = log["entries"].as_array().expect("entries").iter().map(|entry| &entry["action"]).collect();
    for action in ["session.begin", "queue.configure", "session.end"] {
        assert!(actions.contains(&&json!(action)), "{action} is not in {log:#}");
    }
    // The secret of the client is in no log.
    assert!(!server.said().contains(windlass_e2e::CLIENT_SECRET));
}

#[test]
fn groups_that_only_the_userinfo_endpoint_tells_count_too() {
    let provider = Provider::start();
    let server = start(&provider);
    provider.tell_groups_apart();
    let mut ann = Browser::of("ann");
    assert_eq!(sign_in(&server, &mut ann), "/ui/jobs?state=dead");
    let shown = status(&server, &session(&server, &ann));
    assert_eq!((&shown["role"], &shown["name"]), (&json!("operator"), &json!("Ann")), "{shown}");
}

#[test]
fn a_session_of_a_person_survives_a_restart_and_ends_with_the_setting_that_gave_it() {
    let provider = Provider::start();
    let server = start(&provider);
    let (mut ann, mut bob) = (Browser::of("ann"), Browser::of("bob"));
    sign_in(&server, &mut ann);
    sign_in(&server, &mut bob);
    let (ann, bob) = (session(&server, &ann), session(&server, &bob));
    let codes = |server: &Server| {
        let code = |cookie: &str| server.without_key().get_with(QUEUES, &[("Cookie", cookie)]).status;
        (code(&ann), code(&bob))
    };
    let server = Server::start_on(&server.kill_9(), &flags(provider.issuer(), &[]));
    assert_eq!(codes(&server), (200, 200));
    // The group of one of them has lost its role.
    let usual = flags(provider.issuer(), &[]);
    let without: Vec<&str> = usual.chunks(2).filter(|pair| pair[1] != "sre=operator").flatten().copied().collect();
    let server = Server::start_on(&server.kill_9(), &without);
    assert_eq!(codes(&server), (401, 200));
    let server = Server::start_on(&server.kill_9(), &flags("http://127.0.0.1:9", &[]));
    assert_eq!(codes(&server), (401, 401), "another provider");
    let server = Server::start_on(&server.kill_9(), &[]);
    assert_eq!(codes(&server), (401, 401), "none");
}

#[test]
fn after_signing_in_nobody_is_sent_to_another_site() {
    let provider = Provider::start();
    let server = start(&provider);
    for to in
        ["https://evil.example/ui/", "//evil.example/ui/", "/ui/../api/v1/queues", "/ui/%252e%252e/x%0d%0ay:z", ""]
    {
        let mut ann = Browser::of("ann");
        let page = ann.follow(&server.url(&format!("{LOGIN}?to={to}")), |next| next.contains(CALLBACK));
        let back = page.location.expect("it is sent back");
        assert_eq!(place(&ann.open(&back), &server), "/ui/", "{to}");
        assert!(is_signed_in(&server, &ann));
    }
}

#[test]
fn a_provider_that_is_down_keeps_nobody_from_using_keys_and_is_found_later() {
    let address = address_of_its_own();
    let port = address.rsplit(':').next().expect("a port").parse().expect("a number");
    let issuer = format!("http://{address}");
    let secret = secret_file();
    let path = secret.path().to_str().expect("text");
    let server = Server::start_on(&Data::new(), &flags(&issuer, &["--oidc-client-secret-file", path]));
    assert_eq!(server.get(QUEUES).status, 200, "a key works");
    let mut ann = Browser::of("ann");
    let page = ann.open(&server.url(LOGIN));
    assert_eq!(place(&page, &server), "/ui/?sign-in=unreachable");
    let refused = with_token(&server, "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln").get(QUEUES);
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("PROVIDER_UNAVAILABLE")), "{refused:?}");
    assert!(refused.retry_after.is_some(), "{refused:?}");
    wait_for_log(&server, &format!("provider {issuer} cannot be used"));
    let provider = Provider::start_on(port);
    provider.setup(&server.url(""), &json!({"ann": {"groups": ["sre"]}}));
    eventually("it is found without a restart", || {
        let page = ann.open(&server.url(LOGIN));
        page.location.filter(|to| to.starts_with(&issuer))
    });
    assert_eq!(sign_in(&server, &mut ann), "/ui/jobs?state=dead");
}

#[test]
fn settings_that_lack_something_are_refused_at_the_start_with_what_to_do() {
    let issuer = "https://id.example.com";
    for (flags, what) in [
        (&["--oidc-client-id", "w"][..], "`oidc_issuer` must be set to the provider's address"),
        (
            &["--oidc-issuer", issuer, "--oidc-role", "a=admin"],
            "`oidc_client_id` must be set so that people can sign in",
        ),
        (&["--oidc-issuer", issuer, "--oidc-client-id", "w"], "`oidc_role` must be given at least once"),
        (&["--oidc-issuer", "http://id.example.com", "--oidc-client-id", "w"], "an address with https"),
        (&["--oidc-issuer", issuer, "--oidc-role", "a=root"], "write GROUP=ROLE"),
        (
            &["--oidc-issuer", issuer, "--oidc-client-id", "w", "--oidc-role", "a=admin", "--oidc-ca", "/none.pem"],
            "/none.pem of --oidc-ca",
        ),
        (
            &["--oidc-issuer", issuer, "--oidc-client-id", "w", "--oidc-role", "a=admin", "--insecure"],
            "without keys there is nothing to sign in to",
        ),
    ] {
        let refused = Server::try_start(&Data::new(), flags).expect_err("it is not started");
        assert!(refused.said.contains(what), "{flags:?}: {}", refused.said);
    }
}

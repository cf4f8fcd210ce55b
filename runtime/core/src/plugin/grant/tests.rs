use crate::plugin::grant::*;

fn hosts(texts: &[&str]) -> Vec<HostPattern> {
    texts.iter().map(|text| text.parse().unwrap_or_else(|why| panic!("{why}"))).collect()
}

/// What is allowed and denied of HTTP, as text: `host` or `host!` when private addresses are allowed, too.
#[track_caller]
fn check_http(asked: &[&str], http: &[&str], private: &[&str], allowed: &[&str], refused: &[&str]) {
    let mut manifest = Manifest::default();
    manifest.capabilities.http = hosts(asked);
    let grant = Grant { http: hosts(http), private_http: hosts(private), ..Grant::default() };
    let (got, denied) = effective(&manifest, &grant);
    let got: Vec<String> =
        got.http.iter().map(|rule| format!("{}{}", rule.pattern, if rule.private { "!" } else { "" })).collect();
    assert_eq!(got, allowed);
    let denied: Vec<String> = denied.into_iter().map(|denied| denied.what).collect();
    assert_eq!(denied, refused.iter().map(|host| format!("HTTP to `{host}`")).collect::<Vec<_>>());
}

#[test]
fn http_goes_where_both_sides_agree() {
    check_http(&["api.example.com"], &[], &[], &[], &["api.example.com"]);
    check_http(&[], &["*"], &["*"], &[], &[]);
    check_http(&["api.example.com"], &["*.example.com"], &[], &["api.example.com"], &[]);
    check_http(&["*.example.com"], &["api.example.com"], &[], &["api.example.com"], &["*.example.com"]);
    check_http(&["db.internal:8080"], &[], &["db.internal:8080"], &["db.internal:8080!"], &[]);
    check_http(&["a.com", "b.com"], &["b.com"], &[], &["b.com"], &["a.com"]);
}

#[test]
fn a_folder_is_seen_when_both_sides_name_it_and_written_when_both_say_so() {
    let table = [
        // asked to write, granted (to write), allowed (to write), denied
        (false, None, None, true),
        (true, None, None, true),
        (false, Some(false), Some(false), false),
        (false, Some(true), Some(false), false),
        (true, Some(false), Some(false), true),
        (true, Some(true), Some(true), false),
    ];
    for (write, granted, expected, refused) in table {
        let mut manifest = Manifest::default();
        let list = if write { &mut manifest.capabilities.write } else { &mut manifest.capabilities.read };
        list.push("/data".to_owned());
        let folder = |write| ("/data".to_owned(), FolderGrant { path: "/srv/data".to_owned(), write });
        let grant = Grant { folders: granted.map(folder).into_iter().collect(), ..Grant::default() };
        let (allowed, denied) = effective(&manifest, &grant);
        assert_eq!(allowed.folders.first().map(|folder| folder.write), expected, "{write} {granted:?}");
        assert_eq!(denied.len(), usize::from(refused), "{write} {granted:?}: {denied:?}");
    }
}

#[test]
fn names_are_given_when_both_sides_name_them() {
    let mut manifest = Manifest::default();
    manifest.capabilities.environment = vec!["TZ".to_owned(), "HOME".to_owned()];
    manifest.capabilities.secrets = vec!["token".to_owned(), "key".to_owned()];
    let grant = Grant {
        environment: BTreeMap::from([("TZ".to_owned(), "UTC".to_owned()), ("PATH".to_owned(), "/bin".to_owned())]),
        secrets: BTreeSet::from(["token".to_owned(), "other".to_owned()]),
        ..Grant::default()
    };
    let (allowed, denied) = effective(&manifest, &grant);
    assert_eq!(allowed.environment, BTreeMap::from([("TZ".to_owned(), "UTC".to_owned())]));
    assert_eq!(allowed.secrets, BTreeSet::from(["token".to_owned()]));
    let needed: Vec<Needed> = denied.into_iter().map(|denied| denied.needed).collect();
    assert_eq!(needed, [Needed::Environment("HOME".to_owned()), Needed::Secret("key".to_owned())]);
}

#[test]
fn what_a_pattern_of_the_manifest_covers_is_granted_as_it_was_asked_for_unless_that_is_everything() {
    let host = |text: &str| hosts(&[text]).remove(0);
    let queue = |text: &str| -> QueuePattern { text.parse().unwrap_or_else(|why| panic!("{why}")) };
    for (target, asked, list, pattern) in [
        ("api.example.com", Some("*.example.com"), "http", "*.example.com"),
        ("api.example.com", Some("*"), "http", "*"),
        ("nas.local", Some("*.local"), "private_http", "*.local"),
        ("10.0.0.7:8080", Some("*:8080"), "private_http", "10.0.0.7:8080"),
        ("api.example.com", None, "http", "api.example.com"),
    ] {
        let denied = Denied::http(&host(target), asked.map(host).as_ref());
        assert_eq!(denied.grant(), Some((list, pattern)), "{target} {asked:?}");
    }
    for (target, asked, pattern) in
        [("bills.send", Some("bills.*"), "bills.*"), ("bills.send", Some("*"), "bills.send")]
    {
        let denied = Denied::spawn(&queue(target), asked.map(queue).as_ref());
        assert_eq!(denied.grant(), Some(("spawn", pattern)), "{target} {asked:?}");
    }
    assert_eq!(Denied::http(&host("0.0.0.0:80"), None).grant(), None, "no grant helps");
}

#[test]
fn jobs_are_spawned_where_both_sides_agree() {
    let patterns = |texts: &[&str]| -> Vec<QueuePattern> {
        texts.iter().map(|text| text.parse().unwrap_or_else(|why| panic!("{why}"))).collect()
    };
    type Texts = &'static [&'static str];
    let table: [(Texts, Texts, Texts, usize); 5] = [
        (&[], &["*"], &[], 0),
        (&["mail.send"], &[], &[], 1),
        (&["mail.send"], &["mail.*"], &["mail.send"], 0),
        (&["mail.*"], &["mail.send", "other"], &["mail.send"], 1),
        (&["mail.*", "bills"], &["*"], &["mail.*", "bills"], 0),
    ];
    for (asked, granted, expected, refused) in table {
        let mut manifest = Manifest::default();
        manifest.capabilities.spawn = patterns(asked);
        let grant = Grant { spawn: patterns(granted), ..Grant::default() };
        let (allowed, denied) = effective(&manifest, &grant);
        assert_eq!(allowed.spawn, patterns(expected), "{asked:?} {granted:?}");
        assert_eq!(denied.len(), refused, "{asked:?} {granted:?}: {denied:?}");
        assert!(denied.iter().all(|denied| matches!(denied.needed, Needed::Spawn(_))), "{denied:?}");
    }
}

#[test]
fn memory_is_the_default_until_both_sides_want_more() {
    let default = AllowedLimits::default().memory;
    let more = Size(default.0 * 4);
    let less = Size(default.0 / 4);
    let table = [
        (None, None, default, false),
        (None, Some(more), default, false),
        (None, Some(less), less, false),
        (Some(more), None, default, true),
        (Some(more), Some(more), more, false),
        (Some(more), Some(less), less, true),
        (Some(less), None, less, false),
    ];
    for (asked, ceiling, expected, refused) in table {
        let mut manifest = Manifest::default();
        manifest.limits.memory = asked;
        let grant = Grant { limits: Limits { memory: ceiling, ..Limits::default() }, ..Grant::default() };
        let (allowed, denied) = effective(&manifest, &grant);
        assert_eq!(allowed.limits.memory, expected, "{asked:?} {ceiling:?}");
        assert_eq!(!denied.is_empty(), refused, "{asked:?} {ceiling:?}: {denied:?}");
    }
}

#[test]
fn a_timeout_is_the_shorter_of_the_two() {
    let span = |seconds| Some(Span(Duration::from_secs(seconds)));
    for (asked, ceiling, expected) in [
        (None, None, None),
        (span(5), None, span(5)),
        (None, span(9), span(9)),
        (span(5), span(9), span(5)),
        (span(9), span(5), span(5)),
        (span(3_600), None, span(3_600)),
        (span(7_200), span(9_000), span(7_200)),
        (span(7_200), span(5_400), span(5_400)),
        (None, span(7_200), span(7_200)),
    ] {
        let (allowed, denied) = timeouts(asked, ceiling);
        assert_eq!(allowed, expected);
        assert_eq!(denied.len(), usize::from(asked.zip(ceiling).is_some_and(|(asked, ceiling)| asked > ceiling)));
    }
    // The default holds for what asks for more and is not granted it.
    let (allowed, denied) = timeouts(span(7_200), None);
    assert_eq!((allowed, &denied[0].needed), (None, &limit("attempt_timeout", "2h")));
    assert!(denied[0].what.contains("at most 1h"), "{}", denied[0].what);
}

fn limit(name: &str, value: &str) -> Needed {
    Needed::Limit { name: name.to_owned(), value: value.to_owned() }
}

fn timeouts(asked: Option<Span>, ceiling: Option<Span>) -> (Option<Span>, Vec<Denied>) {
    let mut manifest = Manifest::default();
    manifest.limits.attempt_timeout = asked;
    let grant = Grant { limits: Limits { attempt_timeout: ceiling, ..Limits::default() }, ..Grant::default() };
    let (allowed, denied) = effective(&manifest, &grant);
    (allowed.limits.attempt_timeout, denied)
}

#[test]
fn http_requests_have_the_defaults_unless_both_sides_want_more() {
    let default = AllowedHttp::default();
    let (short, long) = (Span(Duration::from_secs(1)), Span(Duration::from_secs(86_400)));
    let mut manifest = Manifest::default();
    manifest.limits.http =
        HttpLimits { connect: Some(short), total: Some(long), at_once: Some(64), ..HttpLimits::default() };
    let (allowed, denied) = effective(&manifest, &Grant::default());
    assert_eq!(allowed.limits.http, AllowedHttp { connect: short, ..default.clone() });
    let needed: Vec<Needed> = denied.into_iter().map(|denied| denied.needed).collect();
    assert_eq!(needed, [limit("http_total", "1d"), limit("http_at_once", "64")]);

    let mut grant = Grant::default();
    grant.limits.http = HttpLimits { total: Some(long), at_once: Some(32), ..HttpLimits::default() };
    let (allowed, denied) = effective(&manifest, &grant);
    assert_eq!(allowed.limits.http, AllowedHttp { connect: short, total: long, at_once: 32, ..default });
    assert_eq!(denied.len(), 1, "{denied:?}");
}

#[test]
fn a_grant_that_cannot_be_meant_is_refused() {
    let folder = |guest: &str, path: &str| Grant {
        folders: BTreeMap::from([(guest.to_owned(), FolderGrant { path: path.to_owned(), write: false })]),
        ..Grant::default()
    };
    assert_eq!(folder("/data", "/srv/data").check(), Ok(()));
    assert!(folder("/data", "srv/data").check().is_err());
    assert!(folder("/data/..", "/srv/data").check().is_err());
}

//! What the sources of settings make together.

use super::*;

fn file(text: &str) -> Result<Layer, String> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("windlass.toml");
    std::fs::write(&path, text).expect("a file");
    Layer::read(&path).map_err(|error| error.to_string())
}

#[test]
fn a_flag_overrides_the_file_and_the_file_overrides_the_default() {
    let file = file("listen = \"127.0.0.1:1\"\nmax_body = \"2KiB\"\ndurability = \"os\"").expect("a good file");
    let flags = Layer { listen: Some("127.0.0.1:2".to_owned()), ..Layer::default() };
    let config = Config::resolve(flags, file).expect("a good configuration");
    assert_eq!(config.listen, "127.0.0.1:2");
    assert_eq!(config.max_body, 2048);
    assert_eq!(config.durability, DurabilitySetting::Os);
    assert_eq!(config.data, PathBuf::from("./windlass-data"));
}

#[test]
fn a_key_is_given_as_it_is_or_in_a_file_and_flags_go_before_the_config_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("key");
    std::fs::write(&path, "the-key-in-the-file-and-not-the-other\n").expect("a file");
    let by_file = Layer { api_key_file: Some(path.clone()), ..Layer::default() };
    let by_value = Layer { api_key: Some("the-key-itself-and-nothing-else".to_owned()), ..Layer::default() };
    let key = |flags: &Layer, file: &Layer| {
        let config = Config::resolve(flags.clone(), file.clone()).expect("a good configuration");
        (config.api_key.expect("a key"), config.api_key_file)
    };
    assert_eq!(
        key(&by_file, &Layer::default()),
        ("the-key-in-the-file-and-not-the-other".to_owned(), Some(path.clone()))
    );
    assert_eq!(key(&by_value, &by_file), ("the-key-itself-and-nothing-else".to_owned(), None));
    assert_eq!(key(&by_file, &by_value), ("the-key-in-the-file-and-not-the-other".to_owned(), Some(path.clone())));
    let both = Layer { api_key: by_value.api_key, ..by_file };
    assert!(matches!(Config::resolve(both, Layer::default()), Err(ConfigError::TwoKeys)));
    let missing = Layer { api_key_file: Some(dir.path().join("none")), ..Layer::default() };
    let error = Config::resolve(missing, Layer::default()).expect_err("there is no such file").to_string();
    assert!(error.contains("--api-key-file"), "{error}");
}

#[test]
fn an_unknown_key_is_named() {
    let error = file("lisen = \"127.0.0.1:1\"").expect_err("a misspelt key");
    assert!(error.contains("lisen") && error.contains("listen"), "{error}");
}

#[test]
fn sizes_are_read_with_and_without_a_unit() {
    assert_eq!(layer::size("7"), Ok(Size(7)));
    assert_eq!(layer::size("16MiB"), Ok(Size(16 << 20)));
    assert_eq!(file("max_body = 9").expect("a number").max_body, Some(Size(9)));
    for wrong in ["", "MiB", "-1", "16 apples", "99999999999999999999GiB"] {
        assert!(layer::size(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_value_out_of_bounds_is_named() {
    let flags = Layer { slots: Some(0), ..Layer::default() };
    let error = Config::resolve(flags, Layer::default()).expect_err("no slots");
    assert!(error.to_string().contains("slots"), "{error}");
    let flags = Layer { max_buffered_bodies: Some(Size(1 << 20)), ..Layer::default() };
    let error = Config::resolve(flags, Layer::default()).expect_err("less than one body");
    assert!(error.to_string().contains("max_buffered_bodies"), "{error}");
}

#[test]
fn a_certificate_needs_its_key_and_a_key_its_certificate() {
    let path = |name: &str| Some(PathBuf::from(name));
    let wrong = |flags: Layer| Config::resolve(flags, Layer::default()).expect_err("half of it").to_string();
    assert!(wrong(Layer { tls_cert: path("c"), ..Layer::default() }).contains("tls_key"));
    assert!(wrong(Layer { tls_key: path("k"), ..Layer::default() }).contains("tls_cert"));
    assert!(wrong(Layer { tls_client_ca: path("a"), ..Layer::default() }).contains("tls_cert"));
    // One may be in the file, the other on the command line.
    let file = Layer { tls_cert: path("c"), ..Layer::default() };
    let both = Config::resolve(Layer { tls_key: path("k"), ..Layer::default() }, file).expect("both are set");
    assert!(both.tls.is_some_and(|tls| tls.client_ca.is_none()));
}

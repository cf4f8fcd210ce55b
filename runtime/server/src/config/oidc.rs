//! The settings of the OpenID Connect provider: which of them need each other.

use std::path::PathBuf;

use openidconnect::IssuerUrl;
use windlass_core::access::GroupRole;

use super::{ConfigError, Layer};
use crate::key_file::FileKey;

/// The provider, and what its tokens mean here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    pub issuer: IssuerUrl,
    /// What people call it.
    pub name: String,
    /// None if only programs are recognised.
    pub client: Option<OidcClient>,
    /// None if only people are recognised.
    pub audience: Option<String>,
    pub groups_claim: String,
    /// The first row that fits decides.
    pub roles: Vec<GroupRole>,
    /// The usual ones if it is empty.
    pub scopes: Vec<String>,
    pub ca: Option<PathBuf>,
}

/// What the server is to the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcClient {
    pub id: String,
    pub secret: Option<FileKey>,
}

/// The settings about the provider, if one is named.
pub fn resolve(flags: &Layer, file: &Layer) -> Result<Option<OidcConfig>, ConfigError> {
    let wrong = |key, why: &str| Err(ConfigError::Value { key, why: why.to_owned() });
    let text = |of: fn(&Layer) -> &Option<String>| of(flags).clone().or_else(|| of(file).clone());
    let path = |of: fn(&Layer) -> &Option<PathBuf>| of(flags).clone().or_else(|| of(file).clone());
    let (id, audience) = (text(|layer| &layer.oidc_client_id), text(|layer| &layer.oidc_audience));
    let secret = path(|layer| &layer.oidc_client_secret_file);
    let roles = if flags.oidc_role.is_empty() { &file.oidc_role } else { &flags.oidc_role };
    let Some(issuer) = text(|layer| &layer.oidc_issuer) else {
        let others = [
            ("oidc_client_id", id.is_some()),
            ("oidc_client_secret_file", secret.is_some()),
            ("oidc_audience", audience.is_some()),
            ("oidc_role", !roles.is_empty()),
        ];
        return match others.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => wrong("oidc_issuer", &format!("set to the provider's address, because `{key}` is set")),
            None => Ok(None),
        };
    };
    let issuer = parse_issuer(issuer)?;
    if id.is_none() && audience.is_none() {
        return wrong(
            "oidc_client_id",
            "set so that people can sign in, or `oidc_audience` so that programs can send tokens; the provider says which id it has \
             given to this server",
        );
    }
    let client = match (id, secret) {
        (Some(id), None) => Some(OidcClient { id, secret: None }),
        (Some(id), Some(path)) => {
            let secret = FileKey::read(&path).map_err(ConfigError::OidcSecret)?;
            Some(OidcClient { id, secret: Some(secret) })
        }
        (None, Some(_)) => return wrong("oidc_client_id", "set, because `oidc_client_secret_file` is set"),
        (None, None) => None,
    };
    if roles.is_empty() {
        return wrong(
            "oidc_role",
            "given at least once, such as `sre=operator`: without a role nobody may do anything",
        );
    }
    let groups_claim = text(|layer| &layer.oidc_groups_claim).unwrap_or_else(|| "groups".to_owned());
    if groups_claim.is_empty() {
        return wrong("oidc_groups_claim", "the name of a claim, such as `groups`");
    }
    let host = issuer.url().host_str().unwrap_or_default().to_owned();
    Ok(Some(OidcConfig {
        name: text(|layer| &layer.oidc_name).unwrap_or(host),
        issuer,
        client,
        audience,
        groups_claim,
        roles: roles.clone(),
        scopes: if flags.oidc_scope.is_empty() { &file.oidc_scope } else { &flags.oidc_scope }.clone(),
        ca: path(|layer| &layer.oidc_ca),
    }))
}

/// An address with TLS, or of this machine.
fn parse_issuer(text: String) -> Result<IssuerUrl, ConfigError> {
    let wrong = |why: &str| ConfigError::Value { key: "oidc_issuer", why: why.to_owned() };
    let issuer = IssuerUrl::new(text).map_err(|error| {
        wrong(&format!("an address such as https://id.example.com, as the provider writes it ({error})"))
    })?;
    let url = issuer.url();
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(wrong("an address without a user, a query and a fragment"));
    }
    let local = ["localhost", "127.0.0.1", "[::1]"].contains(&url.host_str().unwrap_or_default());
    match url.scheme() {
        "https" => Ok(issuer),
        "http" if local => Ok(issuer),
        _ => Err(wrong("an address with https, because whoever reads its answers on the way could sign in as anybody")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(change: impl FnOnce(&mut Layer)) -> Layer {
        let mut layer = Layer {
            oidc_issuer: Some("https://id.example.com/realms/a".to_owned()),
            oidc_client_id: Some("windlass".to_owned()),
            oidc_role: vec!["sre=operator".parse().expect("a row")],
            ..Layer::default()
        };
        change(&mut layer);
        layer
    }

    #[track_caller]
    fn why(change: impl FnOnce(&mut Layer)) -> String {
        resolve(&layer(change), &Layer::default()).expect_err("something is missing").to_string()
    }

    #[test]
    fn a_provider_is_its_address_an_id_and_a_role() {
        let found = resolve(&layer(|_| ()), &Layer::default()).expect("it is whole").expect("a provider");
        assert_eq!((found.name.as_str(), found.groups_claim.as_str()), ("id.example.com", "groups"));
        assert!(found.audience.is_none() && found.scopes.is_empty());
        assert_eq!(resolve(&Layer::default(), &Layer::default()).expect("nothing is set"), None);
        // The file and the flags complete each other.
        let flags = Layer { oidc_groups_claim: Some("roles".to_owned()), ..Layer::default() };
        let both = resolve(&flags, &layer(|_| ())).expect("it is whole").expect("a provider");
        assert_eq!((both.groups_claim.as_str(), both.roles.len()), ("roles", 1));
        let machines =
            resolve(&layer(|one| (one.oidc_client_id, one.oidc_audience) = (None, Some("w".into()))), &flags);
        assert!(machines.expect("it is whole").is_some_and(|found| found.client.is_none()));
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        assert!(why(|one| one.oidc_issuer = None).contains("`oidc_issuer` must be set"));
        assert!(
            why(|one| one.oidc_client_id = None).contains("`oidc_client_id` must be set so that people can sign in")
        );
        assert!(why(|one| one.oidc_role.clear()).contains("`oidc_role` must be given"));
        let no_id = |one: &mut Layer| {
            (one.oidc_client_id, one.oidc_audience) = (None, Some("w".into()));
            one.oidc_client_secret_file = Some("secret".into());
        };
        assert!(why(no_id).contains("`oidc_client_id` must be set"));
        let no_file = why(|one| one.oidc_client_secret_file = Some("/none/secret".into()));
        assert!(no_file.contains("/none/secret") && no_file.contains("--oidc-client-secret-file"), "{no_file}");
    }

    #[test]
    fn a_provider_without_tls_is_one_of_this_machine() {
        let with = |text: &str| resolve(&layer(|one| one.oidc_issuer = Some(text.to_owned())), &Layer::default());
        for good in ["https://id.example.com/", "http://127.0.0.1:8080", "http://localhost:8080/a", "http://[::1]:1"] {
            assert!(with(good).is_ok(), "{good}");
        }
        for wrong in [
            "http://id.example.com",
            "id.example.com",
            "",
            "ftp://id.example.com",
            "https://u@id.example.com",
            "https://id.example.com?a=b",
            "https://id.example.com#a",
            "http://127.0.0.1.example.com",
        ] {
            let why = with(wrong).expect_err(wrong).to_string();
            assert!(why.starts_with("`oidc_issuer` must be an address"), "{why}");
        }
    }
}

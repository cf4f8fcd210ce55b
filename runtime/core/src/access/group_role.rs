//! Which role the members of a group have: for people and programs whom another server vouches for, and who have no
//! key.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use crate::access::{KeyNamespaces, Role};
use crate::bounds;

/// `GROUP=ROLE` or `GROUP=ROLE@NAMESPACE`: what the members of a group are, and where. Without a namespace it is
/// `default`; `*` is all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRole {
    pub group: String,
    pub role: Role,
    pub namespaces: KeyNamespaces,
}

/// What a member of these groups is: the first row that names one of them decides. None if no row does.
pub fn role_of<'a>(rows: &'a [GroupRole], groups: &[String]) -> Option<&'a GroupRole> {
    rows.iter().find(|row| groups.contains(&row.group))
}

/// What somebody is called: the first of these that says anything, on one line and of bounded length.
pub fn shown_name<'a>(candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    candidates.into_iter().find_map(|text| {
        let plain = text.chars().filter(|letter| !letter.is_control());
        let mut name = String::new();
        for letter in plain {
            if name.len() + letter.len_utf8() > bounds::KEY_NAME_BYTES {
                break;
            }
            name.push(letter);
        }
        let name = name.trim();
        (!name.is_empty()).then(|| name.to_owned())
    })
}

impl FromStr for GroupRole {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupRole, String> {
        let wrong = |why: String| {
            format!(
                "{text:?} {why}; write GROUP=ROLE or GROUP=ROLE@NAMESPACE, such as `sre=operator` or `platform=admin@*`, and a group \
                 whose name has a comma in the config file"
            )
        };
        // The name of a group may contain `=`, as those of directories do.
        let (group, what) = text.rsplit_once('=').ok_or_else(|| wrong("names no role".to_owned()))?;
        let (role, namespace) = match what.split_once('@') {
            Some((role, namespace)) => (role, Some(namespace)),
            None => (what, None),
        };
        let group = group.trim();
        if group.is_empty() {
            return Err(wrong("names no group".to_owned()));
        }
        let role = role.trim().parse::<Role>().map_err(|refusal| wrong(format!("is no mapping ({refusal})")))?;
        let namespaces = match namespace.map(str::trim) {
            Some(text) => KeyNamespaces::parse(text).map_err(|refusal| wrong(format!("is no mapping ({refusal})")))?,
            None => KeyNamespaces::One(crate::Namespace::default()),
        };
        Ok(GroupRole { group: group.to_owned(), role, namespaces })
    }
}

impl fmt::Display for GroupRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}@{}", self.group, self.role, self.namespaces.as_str())
    }
}

impl<'de> Deserialize<'de> for GroupRole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GroupRole, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn row(text: &str) -> GroupRole {
        text.parse().unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn a_group_gets_a_role_in_one_namespace_or_in_all() {
        for (text, shown) in [
            ("sre=operator", "sre=operator@default"),
            ("sre=operator@acme", "sre=operator@acme"),
            ("platform = admin @ *", "platform=admin@*"),
            ("cn=ops,ou=groups=readonly@acme", "cn=ops,ou=groups=viewer@acme"),
            ("ann@example.com=admin", "ann@example.com=admin@default"),
        ] {
            assert_eq!(row(text).to_string(), shown);
        }
        for (wrong, what) in [
            ("sre", "names no role"),
            ("=admin", "names no group"),
            ("sre=root", "producer"),
            ("sre=admin@Acme", "a namespace has"),
            ("sre=admin@", "a namespace has"),
        ] {
            let why = wrong.parse::<GroupRole>().expect_err(wrong);
            assert!(why.contains(what) && why.contains("GROUP=ROLE"), "{why}");
        }
    }

    #[test]
    fn the_first_row_that_names_one_of_the_groups_decides() {
        let rows = [row("sre=operator"), row("all=viewer"), row("sre=admin")];
        let of = |groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
            role_of(&rows, &groups).map(|row| row.role)
        };
        assert_eq!(of(&["all", "sre"]), Some(Role::Operator));
        assert_eq!(of(&["other", "all"]), Some(Role::Viewer));
        assert_eq!((of(&["SRE"]), of(&["sr"]), of(&[])), (None, None, None));
    }

    #[test]
    fn a_name_is_one_line_of_bounded_length() {
        assert_eq!(shown_name(["", " \u{1b}\n", "Ann\u{1b}[31m", "b"]).as_deref(), Some("Ann[31m"));
        assert_eq!(shown_name(["", "\n"]), None);
        let long = "ä".repeat(bounds::KEY_NAME_BYTES);
        assert_eq!(shown_name([long.as_str()]).map(|name| name.len()), Some(bounds::KEY_NAME_BYTES));
    }
}

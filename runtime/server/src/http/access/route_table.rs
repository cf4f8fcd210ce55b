//! Which permission each route needs. Filled as the routes are declared, and looked at before the router.

use std::sync::Arc;

use axum::http::Method;
use windlass_core::access::Permission;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct RouteTable(Arc<matchit::Router<Vec<(Method, Permission)>>>);

impl RouteTable {
    pub fn new(routes: impl IntoIterator<Item = (Method, String, Permission)>) -> RouteTable {
        let mut paths = std::collections::BTreeMap::<String, Vec<(Method, Permission)>>::new();
        for (method, path, permission) in routes {
            paths.entry(path).or_default().push((method, permission));
        }
        let mut table = matchit::Router::new();
        for (path, methods) in paths {
            // The router of the server holds the same paths, and was built before.
            table.insert(path, methods).expect("two routes of the server contradict each other");
        }
        RouteTable(Arc::new(table))
    }

    /// What a request needs. A path or a method that does not exist needs a key: strangers learn nothing about what
    /// does.
    pub fn permission(&self, method: &Method, path: &str) -> Permission {
        let Ok(found) = self.0.at(path) else { return Permission::SignedIn };
        // A HEAD is answered as a GET without its body.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let of_method = found.value.iter().find(|(known, _)| known == method);
        of_method.map_or(Permission::SignedIn, |(_, permission)| *permission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_needs_what_its_route_says_and_an_unknown_one_a_key() {
        let table = RouteTable::new([
            (Method::GET, "/api/v1/jobs/{id}".to_owned(), Permission::ReadJob),
            (Method::DELETE, "/api/v1/jobs/{id}".to_owned(), Permission::Operate),
            (Method::GET, "/healthz".to_owned(), Permission::Public),
        ]);
        assert_eq!(table.permission(&Method::GET, "/api/v1/jobs/job_1"), Permission::ReadJob);
        assert_eq!(table.permission(&Method::HEAD, "/api/v1/jobs/job_1"), Permission::ReadJob);
        assert_eq!(table.permission(&Method::DELETE, "/api/v1/jobs/job_1"), Permission::Operate);
        assert_eq!(table.permission(&Method::GET, "/healthz"), Permission::Public);
        for (method, path) in [(Method::POST, "/healthz"), (Method::GET, "/api/v1/none"), (Method::GET, "/")] {
            assert_eq!(table.permission(&method, path), Permission::SignedIn, "{path}");
        }
    }
}

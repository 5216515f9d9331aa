//! Which addresses there are and which methods each takes: one table.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::refusal::Refusal;

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Card,
    Health,
    Rpc,
    Send,
    Stream,
    Tasks,
    Task,
    Cancel,
    Subscribe,
    /// Push notifications, which there are none of.
    Push,
    /// The card for those who are known, which there is none of.
    ExtendedCard,
}

const GET: &str = "GET, HEAD";
const POST: &str = "POST";

/// `{id}` stands for one segment without a slash or a colon.
const ROUTES: &[(&str, &str, Place)] = &[
    ("/", POST, Place::Rpc),
    ("/.well-known/agent-card.json", GET, Place::Card),
    // Where clients of A2A before 0.3 look.
    ("/.well-known/agent.json", GET, Place::Card),
    ("/health", GET, Place::Health),
    ("/rest/message:send", POST, Place::Send),
    ("/rest/message:stream", POST, Place::Stream),
    ("/rest/tasks", GET, Place::Tasks),
    ("/rest/tasks/{id}", GET, Place::Task),
    ("/rest/tasks/{id}:cancel", POST, Place::Cancel),
    ("/rest/tasks/{id}:subscribe", "GET, HEAD, POST", Place::Subscribe),
    ("/rest/tasks/{id}/pushNotificationConfigs", "GET, HEAD, POST", Place::Push),
    ("/rest/tasks/{id}/pushNotificationConfigs/{id}", "GET, HEAD, DELETE", Place::Push),
    ("/rest/extendedAgentCard", GET, Place::ExtendedCard),
];

/// Finds what a request is about, and the id that its path names.
pub(crate) fn find(method: &Method, path: &str) -> Result<(Place, String), Refusal> {
    let hit = ROUTES.iter().find_map(|(pattern, allow, place)| Some((matched(pattern, path)?, *allow, *place)));
    let (id, allow, place) = hit.ok_or(Refusal::NotFound)?;
    if !allow.split(", ").any(|allowed| allowed == method.as_str()) {
        return Err(Refusal::Method(allow));
    }
    let id = percent_decode_str(id).decode_utf8().map_err(|_| Refusal::NotFound)?;
    Ok((place, id.into_owned()))
}

/// The first segment that `{id}` stands for, if the path is of this form.
fn matched<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, after)) = pattern.split_once("{id}") else { return (pattern == path).then_some("") };
    let rest = path.strip_prefix(before)?;
    let end = rest.find(['/', ':']).unwrap_or(rest.len());
    let (id, rest) = rest.split_at_checked(end)?;
    matched(after, rest)?;
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::{Place, find};
    use crate::refusal::Refusal;

    #[test]
    fn each_address_has_its_methods() {
        for (method, path, expected) in [
            (Method::POST, "/", Ok((Place::Rpc, ""))),
            (Method::GET, "/", Err(Refusal::Method("POST"))),
            (Method::HEAD, "/health", Ok((Place::Health, ""))),
            (Method::POST, "/health", Err(Refusal::Method("GET, HEAD"))),
            (Method::GET, "/health/", Err(Refusal::NotFound)),
            (Method::GET, "/rest/tasks/t1", Ok((Place::Task, "t1"))),
            (Method::GET, "/rest/tasks/t%31", Ok((Place::Task, "t1"))),
            (Method::GET, "/rest/tasks/%ff", Err(Refusal::NotFound)),
            (Method::GET, "/rest/tasks/", Err(Refusal::NotFound)),
            (Method::POST, "/rest/tasks/t1:cancel", Ok((Place::Cancel, "t1"))),
            (Method::GET, "/rest/tasks/t1:cancel", Err(Refusal::Method("POST"))),
            (Method::POST, "/rest/tasks/t1:subscribe", Ok((Place::Subscribe, "t1"))),
            (Method::GET, "/rest/tasks/t1:other", Err(Refusal::NotFound)),
            (Method::DELETE, "/rest/tasks/t1/pushNotificationConfigs/c", Ok((Place::Push, "t1"))),
            (Method::GET, "/control/", Err(Refusal::NotFound)),
            (Method::GET, "/resources/peer/x", Err(Refusal::NotFound)),
            (Method::OPTIONS, "*", Err(Refusal::NotFound)),
            (Method::GET, "/rest/../health", Err(Refusal::NotFound)),
        ] {
            let found = find(&method, path);
            let found = found.as_ref().map(|(place, id)| (*place, id.as_str())).map_err(|refusal| *refusal);
            assert_eq!(found, expected, "{method} {path}");
        }
    }
}

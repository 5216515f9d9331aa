//! The agent card: one document that A2A 1.0 and 0.3 clients both accept.
//!
//! 1.0 reads `supportedInterfaces`, 0.3 the keys `url`, `preferredTransport` and `protocolVersion`; each
//! ignores the other's. Nothing of the control surface stands in it.

use std::net::SocketAddr;

use http::header::{CACHE_CONTROL, HOST, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::payload::{self, Payload};
use crate::site::Site;

/// The extension that makes the results of tools artifacts of a task, each with `metadata.fence_source`.
pub const TOOL_RESULTS_EXTENSION: &str = "https://docs.murmur.nexus/a2a/tool-results/v1";

pub(crate) fn answer(site: &Site, head: &Parts) -> Response<Payload> {
    let host = head.headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let card = card(site, &base(site.local, host.as_ref()));
    let mut response = payload::json(StatusCode::OK, "application/json", &card);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Where the client reaches us: where we are bound or, when that is everywhere, by the name that it used.
fn base(local: SocketAddr, host: Option<&Authority>) -> String {
    match host {
        Some(host) if local.ip().is_unspecified() => {
            let port = host.port_u16().unwrap_or(local.port());
            format!("http://{}:{port}", host.host())
        }
        _ => format!("http://{local}"),
    }
}

fn card(site: &Site, base: &str) -> Value {
    let info = site.session.info();
    let skill = |name: &str, description: &str| json!({"id": name, "name": name, "description": description, "tags": ["murmur"]});
    let fallback = format!("The agent `{}`.", info.name);
    let description = info.description.as_deref().unwrap_or(&fallback);
    let mut skills: Vec<Value> = site.skills.iter().map(|(name, description)| skill(name, description)).collect();
    if skills.is_empty() {
        skills.push(skill(&info.name, description));
    }
    let interface = |path: &str, binding: &str, version: &str| json!({"url": format!("{base}{path}"), "protocolBinding": binding, "protocolVersion": version});
    let mut card = json!({
        "name": info.name,
        "description": description,
        "version": info.version,
        "supportedInterfaces": [
            interface("", "JSONRPC", "1.0"),
            interface("", "JSONRPC", "0.3"),
            interface("/rest", "HTTP+JSON", "1.0"),
        ],
        "protocolVersion": "0.3",
        "url": base,
        "preferredTransport": "JSONRPC",
        "capabilities": {
            "streaming": true,
            "pushNotifications": false,
            "extensions": [{
                "uri": TOOL_RESULTS_EXTENSION,
                "description": "The results of tools are artifacts, with where they came from in their metadata.",
                "required": false,
            }],
        },
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain"],
        "skills": skills,
    });
    if site.authentication
        && let Some(card) = card.as_object_mut()
    {
        // Each version reads its own keys of the scheme.
        let scheme = json!({"type": "http", "scheme": "bearer", "httpAuthSecurityScheme": {"scheme": "bearer"}});
        card.insert("securitySchemes".into(), json!({"bearer": scheme}));
        card.insert("security".into(), json!([{"bearer": []}]));
        card.insert("securityRequirements".into(), json!([{"schemes": {"bearer": {"list": []}}}]));
    }
    card
}

#[cfg(test)]
mod tests {
    use super::base;

    #[test]
    fn a_card_names_the_real_port() {
        for (local, host, expected) in [
            ("127.0.0.1:81", "localhost", "http://127.0.0.1:81"),
            ("[::1]:81", "localhost", "http://[::1]:81"),
            ("0.0.0.0:81", "agent.example", "http://agent.example:81"),
            ("0.0.0.0:81", "agent.example:9000", "http://agent.example:9000"),
        ] {
            assert_eq!(base(local.parse().unwrap(), Some(&host.parse().unwrap())), expected);
        }
    }
}

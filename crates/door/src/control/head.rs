//! The checks that a request's head alone decides, in the order in which the first that fails is answered:
//! path, name, method, peer, declared length. (The token comes before them, the content after.)

use std::net::IpAddr;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use runtime::{ControlDeclared, ControlRefusal};

use super::Denied;

/// Bytes that the body of a setting may have.
pub(super) const SETTING_BODY: usize = 1024;
/// Bytes that a secret may have.
pub(super) const SECRET_BODY: usize = 8192;

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Resource {
    Whole,
    Events,
    Setting(String),
    Secret(String),
}

impl Resource {
    /// What is at a path, if anything can be there.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path.strip_prefix("/control")? {
            "" => return Some(Self::Whole),
            "/events" => return Some(Self::Events),
            _ => {}
        }
        let setting = path.strip_prefix("/control/settings/").map(|name| (name, Self::Setting as fn(String) -> Self));
        let named = setting.or_else(|| Some((path.strip_prefix("/control/secrets/")?, Self::Secret as _)));
        let (name, of) = named.filter(|(name, _)| !name.is_empty() && !name.contains('/'))?;
        // A name that is not UTF-8 stays one that nobody declared.
        Some(of(percent_decode_str(name).decode_utf8_lossy().into_owned()))
    }

    /// The kind and the name, as the trace has them.
    pub(super) fn named(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Whole | Self::Events => None,
            Self::Setting(name) => Some(("setting", name)),
            Self::Secret(name) => Some(("secret", name)),
        }
    }
}

/// Checks name, method, peer and declared length.
pub(super) fn check(
    declared: &ControlDeclared,
    resource: &Resource,
    method: &Method,
    peer: IpAddr,
    length: Option<u64>,
) -> Result<(), Denied> {
    let (allow, most) = match resource {
        Resource::Whole | Resource::Events => ("GET", None),
        Resource::Setting(name) => {
            if !declared.settings.iter().any(|setting| setting.as_str() == name) {
                return Err(ControlRefusal::UndeclaredSetting(name.clone()).into());
            }
            ("PUT", Some(SETTING_BODY))
        }
        Resource::Secret(name) => {
            if !declared.secrets.contains(name) {
                return Err(ControlRefusal::UndeclaredSecret(name.clone()).into());
            }
            ("PUT, DELETE", Some(SECRET_BODY))
        }
    };
    if !allow.split(", ").any(|allowed| allowed == method.as_str()) {
        return Err(Denied::Method(allow));
    }
    // An IPv4 address in its IPv6 form is that IPv4 address.
    if matches!(resource, Resource::Secret(_)) && !peer.to_canonical().is_loopback() {
        return Err(Denied::NotLoopback);
    }
    match (most, length) {
        (Some(most), Some(length)) if usize::try_from(length).map_or(true, |length| length > most) => {
            Err(Denied::TooLarge(most))
        }
        _ => Ok(()),
    }
}

/// Whether a body is said to be JSON, and not packed.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else { return false };
    let essence = value.to_str().ok().and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json") && !headers.contains_key(CONTENT_ENCODING)
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
    use http::{HeaderMap, HeaderValue, Method};
    use runtime::{ControlDeclared, Setting};

    use super::{Resource, check, is_json};

    #[test]
    fn each_path_names_one_thing_or_nothing() {
        let setting = |name: &str| Some(Resource::Setting(name.to_owned()));
        let secret = |name: &str| Some(Resource::Secret(name.to_owned()));
        for (path, expected) in [
            ("/control", Some(Resource::Whole)),
            ("/control/events", Some(Resource::Events)),
            ("/control/settings/inference.max_tokens", setting("inference.max_tokens")),
            ("/control/settings/inference%2Emax_tokens", setting("inference.max_tokens")),
            ("/control/settings/a%2Fb", setting("a/b")),
            ("/control/settings/%ff", setting("\u{fffd}")),
            ("/control/secrets/KEY", secret("KEY")),
            ("/control/secrets/KEY/", None),
            ("/control/", None),
            ("/control/settings", None),
            ("/control/settings/", None),
            ("/control/secrets/", None),
            ("/control/secrets/a/b", None),
            ("/control/events/", None),
            ("/control//events", None),
            ("/control/settings/../secrets/KEY", None),
        ] {
            assert_eq!(Resource::at(path), expected, "{path}");
        }
    }

    /// Each address that counts as loopback and the nearest that does not.
    #[test]
    fn a_secret_is_taken_from_loopback_alone_and_a_setting_from_anywhere() {
        let declared =
            ControlDeclared { settings: vec![Setting::MaxTokens], secrets: vec!["KEY".into()], ..Default::default() };
        let secret = Resource::Secret("KEY".into());
        let setting = Resource::Setting("inference.max_tokens".into());
        for (peer, is_loopback) in [
            ("127.0.0.1", true),
            ("127.255.255.255", true),
            ("126.255.255.255", false),
            ("128.0.0.0", false),
            ("::1", true),
            ("::2", false),
            ("::", false),
            ("::ffff:127.0.0.1", true),
            ("::ffff:127.255.255.255", true),
            ("::ffff:128.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            // The old compatible form is no mapped one.
            ("::127.0.0.1", false),
            ("10.0.0.1", false),
            ("fe80::1", false),
        ] {
            let peer = peer.parse().unwrap();
            for method in [Method::PUT, Method::DELETE] {
                let checked = check(&declared, &secret, &method, peer, None);
                assert_eq!(
                    checked.map_err(|denied| denied.reason()),
                    if is_loopback { Ok(()) } else { Err(Some("not_loopback")) },
                    "{peer}"
                );
            }
            assert!(check(&declared, &setting, &Method::PUT, peer, None).is_ok(), "{peer}");
        }
    }

    /// The checks of a head, each with a request that it refuses: every two of them, the earlier answers.
    #[test]
    fn of_two_faults_the_earlier_is_answered() {
        let declared = ControlDeclared { secrets: vec!["KEY".into()], ..Default::default() };
        let order = ["undeclared_secret", "method_not_allowed", "not_loopback", "body_too_large"];
        for faults in 0_u8..16 {
            let has = |index: usize| faults & (1 << index) != 0;
            let resource = Resource::Secret(if has(0) { "OTHER" } else { "KEY" }.to_owned());
            let method = if has(1) { Method::POST } else { Method::PUT };
            let peer = if has(2) { "10.0.0.1" } else { "127.0.0.1" }.parse().unwrap();
            let length = if has(3) { 8193 } else { 8192 };
            let expected = (0..order.len()).find(|index| has(*index)).map(|index| order[index]);
            let checked = check(&declared, &resource, &method, peer, Some(length));
            assert_eq!(checked.err().and_then(|denied| denied.reason()), expected, "{faults:04b}");
        }
    }

    #[test]
    fn json_is_what_says_so_once() {
        let said = |types: &[&'static str], packed: bool| {
            let mut headers = HeaderMap::new();
            for value in types {
                headers.append(CONTENT_TYPE, HeaderValue::from_static(value));
            }
            if packed {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            is_json(&headers)
        };
        assert!(said(&["application/json"], false) && said(&["Application/JSON; charset=utf-8"], false));
        for bad in [&[][..], &["text/plain"], &["application/jsonp"], &["application/a2a+json"], &[""]] {
            assert!(!said(bad, false), "{bad:?}");
        }
        assert!(!said(&["application/json"], true) && !said(&["application/json", "application/json"], false));
    }
}

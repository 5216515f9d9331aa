//! Bearer tokens of one session: who made them, what they open, and nothing that must be stored to check.
//!
//! A token is `<tag>.<base64url JSON {"session_id","minted_ms"}>.<base64url HMAC-SHA256>`. The tag is under
//! the MAC, so a token of one scope cannot be turned into one of another; a further scope is one more tag.
//! Neither the key nor a token can be printed, compared or serialized by accident.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use vocab::SessionId;
use zeroize::Zeroizing;

use crate::DoorError;

/// What the MAC is about, so that this key's MACs mean nothing anywhere else.
const DOMAIN: &str = "murmur session token";
/// No token of ours is longer; a longer one is not even looked at.
const LONGEST: usize = 512;

/// What a token opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything: the session's operator.
    Operator,
    /// Looking, and nothing else (`diagnostics:read`).
    Diagnostics,
    /// Tasks of one's own: another capsule.
    Peer,
    /// The control surface, and nothing else; nothing else opens that.
    Control,
}

impl Scope {
    const ALL: [Self; 4] = [Self::Operator, Self::Diagnostics, Self::Peer, Self::Control];

    /// The word that a token of this scope begins with.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::Operator => "door1",
            Self::Diagnostics => "diag1",
            Self::Peer => "peer1",
            Self::Control => "ctl1",
        }
    }
}

/// A bearer token; cleared from memory when it is dropped. It is shown only where somebody means to:
///
/// ```compile_fail
/// let (key, session) = (door::TokenKey::new().unwrap(), vocab::SessionId::new());
/// format!("{:?}", key.mint(door::Scope::Peer, &session, 0));
/// ```
pub struct Token(Zeroizing<String>);

impl Token {
    /// The token itself, for its file or a header.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// The SHA-256 of a token that was shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenDigest([u8; 32]);

impl TokenDigest {
    fn of(token: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        Self(digest.as_ref().try_into().unwrap_or_default())
    }

    /// How a trace names the token: the first 16 hex digits.
    pub(crate) fn id(&self) -> String {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().map_or('0', char::from);
        self.0.iter().take(8).flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }
}

/// The tokens of one session that were found good: the first of each scope is checked once, and known by its digest
/// from then on. How long digests take to compare tells nothing of a token.
#[derive(Default)]
pub(crate) struct Known([OnceLock<TokenDigest>; Scope::ALL.len()]);

impl Known {
    /// What a token opens, if it is one of this session's, and its digest.
    pub(crate) fn check(&self, key: &TokenKey, token: &str, session: &SessionId) -> Option<(Scope, TokenDigest)> {
        if token.len() > LONGEST {
            return None;
        }
        let digest = TokenDigest::of(token);
        let known = self.0.iter().zip(Scope::ALL).find(|(known, _)| known.get() == Some(&digest));
        if let Some((_, scope)) = known {
            return Some((scope, digest));
        }
        let scope = key.verify(token, session)?;
        if let Some((known, _)) = self.0.iter().zip(Scope::ALL).find(|(_, of)| *of == scope) {
            // Another of the same scope is checked anew each time.
            let _ = known.set(digest);
        }
        Some((scope, digest))
    }
}

/// The key that a session's tokens are made and checked with; cleared from memory when it is dropped. It is
/// never shown:
///
/// ```compile_fail
/// format!("{:?}", door::TokenKey::new().unwrap());
/// ```
pub struct TokenKey(Zeroizing<[u8; 32]>);

#[derive(Serialize, Deserialize)]
struct Claims {
    session_id: SessionId,
    minted_ms: u64,
}

impl TokenKey {
    /// A fresh key.
    ///
    /// # Errors
    /// [`DoorError::Randomness`].
    pub fn new() -> Result<Self, DoorError> {
        let mut key = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(key.as_mut_slice()).map_err(|_| DoorError::Randomness)?;
        Ok(Self(key))
    }

    /// Makes a token of this scope for this session; `now_ms` is the time, in milliseconds since the Unix
    /// epoch.
    #[must_use]
    pub fn mint(&self, scope: Scope, session: &SessionId, now_ms: u64) -> Token {
        let claims = Claims { session_id: session.clone(), minted_ms: now_ms };
        // Two plain fields: there is nothing that could fail to serialize.
        let payload = BASE64.encode(serde_json::to_vec(&claims).unwrap_or_default());
        let mac = hmac::sign(&self.key(), signed(scope, &payload).as_bytes());
        Token(Zeroizing::new(format!("{}.{payload}.{}", scope.tag(), BASE64.encode(mac.as_ref()))))
    }

    /// What a token opens, if it is one of this session's. The comparison takes the same time wherever
    /// the tokens differ.
    #[must_use]
    pub fn verify(&self, token: &str, session: &SessionId) -> Option<Scope> {
        if token.len() > LONGEST {
            return None;
        }
        let mut fields = token.split('.');
        let (tag, payload, mac) = (fields.next()?, fields.next()?, fields.next()?);
        if fields.next().is_some() {
            return None;
        }
        let scope = Scope::ALL.into_iter().find(|scope| scope.tag() == tag)?;
        let mac = BASE64.decode(mac).ok()?;
        hmac::verify(&self.key(), signed(scope, payload).as_bytes(), &mac).ok()?;
        let claims: Claims = serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()?;
        (claims.session_id == *session).then_some(scope)
    }

    /// Made for each use: ring's own form of a key is not cleared when it is dropped.
    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.as_slice())
    }
}

/// Neither a tag nor a payload holds a NUL, so no two triples give the same text.
fn signed(scope: Scope, payload: &str) -> String {
    format!("{}\0{DOMAIN}\0{payload}", scope.tag())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vocab::SessionId;

    use super::{Known, Scope, TokenDigest, TokenKey};

    #[test]
    fn a_token_opens_its_own_scope_of_its_own_session_and_key() {
        let (key, session) = (TokenKey::new().unwrap(), SessionId::new());
        for scope in Scope::ALL {
            let token = key.mint(scope, &session, 7);
            assert_eq!(key.verify(token.reveal(), &session), Some(scope));
            assert_eq!(key.verify(token.reveal(), &SessionId::new()), None);
            assert_eq!(TokenKey::new().unwrap().verify(token.reveal(), &session), None);
            for other in Scope::ALL.into_iter().filter(|other| *other != scope) {
                let turned = token.reveal().replacen(scope.tag(), other.tag(), 1);
                assert_eq!(key.verify(&turned, &session), None, "{scope:?} is no {other:?}");
            }
        }
    }

    #[test]
    fn a_token_is_named_by_the_beginning_of_its_digest() {
        // As `printf ctl1.a.b | sha256sum` has it.
        assert_eq!(TokenDigest::of("ctl1.a.b").id(), "d588a47dbe171b54");
    }

    /// Twice each: the first may be found by the key, the second by its digest.
    #[test]
    fn what_is_known_opens_what_it_opened_before_and_nothing_else_does() {
        let (key, session, known) = (TokenKey::new().unwrap(), SessionId::new(), Known::default());
        let scope = |token: &str| known.check(&key, token, &session).map(|(scope, _)| scope);
        for scope_of in Scope::ALL {
            for minted in [7, 8, 7, 8] {
                let token = key.mint(scope_of, &session, minted);
                assert_eq!(scope(token.reveal()), Some(scope_of));
                for other in Scope::ALL.into_iter().filter(|other| *other != scope_of) {
                    assert_eq!(scope(&token.reveal().replacen(scope_of.tag(), other.tag(), 1)), None);
                }
                assert_eq!(scope(&format!("x{}", token.reveal())), None);
                assert_eq!(scope(&format!("{}{}", token.reveal(), "=".repeat(512))), None);
            }
            let foreign = TokenKey::new().unwrap().mint(scope_of, &session, 7);
            assert_eq!((scope(foreign.reveal()), scope(foreign.reveal())), (None, None));
        }
    }

    proptest! {
        #[test]
        fn no_other_text_is_a_token(at in 0_usize..200, with in "[A-Za-z0-9._=-]", extra in ".{0,8}") {
            let (key, session) = (TokenKey::new().unwrap(), SessionId::new());
            let token = key.mint(Scope::Operator, &session, 7);
            let good = token.reveal();
            let mut bad: String = good.chars().enumerate()
                .map(|(index, c)| if index == at % good.len() { with.chars().next().unwrap() } else { c })
                .collect();
            bad.push_str(&extra);
            prop_assert_eq!(key.verify(&bad, &session), (bad == good).then_some(Scope::Operator));
        }
    }
}

//! Who asks, and what follows from it: which origin and class a task gets, which tasks are in sight.
//!
//! A sender never states its own class. It may claim to be a peer, and is believed as far as it is
//! authenticated; everything else that comes from outside is an untrusted event.

use vocab::{Origin, Trust};

/// Who a request comes from, as its token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The session's operator.
    Operator,
    /// Another capsule that was given the peer token.
    Peer,
    /// Somebody who may look and do nothing else.
    Diagnostics,
    /// Somebody without a token.
    Anonymous,
}

/// What a sender says of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// `Peer` or `Completion`; nothing else can be claimed.
    pub origin: Origin,
    /// The class that it claims for itself.
    pub trust: Option<Trust>,
}

impl Caller {
    /// The origin and class of a task that this caller sends with this claim.
    #[must_use]
    pub fn derive(self, claim: Option<Claim>) -> (Origin, Trust) {
        let authenticated = matches!(self, Self::Operator | Self::Peer);
        match claim {
            Some(Claim { origin: origin @ (Origin::Peer | Origin::Completion), trust }) => {
                (origin, origin.trust(trust.filter(|_| authenticated)))
            }
            Some(_) | None if self == Self::Operator => (Origin::User, Origin::User.trust(None)),
            Some(_) | None => (Origin::Event, Origin::Event.trust(None)),
        }
    }

    /// Whether this caller may know of a task or a conversation of `owner`. Without authentication
    /// everybody is anonymous and nothing is hidden; a peer sees its own alone.
    pub(crate) fn sees(self, owner: Self) -> bool {
        match self {
            Self::Operator | Self::Diagnostics | Self::Anonymous => true,
            Self::Peer => owner == Self::Peer,
        }
    }
}

#[cfg(test)]
mod tests {
    use vocab::{Origin, Trust};

    use super::{Caller, Claim};

    #[test]
    fn only_the_authenticated_are_believed() {
        let claim = |origin, trust| Some(Claim { origin, trust });
        let (trusted, untrusted) = (Some(Trust::Trusted), Some(Trust::Untrusted));
        for (caller, claim, expected) in [
            (Caller::Operator, None, (Origin::User, Trust::Trusted)),
            (Caller::Operator, claim(Origin::Peer, trusted), (Origin::Peer, Trust::Trusted)),
            (Caller::Operator, claim(Origin::Peer, untrusted), (Origin::Peer, Trust::Untrusted)),
            (Caller::Operator, claim(Origin::Peer, None), (Origin::Peer, Trust::Untrusted)),
            (Caller::Peer, None, (Origin::Event, Trust::Untrusted)),
            (Caller::Peer, claim(Origin::Completion, trusted), (Origin::Completion, Trust::Trusted)),
            (Caller::Anonymous, None, (Origin::Event, Trust::Untrusted)),
            (Caller::Anonymous, claim(Origin::Peer, trusted), (Origin::Peer, Trust::Untrusted)),
            (Caller::Anonymous, claim(Origin::Completion, trusted), (Origin::Completion, Trust::Untrusted)),
            (Caller::Anonymous, claim(Origin::User, trusted), (Origin::Event, Trust::Untrusted)),
            (Caller::Diagnostics, claim(Origin::Peer, trusted), (Origin::Peer, Trust::Untrusted)),
        ] {
            assert_eq!(caller.derive(claim), expected, "{caller:?} {claim:?}");
        }
    }
}

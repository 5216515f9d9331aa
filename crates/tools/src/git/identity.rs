//! Who commits: `user.name` and `user.email`, read as data and from nowhere else.
//!
//! The repository's own configuration counts first, then the user's. Files that these include are not
//! followed, and no environment variable is taken: an identity stands where the operator can see it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::CommitRefused;

/// As much of a user's configuration as is read.
const MAX_CONFIG: u64 = 1024 * 1024;

/// A name and an address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    name: Option<String>,
    email: Option<String>,
}

impl Identity {
    /// Takes what is still missing from a configuration's entries, of which the last one counts.
    pub(super) fn take(&mut self, entries: &[(String, String)]) {
        let find = |wanted: &str| {
            let (_, value) = entries.iter().rev().find(|(key, _)| key == wanted)?;
            Some(value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        self.name = self.name.take().or_else(|| find("user.name"));
        self.email = self.email.take().or_else(|| find("user.email"));
    }

    pub(super) fn is_complete(&self) -> bool {
        self.name.is_some() && self.email.is_some()
    }

    /// The variables by which git takes it.
    pub(super) fn variables(self) -> Result<Vec<(OsString, OsString)>, CommitRefused> {
        let name = self.name.ok_or(CommitRefused::Nobody { missing: "user.name" })?;
        let email = self.email.ok_or(CommitRefused::Nobody { missing: "user.email" })?;
        let variables = [
            ("GIT_AUTHOR_NAME", &name),
            ("GIT_AUTHOR_EMAIL", &email),
            ("GIT_COMMITTER_NAME", &name),
            ("GIT_COMMITTER_EMAIL", &email),
        ];
        Ok(variables.map(|(variable, value)| (variable.into(), value.into())).to_vec())
    }
}

/// A user's configuration file as it is, if there is one that can be read.
pub(super) fn user_configuration(path: &Path) -> Option<Vec<u8>> {
    let read = || -> io::Result<Vec<u8>> {
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = Vec::new();
        file.take(MAX_CONFIG).read_to_end(&mut text)?;
        Ok(text)
    };
    read().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_first_configuration_counts_and_its_last_entry() {
        let mut identity = Identity::default();
        identity.take(&entries(&[("user.name", "a"), ("user.name", " b "), ("user.email", " ")]));
        assert!(!identity.is_complete());
        identity.take(&entries(&[("user.name", "c"), ("user.email", "c@example.com")]));
        let expected = Identity { name: Some("b".to_owned()), email: Some("c@example.com".to_owned()) };
        assert_eq!(identity, expected);
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut identity = Identity::default();
        identity.take(&entries(&[("user.name", "a"), ("author.email", "a@example.com")]));
        let refused = identity.variables().unwrap_err();
        let words =
            "nobody to commit as: `user.email` is set neither in the repository's nor in the user's git configuration";
        assert_eq!(refused.to_string(), words);
    }
}

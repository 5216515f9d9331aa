//! The answers of known providers of credentials, which mark nothing themselves.
//!
//! An adapter knows by a tool's name what its answer may hold, and by an answer's shape where in it the secrets stand.
//! In a known shape the names of members that are shown are listed and everything else is protected, so that a member
//! that a newer version adds is no leak. What is in no known shape is withheld, but for the few tools that are listed
//! as harmless. The names are those of `@bitwarden/mcp-server` and `@icoretech/warden-mcp` over the Bitwarden command
//! line's items, of HashiCorp's `vault-mcp-server`, and of 1Password's items as `op` and its SDK write them.

mod shape;

pub(super) use shape::secrets_in;

use super::SensitiveType;
use super::leaves::Leaf;
use crate::Adapter;

/// What the answer of a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// A credential: in a known shape, or the bare text.
    Value,
    /// A credential, in a known shape.
    Item,
    /// Nothing that is secret, but for what stands in a known shape.
    Harmless,
    /// Not known, and so in a known shape or not shown.
    Unlisted,
}

/// Leaves that are secrets, and of what type.
pub(super) type Found<'t> = Vec<(Leaf<'t>, SensitiveType)>;

/// What the tools of a provider answer; their names are without the provider's own prefix.
struct Tools {
    prefixes: &'static [&'static str],
    value: &'static [&'static str],
    item: &'static [&'static str],
    harmless: &'static [&'static str],
}

const BITWARDEN: Tools = Tools {
    prefixes: &["keychain_", "bitwarden_", "bw_"],
    value: &["get", "get_password", "get_totp", "get_notes", "get_secret", "get_password_history", "generate"],
    item: &["get_item"],
    harmless: &[
        "status",
        "sync",
        "lock",
        "delete",
        "restore",
        "list_folders",
        "list_collections",
        "list_organizations",
        "list_org_collections",
        "list_org_members",
    ],
};

const VAULT: Tools = Tools {
    prefixes: &["vault_", "kv_"],
    value: &[],
    item: &["read_secret", "get_secret", "read", "get", "issue_pki_certificate"],
    harmless: &[
        "list",
        "delete",
        "list_mounts",
        "create_mount",
        "delete_mount",
        "list_secrets",
        "write_secret",
        "delete_secret",
        "list_pki_issuers",
        "read_pki_issuer",
        "list_pki_roles",
        "read_pki_role",
        "create_pki_role",
        "delete_pki_role",
    ],
};

const ONE_PASSWORD: Tools = Tools {
    prefixes: &["onepassword_", "1password_", "op_"],
    value: &[
        "get_password",
        "password_read",
        "read",
        "read_secret",
        "get_secret",
        "get_otp",
        "password_generate",
        "password_generate_memorable",
        "generate_password",
    ],
    item: &["get_item", "item_get", "read_item", "item_lookup", "get"],
    harmless: &["vault_list", "list_vaults", "item_list", "list_items", "item_delete", "delete_item"],
};

/// What a provider's tool of this name answers.
pub(super) fn answer_of(adapter: Adapter, tool: &str) -> Answer {
    let tools = match adapter {
        Adapter::Bitwarden => BITWARDEN,
        Adapter::Vault => VAULT,
        Adapter::OnePassword => ONE_PASSWORD,
    };
    let plain = tool.to_ascii_lowercase().replace(['-', '.', '/'], "_");
    let name = tools.prefixes.iter().find_map(|prefix| plain.strip_prefix(prefix)).unwrap_or(&plain);
    let kinds = [(tools.value, Answer::Value), (tools.item, Answer::Item), (tools.harmless, Answer::Harmless)];
    kinds.iter().find(|(names, _)| names.contains(&name)).map_or(Answer::Unlisted, |(_, answer)| *answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_its_name_with_and_without_its_providers_prefix() {
        for (adapter, tool, answer) in [
            (Adapter::Bitwarden, "keychain_get_password", Answer::Value),
            (Adapter::Bitwarden, "Get-Item", Answer::Item),
            (Adapter::Bitwarden, "generate", Answer::Value),
            (Adapter::Bitwarden, "status", Answer::Harmless),
            (Adapter::Bitwarden, "list", Answer::Unlisted),
            (Adapter::Bitwarden, "unlock", Answer::Unlisted),
            (Adapter::Bitwarden, "vault_status", Answer::Unlisted),
            (Adapter::Vault, "read_secret", Answer::Item),
            (Adapter::Vault, "vault_list", Answer::Harmless),
            (Adapter::Vault, "create_pki_issuer", Answer::Unlisted),
            (Adapter::OnePassword, "op.read", Answer::Value),
            (Adapter::OnePassword, "vault_list", Answer::Harmless),
            (Adapter::OnePassword, "password_create", Answer::Unlisted),
        ] {
            assert_eq!(answer_of(adapter, tool), answer, "{tool}");
        }
    }
}

//! The answers of known providers of credentials, which mark nothing themselves.
//!
//! An adapter knows by a tool's name whether its answer is a credential, and by an answer's shape where in it the
//! secrets stand. A shape is protected whatever the tool's name; an answer of a credential's tool in no known shape
//! is withheld. The names are those of `@bitwarden/mcp-server` (`get`) and `@icoretech/warden-mcp`
//! (`keychain_get_password`, `keychain_get_item`) over the Bitwarden command line's items, of HashiCorp's
//! `vault-mcp-server` (`read_secret`), and of 1Password's items as `op` and its SDK write them.

use super::SensitiveType;
use super::leaves::{Leaf, Node};
use crate::Adapter;

/// What the answer of a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// A credential: in a known shape, or the bare text.
    Value,
    /// A credential, in a known shape.
    Item,
    /// Anything.
    Other,
}

/// What a provider's tool of this name answers.
pub(super) fn answer_of(adapter: Adapter, tool: &str) -> Answer {
    let plain = tool.to_ascii_lowercase().replace(['-', '.', '/'], "_");
    let prefixes = ["keychain_", "bitwarden_", "bw_", "vault_", "kv_", "onepassword_", "1password_", "op_"];
    let name = prefixes.iter().find_map(|prefix| plain.strip_prefix(prefix)).unwrap_or(&plain);
    match (adapter, name) {
        (
            Adapter::Bitwarden,
            "get" | "get_password" | "get_totp" | "get_notes" | "get_secret" | "get_password_history",
        )
        | (
            Adapter::OnePassword,
            "get_password" | "password_read" | "read" | "read_secret" | "get_secret" | "get_otp",
        ) => Answer::Value,
        (Adapter::Bitwarden, "get_item")
        | (Adapter::Vault, "read_secret" | "get_secret" | "read" | "get")
        | (Adapter::OnePassword, "get_item" | "item_get" | "read_item" | "item_lookup" | "get") => Answer::Item,
        _ => Answer::Other,
    }
}

/// A leaf that is a secret, and of what type.
pub(super) type Found<'t> = Vec<(Leaf<'t>, SensitiveType)>;

/// The secrets of an answer; nothing when its shape is not known.
pub(super) fn secrets_in<'t>(adapter: Adapter, answer: Answer, node: &Node<'t>) -> Option<Found<'t>> {
    match adapter {
        Adapter::Bitwarden => bitwarden(node),
        Adapter::Vault => vault(answer, node),
        Adapter::OnePassword => items(node, &one_password_item),
    }
}

fn bitwarden<'t>(node: &Node<'t>) -> Option<Found<'t>> {
    let record = node.get("result").unwrap_or(node);
    let Some((kind, value)) = record.text("kind").zip(record.get("value")) else {
        return items(node, &bitwarden_item);
    };
    let of = match kind.as_str() {
        "username" | "uri" => return Some(Vec::new()),
        "password" => SensitiveType::Password,
        _ => SensitiveType::Secret,
    };
    Some(value.leaves().into_iter().map(|leaf| (leaf, of)).collect())
}

/// The secrets of all items anywhere in an answer; nothing when there is no item and the answer is not an empty list.
fn items<'t>(node: &Node<'t>, item: &dyn Fn(&Node<'t>) -> Option<Found<'t>>) -> Option<Found<'t>> {
    if matches!(node, Node::Array(items) if items.is_empty()) {
        return Some(Vec::new());
    }
    let own = item(node);
    let below: Vec<Found<'t>> = match own {
        Some(_) => Vec::new(),
        None => node.children().into_iter().filter_map(|child| items_below(child, item)).collect(),
    };
    match own {
        None if below.is_empty() => None,
        own => Some(own.into_iter().chain(below).flatten().collect()),
    }
}

fn items_below<'t>(node: &Node<'t>, item: &dyn Fn(&Node<'t>) -> Option<Found<'t>>) -> Option<Found<'t>> {
    items(node, item).filter(|_| !matches!(node, Node::Array(items) if items.is_empty()))
}

/// An item of `bw`.
fn bitwarden_item<'t>(node: &Node<'t>) -> Option<Found<'t>> {
    let parts = ["login", "card", "identity", "sshKey", "secureNote", "passwordHistory"];
    node.get("name")?;
    if !parts.iter().any(|part| node.get(part).is_some()) {
        return None;
    }
    let mut found = Vec::new();
    let Node::Object(members) = node else { return None };
    for (key, member) in members {
        match key.as_str() {
            "fields" => found.extend(leaves_named(member, &["value"])),
            "notes" => found.extend(leaves(member, SensitiveType::Secret)),
            _ => found.extend(leaves_named(member, &BITWARDEN)),
        }
    }
    Some(found)
}

/// Members of the parts of an item that are secret.
const BITWARDEN: [&str; 10] =
    ["password", "totp", "notes", "number", "code", "ssn", "passportNumber", "licenseNumber", "privateKey", "keyValue"];

/// An item of 1Password.
fn one_password_item<'t>(node: &Node<'t>) -> Option<Found<'t>> {
    let Some(Node::Array(fields)) = node.get("fields") else { return None };
    node.get("id").or_else(|| node.get("title"))?;
    let mut found = Vec::new();
    for field in fields {
        let kind = field.text("type").or_else(|| field.text("fieldType")).unwrap_or_default().to_ascii_lowercase();
        let purpose = field.text("purpose").unwrap_or_default();
        let is_known = matches!(
            kind.as_str(),
            "string"
                | "text"
                | "url"
                | "email"
                | "phone"
                | "address"
                | "date"
                | "month_year"
                | "monthyear"
                | "menu"
                | "reference"
        );
        if is_known && !matches!(purpose.as_str(), "PASSWORD" | "NOTES") {
            continue;
        }
        let of = if purpose == "PASSWORD" { SensitiveType::Password } else { SensitiveType::Secret };
        for member in ["value", "totp", "details"] {
            found.extend(field.get(member).into_iter().flat_map(|value| leaves(value, of)));
        }
    }
    found.extend(node.get("notes").into_iter().flat_map(|notes| leaves(notes, SensitiveType::Secret)));
    Some(found)
}

/// A secret of KV version 2: the pairs alone, as the server's tool gives them, or with what the API has around them.
fn vault<'t>(answer: Answer, node: &Node<'t>) -> Option<Found<'t>> {
    let data = node.get("data");
    let inner = data.and_then(|data| data.get("data").filter(|_| data.get("metadata").is_some()));
    let pairs = match (inner, data) {
        (Some(inner), _) => inner,
        (None, Some(data)) if node.get("metadata").is_some() => data,
        _ if answer == Answer::Item && matches!(node, Node::Object(_)) => node,
        _ => return None,
    };
    Some(leaves(pairs, SensitiveType::Secret))
}

fn leaves<'t>(node: &Node<'t>, of: SensitiveType) -> Found<'t> {
    node.leaves().into_iter().map(|leaf| (leaf, of)).collect()
}

/// The leaves below members of these names.
fn leaves_named<'t>(node: &Node<'t>, names: &[&str]) -> Found<'t> {
    let mut found = Vec::new();
    if let Node::Object(members) = node {
        for (key, member) in members.iter().filter(|(key, _)| names.contains(&key.as_str())) {
            let of = match key.as_str() {
                "password" => SensitiveType::Password,
                "privateKey" => SensitiveType::PrivateKey,
                _ => SensitiveType::Secret,
            };
            found.extend(leaves(member, of));
        }
    }
    let deeper = |child: &&Node<'t>| !matches!(child, Node::Leaf(_));
    let named = |child: &Node<'t>| leaves_named(child, names);
    let unnamed: Vec<&Node<'t>> = match node {
        Node::Object(members) => {
            members.iter().filter(|(key, _)| !names.contains(&key.as_str())).map(|(_, member)| member).collect()
        }
        Node::Array(items) => items.iter().collect(),
        Node::Leaf(_) => Vec::new(),
    };
    found.extend(unnamed.into_iter().filter(deeper).flat_map(named));
    found
}

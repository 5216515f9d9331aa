//! The shapes of answers, and what of them is shown.
//!
//! An answer is known when every object of it that is neither a list nor a wrapper around one is of a known shape.
//! What a wrapper holds beside is protected like an unlisted member.

use super::super::SensitiveType;
use super::super::leaves::Node;
use super::{Answer, Found};
use crate::Adapter;

/// Members under which servers hand on what they wrap.
const WRAPPERS: [&str; 7] = ["result", "results", "data", "items", "item", "secret", "secrets"];
/// Members of a wrapper that say something about the answer alone.
const ABOUT: [&str; 16] = [
    "object",
    "success",
    "count",
    "total",
    "limit",
    "offset",
    "page",
    "cursor",
    "continuationToken",
    "request_id",
    "lease_id",
    "lease_duration",
    "renewable",
    "mount_type",
    "kind",
    "revealed",
];
/// Members of Bitwarden's objects that are shown.
const BITWARDEN: [&str; 60] = [
    "object",
    "id",
    "organizationId",
    "folderId",
    "collectionIds",
    "type",
    "reprompt",
    "name",
    "favorite",
    "revisionDate",
    "creationDate",
    "deletedDate",
    "archivedDate",
    "lastUsedDate",
    "passwordRevisionDate",
    "username",
    "uri",
    "uris",
    "match",
    "linkedId",
    "fileName",
    "size",
    "sizeName",
    "cardholderName",
    "brand",
    "expMonth",
    "expYear",
    "title",
    "firstName",
    "middleName",
    "lastName",
    "address1",
    "address2",
    "address3",
    "city",
    "state",
    "postalCode",
    "country",
    "company",
    "email",
    "phone",
    "publicKey",
    "keyFingerprint",
    "credentialId",
    "keyType",
    "keyAlgorithm",
    "keyCurve",
    "rpId",
    "rpName",
    "userName",
    "userDisplayName",
    "counter",
    "discoverable",
    "kind",
    "externalId",
    "status",
    "maxAccessCount",
    "accessCount",
    "expirationDate",
    "deletionDate",
];
/// Members of 1Password's objects that are shown.
const ONE_PASSWORD: [&str; 45] = [
    "id",
    "title",
    "name",
    "version",
    "category",
    "created_at",
    "updated_at",
    "createdAt",
    "updatedAt",
    "last_edited_by",
    "additional_information",
    "tags",
    "favorite",
    "label",
    "primary",
    "href",
    "url",
    "urls",
    "type",
    "fieldType",
    "purpose",
    "reference",
    "section",
    "sections",
    "sectionId",
    "section_id",
    "vaultId",
    "vault_id",
    "vault",
    "entropy",
    "generated",
    "strength",
    "content_version",
    "attribute_version",
    "items",
    "state",
    "autofillBehavior",
    "autofill_behavior",
    "size",
    "content_path",
    "file_name",
    "filename",
    "description",
    "field_type",
    "trashed",
];
/// Types of 1Password's fields that hold nothing secret.
const PLAIN_FIELDS: [&str; 11] =
    ["string", "text", "url", "email", "phone", "address", "date", "month_year", "monthyear", "menu", "reference"];
/// Members of a certificate that Vault issued which are shown.
const CERTIFICATE: [&str; 6] =
    ["certificate", "issuing_ca", "ca_chain", "serial_number", "expiration", "private_key_type"];

/// The secrets of an answer; nothing when its shape is not known.
pub(in super::super) fn secrets_in<'t>(adapter: Adapter, answer: Answer, node: &Node<'t>) -> Option<Found<'t>> {
    let mut found = Vec::new();
    if is_known(adapter, node, &mut found) {
        return Some(found);
    }
    // The pairs of a secret, as they are or in some other form: all of it.
    let is_pairs = adapter == Adapter::Vault && answer == Answer::Item && !matches!(node, Node::Leaf(_));
    is_pairs.then(|| all(node, SensitiveType::Secret))
}

fn is_known<'t>(adapter: Adapter, node: &Node<'t>, found: &mut Found<'t>) -> bool {
    match node {
        Node::Leaf(leaf) => leaf.value().is_none(),
        Node::Array(items) => items.iter().all(|item| is_known(adapter, item, found)),
        Node::Object(members) => {
            let own = match adapter {
                Adapter::Bitwarden => bitwarden(node),
                Adapter::Vault => vault(node),
                Adapter::OnePassword => one_password(node),
            };
            match own {
                Some(own) => {
                    found.extend(own);
                    true
                }
                None => is_wrapper(adapter, members, found),
            }
        }
    }
}

fn is_wrapper<'t>(adapter: Adapter, members: &[(String, Node<'t>)], found: &mut Found<'t>) -> bool {
    let mut wrapped = 0;
    for (key, member) in members {
        if WRAPPERS.contains(&key.as_str()) && !matches!(member, Node::Leaf(_)) {
            if !is_known(adapter, member, found) {
                return false;
            }
            wrapped += 1;
        } else {
            hide(member, key, &ABOUT, found);
        }
    }
    wrapped > 0
}

fn bitwarden<'t>(node: &Node<'t>) -> Option<Found<'t>> {
    let Node::Object(members) = node else { return None };
    let mut found = Vec::new();
    let (object, kind) = (node.text("object"), node.text("kind"));
    let value = match (object.as_deref(), kind.as_deref()) {
        (Some("list"), _) => return None,
        (Some("string"), _) => node.get("data").map(|value| ("data", Some(SensitiveType::Secret), value)),
        (_, Some("username" | "uri")) => node.get("value").map(|value| ("value", None, value)),
        (_, Some("password")) => node.get("value").map(|value| ("value", Some(SensitiveType::Password), value)),
        (_, Some(_)) => node.get("value").map(|value| ("value", Some(SensitiveType::Secret), value)),
        (_, None) => None,
    };
    let parts = ["login", "card", "identity", "sshKey", "secureNote", "passwordHistory"];
    let is_item = node.get("name").is_some() && parts.iter().any(|part| node.get(part).is_some());
    if value.is_none() && !is_item && object.is_none() {
        return None;
    }
    for (key, member) in members {
        match value {
            Some((name, of, value)) if name == key => found.extend(of.into_iter().flat_map(|of| all(value, of))),
            _ => hide(member, key, &[ABOUT.as_slice(), &BITWARDEN].concat(), &mut found),
        }
    }
    Some(found)
}

/// An item, one of its fields, or what lists say of an item or a vault.
fn one_password<'t>(node: &Node<'t>) -> Option<Found<'t>> {
    let Node::Object(members) = node else { return None };
    let mut found = Vec::new();
    node.get("id").or_else(|| node.get("title"))?;
    if let Some(of) = field(node) {
        hide_in_field(members, of, &mut found);
        return Some(found);
    }
    let is_item = matches!(node.get("fields"), Some(Node::Array(_)));
    let is_overview = node.get("id").is_some() && (node.get("title").is_some() || node.get("name").is_some());
    if !is_item && !is_overview {
        return None;
    }
    for (key, member) in members {
        match member {
            Node::Array(fields) if key == "fields" => {
                for one in fields {
                    match (one, field(one)) {
                        (Node::Object(members), Some(of)) => hide_in_field(members, of, &mut found),
                        (one, _) => hide(one, key, &ONE_PASSWORD, &mut found),
                    }
                }
            }
            member => hide(member, key, &ONE_PASSWORD, &mut found),
        }
    }
    Some(found)
}

/// Whether an object is a field: then whether its value is a secret, and of what type.
fn field(node: &Node<'_>) -> Option<Option<SensitiveType>> {
    node.get("value")?;
    let kind = node.text("type").or_else(|| node.text("fieldType"))?.to_ascii_lowercase();
    Some(match node.text("purpose").unwrap_or_default().as_str() {
        "PASSWORD" => Some(SensitiveType::Password),
        "NOTES" => Some(SensitiveType::Secret),
        _ if PLAIN_FIELDS.contains(&kind.as_str()) => None,
        _ => Some(SensitiveType::Secret),
    })
}

fn hide_in_field<'t>(members: &[(String, Node<'t>)], of: Option<SensitiveType>, found: &mut Found<'t>) {
    for (key, member) in members {
        match (key.as_str(), of) {
            ("value", Some(of)) => found.extend(all(member, of)),
            ("value", None) => {}
            _ => hide(member, key, &ONE_PASSWORD, found),
        }
    }
}

/// A secret of KV version 2, as the server's tool gives it or with what the API has around it, or a certificate with
/// its key.
fn vault<'t>(node: &Node<'t>) -> Option<Found<'t>> {
    let Node::Object(members) = node else { return None };
    let mut found = Vec::new();
    if node.get("private_key").is_some() && node.get("certificate").is_some() {
        members.iter().for_each(|(key, member)| hide(member, key, &CERTIFICATE, &mut found));
        return Some(found);
    }
    let data = node.get("data")?;
    if !matches!(node.get("metadata"), Some(Node::Object(_))) {
        return None;
    }
    found.extend(all(data, SensitiveType::Secret));
    let beside = members.iter().filter(|(key, _)| !matches!(key.as_str(), "data" | "metadata"));
    beside.for_each(|(key, member)| hide(member, key, &ABOUT, &mut found));
    Some(found)
}

fn all<'t>(node: &Node<'t>, of: SensitiveType) -> Found<'t> {
    node.leaves().into_iter().map(|leaf| (leaf, of)).collect()
}

/// Adds the leaves under names that are not shown. `key` is the nearest name above.
fn hide<'t>(node: &Node<'t>, key: &str, shown: &[&str], found: &mut Found<'t>) {
    match node {
        Node::Object(members) => members.iter().for_each(|(key, member)| hide(member, key, shown, found)),
        Node::Array(items) => items.iter().for_each(|item| hide(item, key, shown, found)),
        Node::Leaf(leaf) if shown.contains(&key) || leaf.is_trifle() => {}
        Node::Leaf(leaf) => found.push((
            *leaf,
            match key {
                "password" => SensitiveType::Password,
                "privateKey" | "private_key" => SensitiveType::PrivateKey,
                _ => SensitiveType::Secret,
            },
        )),
    }
}

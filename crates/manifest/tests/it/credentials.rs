//! No finding shows a credential, wherever in a gateway it stands and however it is misplaced.

use crate::fixture::Capsule;

/// Stands for the credential; in no part of it may be seen.
const MARKER: &str = "sk-Z9vQx7";

/// Every form in which findings about the capsule can be shown, warnings included.
fn said(capsule: &Capsule) -> String {
    let findings = match capsule.load() {
        Ok(loaded) => [loaded.warnings.clone(), manifest::unsupported(&loaded)].concat(),
        Err(rejected) => {
            let whole = format!("{rejected}\n{rejected:?}\n{}", rejected.render());
            assert!(!whole.contains("Z9vQx7"), "{whole}");
            rejected.diagnostics().to_vec()
        }
    };
    assert!(!findings.is_empty());
    findings.iter().map(|found| format!("{}\n{found}\n{}\n{found:?}\n", found.render(), found.to_json())).collect()
}

/// Changes of the capsule that declares everything; `$` is the credential.
const CASES: &[(&str, &str)] = &[
    // Keys misspelled, misplaced or forgotten.
    ("api_key: ${ANTHROPIC_API_KEY}", "api_kye: $"),
    ("api_key: ${ANTHROPIC_API_KEY}", "apikey: $"),
    ("api_key: ${ANTHROPIC_API_KEY}", "API_KEY: $"),
    ("api_key: ${ANTHROPIC_API_KEY}", "zebra: $"),
    ("api_key: ${ANTHROPIC_API_KEY}", "zebra: { api_key: $ }"),
    ("api_key: ${ANTHROPIC_API_KEY}", "$"),
    ("api_key: ${ANTHROPIC_API_KEY}", "$:"),
    ("api_key: ${ANTHROPIC_API_KEY}", "$: true\n      $: false"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key $"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key:$"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key=$"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: $\n      api_key: $"),
    ("api_key: ${ANTHROPIC_API_KEY}", "? api_key\n      : $\n      zebra: 1"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: $\n      extra: 1"),
    ("api_key: \"${CARD_TOKEN}\" }", "api_key:$ }"),
    ("api_key: \"${CARD_TOKEN}\" }", "$ }"),
    ("api_key: \"${CARD_TOKEN}\" }", "$, $ }"),
    ("api_key: \"${CARD_TOKEN}\" }", "api_key: $, keyles: true }"),
    // Values that are none.
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: \"${$\""),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: ${$}"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: x${$}"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: Bearer $"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: \"${$"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: \"\n$\""),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: \"$\\u0001\""),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: $: x"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: &$ x"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: *$"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: !$ x"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: [$]"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: { $: $ }"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key:\n        - $"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: |\n        $\n        \u{e9}"),
    ("api_key: ${ANTHROPIC_API_KEY}", "api_key: $\n      keyless: $"),
    ("api_key: \"${CARD_TOKEN}\" }", "api_key: '$' ] }"),
    ("api_key: \"${CARD_TOKEN}\" }", "\n api_kye: $ }"),
    // Gateways that are no mappings.
    ("gateway: { endpoint: https://api.example.com, api_key: \"${CARD_TOKEN}\" }", "gateway: $"),
    ("gateway: { endpoint: https://api.example.com, api_key: \"${CARD_TOKEN}\" }", "gateway: [$]"),
    ("gateway: { endpoint: https://api.example.com, api_key: \"${CARD_TOKEN}\" }", "gateway: { $ }"),
    ("gateway: { endpoint: https://api.example.com, api_key: \"${CARD_TOKEN}\" }", "gatway: { x: $ }"),
    ("gateway: { endpoint: https://api.example.com, api_key: \"${CARD_TOKEN}\" }", "api_key: $"),
    ("gateway: { endpoint: https://api.example.com, api_key: \"${CARD_TOKEN}\" }", "\"api_key:$\":"),
    // Endpoints.
    ("endpoint: https://api.anthropic.com", "endpoint: $"),
    ("endpoint: https://api.anthropic.com", "endpoint: http://user:$@h/"),
    ("endpoint: https://api.anthropic.com", "endpoint: http://user:a/$@h/"),
    ("endpoint: https://api.anthropic.com", "endpoint: https://h/?key=$"),
    ("endpoint: https://api.anthropic.com", "endpoint: https://h?key=$"),
    ("endpoint: https://api.anthropic.com", "endpoint: https://h/#$"),
    ("endpoint: https://api.anthropic.com", "endpoint: https://h:$/"),
    ("endpoint: https://api.anthropic.com", "endpoint: https://h/a{$/.."),
    ("endpoint: https://api.anthropic.com", "endpoint: [$]"),
    ("endpoint: https://api.anthropic.com", "url: https://h/$"),
    ("otlp_endpoint: \"http://127.0.0.1:4318\"", "otlp_endpoint: \"http://user:$@h/\""),
    ("url: http://127.0.0.1:9001", "url: http://h/?k=$"),
    ("allow: [http://127.0.0.1:9000]", "allow: [http://u:$@h/]"),
    ("allow: [https://api.example.com, ", "allow: [\"https://u:$@h\", "),
    // Gateways for processes.
    ("api_key: ${CARDS_KEY}", "api_kye: $"),
    ("api_key: ${CARDS_KEY}", "api_key: [$]"),
    ("name: CARDS", "name: $"),
    ("upstream_auth: { header: Authorization, value: \"Bearer {key}\" }", "upstream_auth: { header: A, value: \"$\" }"),
    ("upstream_auth: { header: Authorization, value: \"Bearer {key}\" }", "upstream_auth: { header: $, value: x }"),
    ("upstream_auth: { header: Authorization, value: \"Bearer {key}\" }", "upstream_auth: Bearer $"),
    // Keys that speak of credentials elsewhere.
    ("config: {}", "config: { api_key: [$, .nan] }"),
    ("config: {}", "config: { script: x, Client-Secret: $ }, extra: 1"),
    ("max_turns: 50", "passwd: $"),
    ("max_turns: 50", "tokne: $"),
    ("secrets: [CARD_TOKEN]", "secrets: [$]"),
    ("token_file: peer.token", "token: $"),
    ("runtime: skill", "runtime: skill\n    credentials: { a: $ }"),
];

#[test]
fn no_finding_shows_a_credential() {
    for (from, to) in CASES {
        let capsule = Capsule::full();
        let to = to.replace("${$", "\0").replace("${", "\u{1}").replace('$', MARKER);
        let to = to.replace('\0', &format!("${{{MARKER}")).replace('\u{1}', "${");
        capsule.edit("murmur.yaml", from, &to);
        let said = said(&capsule);
        assert!(!said.contains("Z9vQx7"), "{to}\n\n{said}");
    }
}

#[test]
fn nor_does_a_finding_about_the_file_of_a_tool() {
    for to in ["upstream_auth: { header: x-api-key, value: \"$\" }", "upstream_auth: $", "upstream_auht: { value: $ }"]
    {
        let capsule = Capsule::full();
        let from = "upstream_auth: { header: x-api-key, value: \"{key}\" }";
        capsule.edit("tools/web-fetch/murmur.yaml", from, &to.replace('$', MARKER));
        let said = said(&capsule);
        assert!(!said.contains("Z9vQx7"), "{to}\n\n{said}");
    }
}

#[test]
fn what_is_no_credential_is_shown() {
    for (from, to, shown) in [
        ("api_key: ${ANTHROPIC_API_KEY}", "api_kye: ${ANTHROPIC_API_KEY}", "      api_kye: ${ANTHROPIC_API_KEY}\n"),
        ("api_key: ${ANTHROPIC_API_KEY}", "api_kye: x", "did you mean `api_key`?"),
        ("endpoint: https://api.anthropic.com", "endpoint: https://h:1/x?k", "      endpoint: https://h:1****\n"),
        ("max_turns: 50", "max_turns: 5x", "found the text `5x`"),
        ("model: my-model", "model: my-token", "`my-token`"),
    ] {
        let capsule = Capsule::full();
        capsule.edit("murmur.yaml", from, to);
        let rendered = said(&capsule);
        assert!(rendered.contains(shown), "{rendered}");
    }
}

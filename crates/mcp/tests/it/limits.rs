//! Catalogs that are long, longer than allowed, or endless.

use mcp::{Error, Limits, Step};
use serde_json::{Value, json};

use crate::support::{Fake, Reaction};

/// A server of `tools` tools, `page` to a page.
fn paged(tools: usize, page: usize) -> Fake {
    Fake::on("tools/list", move |message| {
        let from = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let until = (from + page).min(tools);
        let listed: Vec<Value> =
            (from..until).map(|number| json!({"name": format!("t{number}"), "inputSchema": {}})).collect();
        let mut result = json!({"tools": listed});
        if until < tools {
            result["nextCursor"] = json!(until.to_string());
        }
        Reaction::Result(result)
    })
}

async fn names(fake: &Fake) -> Result<Vec<String>, Error> {
    let catalog = fake.ephemeral().discover().await?;
    assert!(catalog.tools().iter().all(|tool| tool.unusable.is_none()));
    Ok(catalog.tools().iter().map(|tool| tool.name.clone()).collect())
}

#[tokio::test]
async fn a_thousand_tools_over_many_pages_are_a_catalog_and_one_more_is_not() {
    let expected: Vec<String> = (0..1000).map(|number| format!("t{number}")).collect();
    assert_eq!(names(&paged(1000, 10)).await.unwrap(), expected);
    assert_eq!(names(&paged(1000, 1000)).await.unwrap(), expected);
    let failed = names(&paged(1001, 1001)).await.unwrap_err();
    assert_eq!(failed.to_string(), "the number of tools is larger than the 1000 that are taken");
    let failed = names(&paged(101, 1)).await.unwrap_err();
    assert_eq!(failed.to_string(), "the number of pages is larger than the 100 that are taken");
    assert_eq!(names(&paged(0, 1)).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn pages_that_go_round_in_a_circle_are_noticed() {
    let fake = Fake::on("tools/list", |message| {
        let next = if message["params"]["cursor"] == "a" { "b" } else { "a" };
        Reaction::Result(json!({"tools": [], "nextCursor": next}))
    });
    assert!(matches!(fake.ephemeral().discover().await, Err(Error::PageLoop)));
    assert_eq!(fake.got("tools/list").len(), 3);
}

#[tokio::test]
async fn a_catalog_may_be_as_large_as_the_limit_and_no_larger() {
    let fake = |length: usize| {
        Fake::on("tools/list", move |_| {
            Reaction::Result(json!({"tools": [{"name": "a", "inputSchema": {}, "description": "d".repeat(length)}]}))
        })
    };
    let bytes = 100_000;
    let limits = || Limits { catalog_bytes: bytes, ..Limits::default() };
    assert!(fake(bytes - 100).kept_within(limits()).discover().await.is_ok());
    let failed = fake(bytes).kept_within(limits()).discover().await.unwrap_err();
    assert!(matches!(failed, Error::TooLarge { step: Step::List, what: "the list of tools in bytes", .. }), "{failed}");
}

#[tokio::test]
async fn a_list_of_another_shape_is_malformed() {
    for result in [json!({}), json!({"tools": {}}), json!([]), json!({"tools": [], "nextCursor": 7})] {
        let shown = result.to_string();
        let fake = Fake::on("tools/list", move |_| Reaction::Result(result.clone()));
        let failed = fake.ephemeral().discover().await.unwrap_err();
        assert!(matches!(failed, Error::Malformed { step: Step::List, .. }), "{shown}: {failed}");
    }
}

//! A chunk may end anywhere: the reply is the same.

use proptest::prelude::*;
use testkit::Turn;
use vocab::Reply;

use crate::support::{WIRES, ask};

fn turn() -> Turn {
    Turn::new().thinking("Größe?", "c2ln").text("日本語 – ok\n\n").tool_raw(
        "call_1",
        "files_read",
        r#"{"path":"😀.txt"}"#,
    )
}

fn reply(name: &str, turn: Turn) -> Reply {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { ask(name, vec![turn]).await.0.unwrap() })
}

#[test]
fn single_bytes_give_the_same_reply() {
    for name in WIRES {
        assert_eq!(reply(name, turn().split_every(1)), reply(name, turn()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_split_gives_the_same_reply(positions in proptest::collection::vec(1_usize..3000, 0..12)) {
        for name in WIRES {
            prop_assert_eq!(reply(name, turn().split_at(positions.clone())), reply(name, turn()));
        }
    }
}

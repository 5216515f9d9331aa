//! The registry: what it takes, what it gives, and when it forgets.

use secrets::{Redactor, Secret};

use super::*;

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn open() -> (ProtectedValues, Redactor) {
    let redactor = Redactor::new();
    (ProtectedValues::new(TaskIdentity::default(), redactor.clone()), redactor)
}

fn value(values: &ProtectedValues, handle: &Handle) -> Option<String> {
    match values.find(handle)? {
        Kept::Value(value) => Some(value.expose().to_owned()),
        Kept::Managed(_) => None,
    }
}

#[test]
fn a_value_is_there_until_its_task_ends_and_redacted_for_good() {
    let (values, redactor) = open();
    let mut taken = Taken::default();
    let handle = values.take(secret("s3cret-one"), &mut taken).unwrap();
    assert_eq!(Handle::parse(handle.as_str()), Some(handle.clone()));
    assert_eq!(value(&values, &handle).as_deref(), Some("s3cret-one"));
    let (other, _) = open();
    assert_eq!(value(&other, &handle), None);
    values.end();
    assert_eq!((value(&values, &handle), values.len()), (None, 0));
    assert_eq!(values.take(secret("s3cret-two"), &mut taken), Err(Withholding::TooMuch));
    assert!(!redactor.is_clean("s3cret-one") && !redactor.is_clean("s3cret-two"));
}

#[test]
fn what_was_taken_from_a_withheld_result_is_dropped_and_nothing_else() {
    let (values, _) = open();
    let (mut kept, mut dropped) = (Taken::default(), Taken::default());
    let stays = values.take(secret("s3cret-one"), &mut kept).unwrap();
    let goes = values.take(secret("s3cret-two"), &mut dropped).unwrap();
    values.drop_taken(&dropped);
    assert_eq!((value(&values, &stays).is_some(), value(&values, &goes)), (true, None));
}

#[test]
fn a_registry_is_bounded_in_number_and_size() {
    let (values, _) = open();
    let mut taken = Taken::default();
    assert_eq!(values.take(secret(&"x".repeat(MAX_VALUE + 1)), &mut taken), Err(Withholding::TooMuch));
    let large = MAX_TOTAL / MAX_VALUE;
    for number in 0..large {
        let value = format!("{number:08}{}", "x".repeat(MAX_VALUE - 8));
        assert!(values.keep(Kept::Value(secret(&value)), value.len(), &mut taken).is_ok());
    }
    assert_eq!(values.keep(Kept::Value(secret("y")), 1, &mut taken), Err(Withholding::TooMuch));
    values.drop_taken(&taken);
    for _ in 0..MAX_VALUES {
        assert!(values.keep(Kept::Value(secret("y")), 1, &mut taken).is_ok());
    }
    assert_eq!(values.keep(Kept::Value(secret("y")), 1, &mut taken), Err(Withholding::TooMuch));
}

#[test]
fn words_that_stand_everywhere_are_kept_and_not_redacted() {
    let (values, redactor) = open();
    let mut taken = Taken::default();
    for word in ["true", "false", "token", "protected", "protected://"] {
        assert!(values.take(secret(word), &mut taken).is_ok());
        assert!(redactor.is_clean(word), "{word}");
    }
    assert!(values.take(secret("true-"), &mut taken).is_ok() && !redactor.is_clean("a true- word"));
}

#[test]
fn nothing_prints_a_value() {
    let (values, _) = open();
    let mut taken = Taken::default();
    let handle = values.take(secret("s3cret-one"), &mut taken).unwrap();
    let shown = format!("{values:?} {taken:?} {:?} {:?}", values.find(&handle), ProtectedStream::new(&values));
    assert!(!shown.contains("s3cret"), "{shown}");
}

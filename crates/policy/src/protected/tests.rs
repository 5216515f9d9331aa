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
        assert!(values.keep(Kept::Value(secret(&value)), &mut taken).is_ok());
    }
    assert_eq!(values.keep(Kept::Value(secret("y")), &mut taken), Err(Withholding::TooMuch));
    values.drop_taken(&taken);
    for _ in 0..MAX_VALUES {
        assert!(values.keep(Kept::Value(secret("y")), &mut taken).is_ok());
    }
    assert_eq!(values.keep(Kept::Value(secret("y")), &mut taken), Err(Withholding::TooMuch));
}

#[test]
fn what_a_command_of_an_ended_task_kept_apart_is_taken_over_by_the_task_that_is_shown_it_and_by_no_other() {
    let (task, redactor) = open();
    let apart = task.apart();
    let mut taken = Taken::default();
    let early = apart.take(secret("s3cret-one"), &mut taken).unwrap();
    task.end();
    let late = apart.take(secret("s3cret-two"), &mut taken).unwrap();
    assert!(!redactor.is_clean("s3cret-one") && !redactor.is_clean("s3cret-two"));
    let (next, _) = open();
    for _ in 0..2 {
        assert_eq!(next.adopt(&apart, &taken), Ok(()));
        let found = [&early, &late].map(|handle| value(&next, handle));
        assert_eq!(found, [Some("s3cret-one".to_owned()), Some("s3cret-two".to_owned())]);
    }
    assert_eq!((next.len(), next.lock().bytes), (2, 20));
    assert_eq!((task.adopt(&apart, &taken), task.len()), (Err(Withholding::TooMuch), 0));
    // A command that began where no values are taken takes none either.
    assert_eq!(task.apart().take(secret("s3cret-three"), &mut taken), Err(Withholding::TooMuch));
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

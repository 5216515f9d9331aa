//! The classes that hold a process.

use sandbox::{Access, Class, Confinement, Exit, Grant, Network};

use crate::{output, shell};

fn held(class: Class, script: &str) -> Confinement {
    let mut confinement = shell(script);
    confinement.class = class;
    confinement.network = Network::None;
    confinement
}

#[tokio::test]
async fn what_is_granted_can_be_written_and_nothing_else() {
    for class in [Class::Scoped, Class::Sealed] {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let script = "echo text > file; cat file; for place in /usr /etc / $OTHER; do ! touch $place/file 2>&1; done";
        let mut confinement = held(class, script);
        confinement.grants.push(Grant::new(folder.path(), Access::Write));
        confinement.cwd = folder.path().into();
        confinement.env.push(("OTHER".into(), other.path().into()));
        let output = output(&confinement).await;
        assert!(output.stdout.starts_with("text\n"), "{output:?}");
        assert_eq!((output.exit, std::fs::read_dir(other.path()).unwrap().count()), (Exit::Code(0), 0));
    }
}

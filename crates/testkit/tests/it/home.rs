//! The temp tree exists while it is held, and no longer.

use testkit::TempHome;

#[test]
fn a_home_holds_files_and_goes_away() {
    let home = TempHome::new();
    let path = home.write("work/src/a.txt", "hello");
    assert_eq!(path, home.workdir().join("src/a.txt"));
    assert_eq!(home.read("work/src/a.txt"), "hello");
    assert!(home.home().is_dir());
    let root = home.root().to_owned();
    drop(home);
    assert!(!root.exists());
}

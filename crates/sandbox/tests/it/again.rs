//! One process after the other: what an earlier one did to names must not give a later one more.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use sandbox::{Access, Class, Confinement, Enforcement, Exit, Grant, Mask, MaskKind, SandboxError, Step};

use crate::held::{Place, classes};
use crate::{Output, finish, output, soon};

const PROGRAM: &str = "#!/bin/sh\necho started\n";

fn granted(place: &Place, class: Class, script: &str, grants: &[(&str, Access)]) -> Confinement {
    let mut confinement = place.confinement(class, &format!("exec 2>/dev/null; {script}"));
    for (name, access) in grants {
        confinement.grants.push(Grant::new(place.work.join(name), *access));
    }
    confinement
}

fn masked(place: &Place, class: Class, script: &str, masks: &[(&str, MaskKind)]) -> Confinement {
    let mut confinement = granted(place, class, script, &[]);
    confinement.masks = masks.iter().map(|(name, kind)| Mask::new(place.work.join(name), *kind)).collect();
    confinement
}

fn program(place: &Place, name: &str) {
    let path = place.file(name, PROGRAM);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A directory outside all grants, with a secret in it.
fn outside(place: &Place) -> std::path::PathBuf {
    let outside = place.folder.path().canonicalize().unwrap().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), "secret\n").unwrap();
    outside
}

#[tokio::test]
async fn a_pinned_grant_is_that_directory_or_nothing_starts() {
    for class in classes() {
        let place = Place::new();
        let outside = outside(&place);
        let (root, aside) = (place.work.join("root"), place.work.join("aside"));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("own"), "own\n").unwrap();
        let node = fs::metadata(&root).map(|metadata| (metadata.dev(), metadata.ino())).unwrap();
        let pinned = || {
            let mut confinement = place.confinement(class, "cat own secret 2>/dev/null; true");
            confinement.cwd = root.clone();
            confinement.grants = vec![Grant::new(&root, Access::Write)];
            confinement.pinned = Some((root.clone(), node));
            confinement
        };
        assert_eq!(output(&pinned()).await.stdout, "own\n", "{class}");
        fs::rename(&root, &aside).unwrap();
        // A link to another, a link to itself, and another under its name.
        let others: [&dyn Fn(); 3] =
            [&|| symlink(&outside, &root).unwrap(), &|| symlink(&aside, &root).unwrap(), &|| {
                fs::create_dir(&root).unwrap()
            }];
        for put in others {
            put();
            let refused = sandbox::spawn(&pinned()).await.err();
            assert!(matches!(refused, Some(SandboxError::Start { step: Step::Grant, .. })), "{class} {refused:?}");
            let _ = fs::remove_file(&root).or_else(|_| fs::remove_dir(&root));
        }
        fs::rename(&aside, &root).unwrap();
        assert_eq!(output(&pinned()).await.stdout, "own\n", "{class}");
    }
}

#[tokio::test]
async fn a_link_below_what_is_written_does_not_lead_a_grant_away() {
    for class in classes() {
        let place = Place::new();
        let outside = outside(&place);
        fs::create_dir_all(place.work.join("p")).unwrap();
        let grants = [("p/deps", Access::Read)];
        // Where the directory was not there yet, one process makes the link and the next one finds it.
        for swap in [
            format!("ln -s {} p/deps", outside.display()),
            format!("rm p/deps; mv p q; mkdir p; ln -s {} p/deps", outside.display()),
            format!("rm p/deps; rmdir p; ln -s {} p; ln -s . deps", outside.display()),
        ] {
            let made = granted(&place, class, &swap, &grants);
            assert_eq!(output(&made).await.exit, Exit::Code(0), "{class} {swap}");
            let read = format!("cat p/deps/secret p/secret {}/secret; ls {0}", outside.display());
            assert_eq!(output(&granted(&place, class, &read, &grants)).await.stdout, "", "{class} {swap}");
        }
    }
}

#[tokio::test]
async fn what_is_granted_below_what_is_written_keeps_its_name() {
    for class in classes() {
        let place = Place::new();
        place.file("p/q/deps/file", "text\n");
        place.file("p/other/file", "more\n");
        let script = "mv p r && echo renamed; mv p/q r && echo renamed; mv p/q/deps r && echo renamed
                      cat p/q/deps/file; echo x > p/q/deps/new && echo wrote
                      mv p/other p/another && cat p/another/file; echo new > p/q/new && mv p/q/new p/q/newer && cat p/q/newer
                      mv p/another p/other; rm p/q/newer";
        let confinement = granted(&place, class, script, &[("p/q/deps", Access::Read)]);
        assert_eq!(output(&confinement).await.stdout, "text\nmore\nnew\n", "{class}");
    }
}

#[tokio::test]
async fn links_that_are_the_operators_are_followed() {
    for class in classes() {
        let place = Place::new();
        let outside = outside(&place);
        // Beside the workdir; and one that leads into it, from above.
        let base = place.folder.path().canonicalize().unwrap();
        symlink("outside", base.join("link")).unwrap();
        symlink("work", base.join("link to work")).unwrap();
        place.file("deps/file", "text\n");
        let mut confinement =
            granted(&place, class, &format!("cat {}/secret deps/file", base.join("link").display()), &[]);
        confinement.grants.push(Grant::new(base.join("link"), Access::Read));
        confinement.grants.push(Grant::new(base.join("link to work/deps"), Access::Read));
        assert_eq!(output(&confinement).await.stdout, "secret\ntext\n", "{class} {}", outside.display());
        // And the way into it ends at the first link that may be the process's own.
        symlink(&outside, place.work.join("own")).unwrap();
        confinement.grants.truncate(1);
        confinement.grants.push(Grant::new(base.join("link to work/own"), Access::Read));
        assert_eq!(output(&confinement).await.stdout, "text\n", "{class}");
    }
}

#[tokio::test]
async fn a_private_directory_behind_a_link_of_the_process_stops_the_start() {
    for class in classes() {
        let place = Place::new();
        let outside = outside(&place);
        symlink(&outside, place.work.join("private")).unwrap();
        let mut confinement = granted(&place, class, ":", &[]);
        confinement.private = Some(place.work.join("private"));
        let error = soon(sandbox::spawn(&confinement)).await.unwrap_err();
        assert!(matches!(error, SandboxError::Start { step: Step::Private, .. }), "{error:?}");
        fs::remove_file(place.work.join("private")).unwrap();
        fs::create_dir(place.work.join("private")).unwrap();
        assert_eq!(output(&confinement).await, Output::ok(""), "{class}");
    }
}

#[tokio::test]
async fn nothing_is_both_written_and_started_but_what_one_grant_gives_both() {
    use Access::{Read, ReadExecute, Write, WriteExecute};
    for (outer, inner, expected) in [
        (Write, ReadExecute, "-x"),
        (Write, Read, "--"),
        (WriteExecute, Read, "-x"),
        (WriteExecute, Write, "wx"),
        (ReadExecute, Write, "w-"),
        (ReadExecute, WriteExecute, "wx"),
        (Read, ReadExecute, "-x"),
        (ReadExecute, Read, "-x"),
    ] {
        for class in classes() {
            let place = Place::new();
            program(&place, "inner/program");
            let script = "[ $(inner/program) ] && x=x || x=-; echo '#' >> inner/program && w=w || w=-; echo $w$x";
            let mut confinement = granted(&place, class, script, &[("", outer), ("inner", inner)]);
            confinement.grants.remove(0);
            assert_eq!(output(&confinement).await.stdout.trim(), expected, "{class} {outer:?} {inner:?}");
        }
    }
}

#[tokio::test]
async fn a_grant_in_the_private_directory_is_the_same_by_its_other_name() {
    for class in classes() {
        let place = Place::new();
        fs::create_dir(place.private.join("bin")).unwrap();
        fs::write(place.private.join("bin/program"), PROGRAM).unwrap();
        fs::set_permissions(place.private.join("bin/program"), fs::Permissions::from_mode(0o755)).unwrap();
        let script = "echo x >> /tmp/bin/program && echo wrote; mv /tmp/bin /tmp/other && echo renamed
                      /tmp/bin/program; echo text > /tmp/file && cat /tmp/file";
        let mut confinement = granted(&place, class, script, &[]);
        confinement.grants.push(Grant::new(place.private.join("bin"), Access::ReadExecute));
        assert_eq!(output(&confinement).await.stdout, "started\ntext\n", "{class}");
    }
}

#[tokio::test]
async fn a_masked_name_cannot_be_moved_away_before_the_next_start() {
    let masks = [
        ("x/cap/murmur.yaml", MaskKind::ReadOnly),
        ("app/.env", MaskKind::Hidden),
        ("app/deep/er/key", MaskKind::Hidden),
    ];
    for class in classes() {
        let place = Place::new();
        for (name, _) in masks {
            place.file(name, "masked\n");
        }
        place.file("free/file", "text\n");
        let moves = "for d in x x/cap app app/deep app/deep/er; do mv -T $d moved && echo moved; rmdir $d; done
                     mv x/cap/murmur.yaml y && echo moved; mv free x/free && mv x/free/file app/file && cat app/file
                     mkdir app/new && mv app/new app/deep/newer && ls app/deep; rm -r x/free app/file app/deep/newer; mkdir free; echo text > free/file";
        let confinement = masked(&place, class, moves, &masks);
        assert_eq!(output(&confinement).await.stdout, "text\ner\nnewer\n", "{class}");
        let next = "cat app/.env app/deep/er/key; echo x >> x/cap/murmur.yaml && echo wrote; cat x/cap/murmur.yaml; echo x > app/deep/er/new && cat app/deep/er/new";
        let (process, Enforcement { masked, .. }) =
            soon(sandbox::spawn(&self::masked(&place, class, next, &masks))).await.unwrap();
        assert_eq!((masked, finish(process).await.stdout.as_str()), (3, "masked\nx\n"), "{class}");
        for (name, _) in masks {
            assert_eq!(fs::read_to_string(place.work.join(name)).unwrap(), "masked\n");
        }
    }
}

#[tokio::test]
async fn pins_and_masks_compose() {
    use MaskKind::{Hidden, NoExecute, ReadOnly};
    let masks =
        [("a", ReadOnly), ("a/b/c/secret", Hidden), ("d/e", Hidden), ("d/e/f/g", ReadOnly), ("h/i/program", NoExecute)];
    for class in classes() {
        let place = Place::new();
        for name in ["a/b/c/secret", "a/b/file", "d/e/f/g", "h/i/program", "h/i/tool"] {
            program(&place, name);
        }
        let script = "cat a/b/c/secret; echo x > a/b/c/new && echo wrote; head -1 a/b/file; ls d/e; cat d/e/f/g
                      h/i/program; h/i/tool; echo x > h/i/new && cat h/i/new; mv d j && echo moved; mv h j && echo moved; rm h/i/new";
        let mut confinement = masked(&place, class, script, &masks);
        confinement.grants.push(Grant::new(&place.work, Access::WriteExecute));
        let (process, enforcement) = soon(sandbox::spawn(&confinement)).await.unwrap();
        assert_eq!(enforcement.masked, masks.len());
        assert_eq!(finish(process).await.stdout, "#!/bin/sh\nstarted\nx\n", "{class}");
    }
}

#[tokio::test]
async fn what_would_take_too_many_mounts_is_not_begun() {
    let place = Place::new();
    // In memory, because they are many.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let key = |number: u32| folder.path().join(format!("{number}/key"));
    for number in 0..2100 {
        fs::create_dir(folder.path().join(number.to_string())).unwrap();
        fs::write(key(number), "").unwrap();
    }
    for class in classes() {
        let script = format!("cd {} && mv 1000 moved || echo held", folder.path().display());
        let mut confinement = granted(&place, class, &script, &[]);
        confinement.grants.push(Grant::new(folder.path(), Access::Write));
        confinement.masks = (0..2100).map(|number| Mask::new(key(number), MaskKind::Hidden)).collect();
        let error = soon(sandbox::spawn(&confinement)).await.unwrap_err();
        assert!(matches!(error, SandboxError::Start { step: Step::Mask, .. }), "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("too many")), "{error}");
        confinement.masks.truncate(1100);
        assert_eq!(output(&confinement).await.stdout, "held\n", "{class}");
    }
}

/// Without namespaces, by Landlock alone: a runtime of its own that is refused them.
#[test]
fn without_namespaces_links_and_sums_give_no_more() {
    if sandbox::Host::probe(None).strongest < Class::Scoped {
        return;
    }
    let place = Place::new();
    let outside = outside(&place);
    program(&place, "inner/program");
    place.file("free/file", "text\n");
    symlink(&outside, place.work.join("own")).unwrap();
    let script = format!(
        "exec 2>/dev/null; cat own/secret; cat {}/secret; inner/program; cat inner/program | tail -1; echo new > new && cat new free/file",
        outside.display()
    );
    let output = Command::new(env!("CARGO_BIN_EXE_sandbox-runtime"))
        .args(["without", "namespaces", "granted"])
        .arg(&place.work)
        .arg(script)
        .args(["=write", "inner=read-execute", "own=read", "free=read"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "echo started\nnew\ntext\n\n");
    assert!(Path::new(&place.work).join("new").exists());
}

//! What a held process has: grants, its private directory, masks, a network.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sandbox::{
    Access, Class, Confinement, Enforcement, Exit, Grant, Host, Mask, MaskKind, Namespace, Namespaces, Network,
    SandboxError, Step,
};
use tempfile::TempDir;

use crate::{Output, finish, output, shell, soon};

/// The classes that hold a process, as far as the host has them; what it has not is refused, which `escapes` sees to.
pub(crate) fn classes() -> Vec<Class> {
    let strongest = Host::probe(None).strongest;
    Class::ALL.into_iter().filter(|class| *class > Class::Advisory && *class <= strongest).collect()
}

pub(crate) fn held(class: Class, script: &str) -> Confinement {
    let mut confinement = shell(script);
    confinement.class = class;
    confinement.network = Network::None;
    confinement
}

/// A folder with a workdir and a private directory.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) work: PathBuf,
    pub(crate) private: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (work, private) = (base.join("work"), base.join("private"));
        fs::create_dir(&work).unwrap();
        fs::create_dir(&private).unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder, work, private }
    }

    pub(crate) fn confinement(&self, class: Class, script: &str) -> Confinement {
        let mut confinement = held(class, script);
        confinement.cwd.clone_from(&self.work);
        confinement.private = Some(self.private.clone());
        confinement.grants.push(Grant::new(&self.work, Access::Write));
        confinement
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs a script with masks on files of the workdir, and returns what it wrote, for each class.
    async fn masked(&self, masks: &[(&str, MaskKind)], script: &str) -> Vec<String> {
        let mut outputs = Vec::new();
        for class in classes() {
            let mut confinement = self.confinement(class, &format!("exec 2>/dev/null; {script}"));
            confinement.masks = masks.iter().map(|(name, kind)| Mask::new(self.work.join(name), *kind)).collect();
            let (process, enforcement) = soon(sandbox::spawn(&confinement)).await.unwrap();
            assert_eq!(enforcement.masked, masks.len());
            outputs.push(finish(process).await.stdout);
        }
        outputs
    }
}

/// The same in every class.
fn same(text: &str) -> Vec<String> {
    classes().iter().map(|_| text.to_owned()).collect()
}

#[tokio::test]
async fn what_is_installed_is_what_is_told() {
    let place = Place::new();
    for class in classes() {
        let mut confinement = place.confinement(class, ":");
        let mut own = vec![Namespace::User, Namespace::Mount, Namespace::Ipc];
        if class == Class::Sealed {
            own.extend([Namespace::Pid, Namespace::Uts, Namespace::Net, Namespace::Cgroup]);
        }
        for network in [Network::None, Network::Loopback] {
            confinement.network = network;
            if network == Network::Loopback {
                own.push(Namespace::Net);
            }
            let (process, told) = soon(sandbox::spawn(&confinement)).await.unwrap();
            assert_eq!(finish(process).await, Output::ok(""));
            let namespaces: Namespaces = own.iter().copied().collect();
            let expected = Enforcement { class, limits: confinement.limits, namespaces, masked: 0, network, ..told };
            assert_eq!((told, told.landlock_abi), (expected, Some(told.landlock_abi.unwrap().clamp(2, 6))));
        }
    }
}

#[tokio::test]
async fn the_namespaces_that_are_told_are_not_the_hosts() {
    let all = ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"];
    let place = Place::new();
    for class in classes() {
        let script = format!("cd /proc/self/ns && for n in {}; do readlink $n; done", all.join(" "));
        let (process, told) = soon(sandbox::spawn(&place.confinement(class, &script))).await.unwrap();
        let inside = finish(process).await.stdout;
        let changed: Vec<_> = all
            .iter()
            .zip(inside.lines())
            .filter(|(name, inside)| {
                fs::read_link(format!("/proc/self/ns/{name}")).unwrap().to_str().unwrap() != *inside
            })
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(changed, told.namespaces.iter().map(Namespace::name).collect::<Vec<_>>(), "{class}");
    }
}

#[tokio::test]
async fn what_is_granted_can_be_used_so_and_not_otherwise() {
    let place = Place::new();
    let base = place.folder.path().canonicalize().unwrap();
    for name in ["read", "read-execute", "write", "write-execute", "none"] {
        fs::create_dir(base.join(name)).unwrap();
        fs::write(base.join(name).join("program"), "#!/bin/sh\necho started\n").unwrap();
        fs::set_permissions(base.join(name).join("program"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = format!(
        "exec 2>/dev/null; cd {}; for d in read read-execute write write-execute none; do
             cat $d/program >/dev/null && r=r || r=-; echo x > $d/new && w=w || w=-; $d/program >/dev/null && x=x || x=-
             echo $d $r$w$x
         done",
        base.display()
    );
    for class in classes() {
        let mut confinement = place.confinement(class, &script);
        for (name, access) in [
            ("read", Access::Read),
            ("read-execute", Access::ReadExecute),
            ("write", Access::Write),
            ("write-execute", Access::WriteExecute),
        ] {
            confinement.grants.push(Grant::new(base.join(name), access));
        }
        let expected = "read r--\nread-execute r-x\nwrite rw-\nwrite-execute rwx\nnone ---\n";
        assert_eq!(output(&confinement).await, Output::ok(expected), "{class}");
    }
}

#[tokio::test]
async fn of_grants_the_nearest_counts_and_those_of_one_path_add_up() {
    let place = Place::new();
    let inner = place.work.join("inner");
    fs::create_dir(&inner).unwrap();
    let file = place.file("inner/file", "x");
    for class in classes() {
        // The nearer one counts; a file by itself; one that is not there; one path twice.
        let script = "exec 2>&-; echo x > new; cat inner/file; ! echo x >> inner/file && ! rm inner/file && ! echo x > inner/new";
        let mut confinement = place.confinement(class, script);
        for (path, access) in [
            (inner.clone(), Access::Read),
            (file.clone(), Access::Read),
            (place.work.join("missing"), Access::Write),
            (place.work.clone(), Access::Read),
        ] {
            confinement.grants.push(Grant::new(path, access));
        }
        assert_eq!(output(&confinement).await, Output::ok("x"), "{class}");
    }
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("inner")).unwrap();
    for class in classes() {
        // Below one that reads, one that writes.
        let mut confinement =
            place.confinement(class, &format!("cd {}; echo x > inner/new; ! echo x > new", other.path().display()));
        confinement.grants.push(Grant::new(other.path(), Access::Read));
        confinement.grants.push(Grant::new(other.path().join("inner"), Access::Write));
        assert_eq!(output(&confinement).await.exit, Exit::Code(0), "{class}");
        assert!(other.path().join("inner/new").exists() && !other.path().join("new").exists());
    }
}

#[tokio::test]
async fn a_file_can_be_granted_alone() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let granted = folder.path().join("granted");
    fs::write(&granted, "one\n").unwrap();
    fs::write(folder.path().join("other"), "two\n").unwrap();
    for class in classes() {
        let mut confinement =
            place.confinement(class, &format!("cd {}; cat granted; ! cat other 2>&-", folder.path().display()));
        confinement.grants.push(Grant::new(&granted, Access::Read));
        assert_eq!(output(&confinement).await, Output::ok("one\n"), "{class}");
    }
}

#[tokio::test]
async fn a_path_means_the_same_inside_links_and_all() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("real/deep")).unwrap();
    fs::write(base.join("real/deep/file"), "text\n").unwrap();
    symlink("real", base.join("relative")).unwrap();
    symlink(base.join("relative/deep"), base.join("absolute")).unwrap();
    for class in classes() {
        let script = format!("cat {0}/absolute/file; cat {0}/real/deep/file; readlink {0}/relative", base.display());
        let mut confinement = place.confinement(class, &script);
        confinement.grants.push(Grant::new(base.join("absolute"), Access::Read));
        assert_eq!(output(&confinement).await, Output::ok("text\ntext\nreal\n"), "{class}");
    }
}

#[tokio::test]
async fn everything_can_be_granted_for_reading() {
    let place = Place::new();
    for class in classes() {
        let script =
            format!("cat {}/file; ls / > /dev/null; ! touch /x 2>&-; ! ls /run 2>&-", place.folder.path().display());
        fs::write(place.folder.path().join("file"), "text\n").unwrap();
        let mut confinement = held(class, &script);
        confinement.grants.push(Grant::new("/", Access::Read));
        // The host's /tmp is not part of it: each process has its own.
        let in_tmp = place.folder.path().starts_with("/tmp");
        confinement.grants.push(Grant::new(place.folder.path(), Access::Read));
        assert_eq!(output(&confinement).await, Output::ok("text\n"), "{class} {in_tmp}");
    }
}

#[tokio::test]
async fn the_private_directory_is_tmp_and_keeps_its_path() {
    let place = Place::new();
    fs::create_dir(place.private.join("home")).unwrap();
    let outer = tempfile::Builder::new().prefix("outer").tempdir_in("/tmp").unwrap();
    for class in classes() {
        let script =
            "echo one > /tmp/one; echo two > $HOME/two; cat $HOME/../one /tmp/home/two; ls /tmp | grep -c outer";
        let mut confinement = place.confinement(class, script);
        confinement.env.push(("HOME".into(), place.private.join("home").into()));
        let Output { exit, stdout, .. } = output(&confinement).await;
        assert_eq!((exit, stdout.as_str()), (Exit::Code(1), "one\ntwo\n0\n"), "{class}");
        assert_eq!(fs::read_to_string(place.private.join("one")).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(place.private.join("home/two")).unwrap(), "two\n");
    }
    drop(outer);
}

#[tokio::test]
async fn programs_start_from_the_private_directory_only_when_granted() {
    let place = Place::new();
    for class in classes() {
        let script = "cp /bin/true /tmp/program; for at in /tmp $PRIVATE; do $at/program 2>&- && echo started; done; :";
        let mut confinement = place.confinement(class, script);
        confinement.env.push(("PRIVATE".into(), place.private.clone().into()));
        assert_eq!(output(&confinement).await, Output::ok(""), "{class}");
        confinement.grants.push(Grant::new(&place.private, Access::WriteExecute));
        assert_eq!(output(&confinement).await, Output::ok("started\nstarted\n"), "{class}");
    }
}

#[tokio::test]
async fn without_a_private_directory_tmp_is_in_memory() {
    for class in classes() {
        let script = "echo text > /tmp/file && cat /tmp/file && stat -f -c %T /tmp /dev/shm";
        assert_eq!(output(&held(class, script)).await, Output::ok("text\ntmpfs\ntmpfs\n"), "{class}");
    }
    assert!(!Path::new("/tmp/file").exists());
}

#[tokio::test]
async fn a_private_directory_that_is_none_stops_the_start() {
    let place = Place::new();
    for class in classes() {
        for (path, errno) in [(place.work.join("missing"), Errno::NOENT), (place.file("file", ""), Errno::NOTDIR)] {
            let mut confinement = place.confinement(class, ":");
            confinement.private = Some(path.clone());
            let error = soon(sandbox::spawn(&confinement)).await.unwrap_err();
            let SandboxError::Start { step, subject, source } = error else { panic!("{error:?}") };
            assert_eq!((step, subject, source.raw_os_error()), (Step::Private, path, Some(errno.raw_os_error())));
        }
    }
}

#[tokio::test]
async fn hidden_is_empty_and_cannot_be_opened_by_anybody() {
    let place = Place::new();
    place.file("secret", "s");
    place.file("directory/secret", "s");
    place.file("open", "text\n");
    let masks = [("secret", MaskKind::Hidden), ("directory", MaskKind::Hidden)];
    let script =
        "cat secret; cat directory/secret; ls directory; stat -c %s secret; stat -c '%a %A' directory; cat open";
    let seen = place.masked(&masks, script).await;
    assert_eq!(seen, same("0\n0 d---------\ntext\n"));
}

#[tokio::test]
async fn masks_compose() {
    let place = Place::new();
    for name in ["ro/file", "ro/hidden", "hidden/ro/file", "program", "ro/deep/program"] {
        place.file(name, "#!/bin/sh\necho started\n");
        fs::set_permissions(place.work.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    use MaskKind::{Hidden, NoExecute, ReadOnly};
    let masks = [
        ("ro/deep", NoExecute),
        ("ro/hidden", Hidden),
        ("hidden/ro", ReadOnly),
        ("ro", ReadOnly),
        ("hidden", Hidden),
        ("ro/hidden", ReadOnly),
        ("program", NoExecute),
        ("program", ReadOnly),
    ];
    let script = "cat ro/file | head -1; cat ro/hidden; echo x > ro/file && echo wrote; ls hidden && echo listed
                  ro/file; ro/deep/program && echo ran; echo x > ro/deep/new && echo wrote
                  ./program && echo ran; echo x >> program && echo wrote; head -1 program";
    for class in classes() {
        let mut confinement = place.confinement(class, &format!("exec 2>/dev/null; {script}"));
        confinement.grants.push(Grant::new(&place.work, Access::WriteExecute));
        confinement.masks = masks.iter().map(|(name, kind)| Mask::new(place.work.join(name), *kind)).collect();
        let (process, enforcement) = soon(sandbox::spawn(&confinement)).await.unwrap();
        assert_eq!(enforcement.masked, masks.len());
        assert_eq!(finish(process).await.stdout, "#!/bin/sh\nstarted\n#!/bin/sh\n", "{class}");
    }
}

#[tokio::test]
async fn a_mask_on_the_workdir_itself() {
    let place = Place::new();
    place.file("file", "text\n");
    let seen = place.masked(&[("", MaskKind::ReadOnly)], "cat file; echo x > file && echo wrote").await;
    assert_eq!(seen, same("text\n"));
    for class in classes() {
        let mut confinement = place.confinement(class, ":");
        confinement.masks.push(Mask::new(&place.work, MaskKind::Hidden));
        let error = soon(sandbox::spawn(&confinement)).await.unwrap_err();
        assert!(matches!(error, SandboxError::Start { step: Step::Directory, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_mask_on_a_link_masks_what_it_leads_to() {
    let place = Place::new();
    place.file("real/secret", "s");
    symlink("real", place.work.join("directory link")).unwrap();
    symlink("directory link/secret", place.work.join("link")).unwrap();
    let seen = place.masked(&[("link", MaskKind::Hidden)], "cat real/secret; cat link; readlink link").await;
    assert_eq!(seen, same("directory link/secret\n"));
}

#[tokio::test]
async fn other_names_of_a_file_are_masked_when_they_are_listed() {
    let place = Place::new();
    let secret = place.file("secret", "s\n");
    fs::hard_link(&secret, place.work.join("other")).unwrap();
    let one = [("secret", MaskKind::Hidden)];
    assert_eq!(place.masked(&one, "cat secret other").await, same("s\n"));
    let both = [("secret", MaskKind::Hidden), ("other", MaskKind::Hidden)];
    assert_eq!(place.masked(&both, "cat secret other").await, same(""));
}

#[tokio::test]
async fn masks_hold_what_is_mounted_below_them_and_what_is_shown_twice() {
    let place = Place::new();
    fs::create_dir_all(place.work.join("outer/mounted")).unwrap();
    let inner = tempfile::tempdir().unwrap();
    fs::write(place.private.join("secret"), "s\n").unwrap();
    for class in classes() {
        // A grant of its own is a mount of its own, here below a masked directory that is not granted itself.
        let parent = inner.path().join("parent");
        fs::create_dir_all(parent.join("granted")).unwrap();
        let script = format!(
            "exec 2>/dev/null; echo x > {}/granted/new && echo wrote; cat /tmp/secret {}/secret; ls {1}/.. > /dev/null; :",
            parent.display(),
            place.private.display()
        );
        let mut confinement = place.confinement(class, &script);
        confinement.grants.push(Grant::new(parent.join("granted"), Access::Write));
        confinement.masks.push(Mask::new(&parent, MaskKind::ReadOnly));
        confinement.masks.push(Mask::new(place.private.join("secret"), MaskKind::Hidden));
        let (process, enforcement) = soon(sandbox::spawn(&confinement)).await.unwrap();
        assert_eq!((enforcement.masked, finish(process).await), (2, Output::ok("")), "{class}");
    }
}

#[tokio::test]
async fn a_mask_of_what_is_not_there_or_not_shown_is_none() {
    let place = Place::new();
    place.file("file", "text\n");
    let elsewhere = tempfile::tempdir().unwrap();
    for class in classes() {
        let mut confinement = place.confinement(class, "cat file");
        confinement.masks.push(Mask::new(place.work.join("missing"), MaskKind::Hidden));
        confinement.masks.push(Mask::new(place.work.join("file/below"), MaskKind::Hidden));
        confinement.masks.push(Mask::new(elsewhere.path(), MaskKind::Hidden));
        let (process, enforcement) = soon(sandbox::spawn(&confinement)).await.unwrap();
        // Only the last one holds: nobody sees it.
        assert_eq!((enforcement.masked, finish(process).await), (1, Output::ok("text\n")), "{class}");
    }
}

#[tokio::test]
async fn a_mask_falls_when_the_host_renames_over_it() {
    // The window that the documentation of `Mask` tells of: it is not closed, and should it be one day, this says so.
    let place = Place::new();
    place.file("secret", "old");
    let fresh = place.file("fresh", "new");
    for class in classes() {
        let mut confinement = place.confinement(class, "cat secret 2>&-; echo; read line; cat secret");
        confinement.stdin = sandbox::Stdin::Pipe;
        confinement.masks.push(Mask::new(place.work.join("secret"), MaskKind::Hidden));
        let mut process = soon(sandbox::spawn(&confinement)).await.unwrap().0;
        let mut first = [0; 1];
        let out = process.stdout.as_mut().unwrap();
        soon(tokio::io::AsyncReadExt::read_exact(out, &mut first)).await.unwrap();
        assert_eq!(first, *b"\n", "hidden before");
        fs::copy(&fresh, place.work.join("copy")).unwrap();
        fs::rename(place.work.join("copy"), place.work.join("secret")).unwrap();
        let mut stdin = process.stdin.take().unwrap();
        soon(tokio::io::AsyncWriteExt::write_all(&mut stdin, b"\n")).await.unwrap();
        drop(stdin);
        assert_eq!(finish(process).await, Output::ok("new"), "{class}");
    }
}

#[tokio::test]
async fn the_runtime_listens_inside() {
    let place = Place::new();
    for class in classes() {
        let script =
            "exec 3<>/dev/tcp/127.0.0.1/3128; read line <&3; echo \"$line\"; ! exec 4<>/dev/tcp/127.0.0.1/3130";
        let mut confinement = place.confinement(class, "");
        confinement.program = "/bin/bash".into();
        confinement.argv = vec!["bash".into(), "-c".into(), script.into()];
        confinement.network = Network::Loopback;
        confinement.listen = vec![3128, 3129];
        let (mut process, _) = soon(sandbox::spawn(&confinement)).await.unwrap();
        let listeners: Vec<_> = process.listeners.drain(..).collect();
        let ports: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        assert_eq!(ports, ["127.0.0.1:3128", "127.0.0.1:3129"]);
        let listener = tokio::net::TcpListener::from_std(listeners.into_iter().next().unwrap()).unwrap();
        let (stream, _) = soon(listener.accept()).await.unwrap();
        let mut stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.write_all(b"from outside\n").unwrap();
        let output = finish(process).await;
        assert_eq!((output.exit, output.stdout.as_str()), (Exit::Code(0), "from outside\n"), "{class}");
    }
}

#[tokio::test]
async fn a_port_that_cannot_be_had_stops_the_start() {
    for class in classes() {
        let mut confinement = held(class, ":");
        confinement.network = Network::Loopback;
        confinement.listen = vec![3128, 3128];
        let error = soon(sandbox::spawn(&confinement)).await.unwrap_err();
        let SandboxError::Start { step: Step::Listen, source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(source.raw_os_error(), Some(Errno::ADDRINUSE.raw_os_error()));
    }
}

#[tokio::test]
async fn what_a_class_cannot_hold_is_not_asked_of_it() {
    let advisory = shell(":");
    let scoped = held(Class::Scoped, ":");
    let with = |base: &Confinement, change: fn(&mut Confinement)| {
        let mut confinement = base.clone();
        change(&mut confinement);
        confinement
    };
    for (confinement, message) in [
        (with(&advisory, |c| c.grants.push(Grant::new("/", Access::Read))), "advisory cannot hold the grant"),
        (with(&advisory, |c| c.masks.push(Mask::new("/x", MaskKind::Hidden))), "advisory cannot hold the mask"),
        (with(&advisory, |c| c.private = Some("/tmp".into())), "advisory cannot hold the private directory"),
        (with(&advisory, |c| c.network = Network::None), "advisory cannot hold the network"),
        (with(&scoped, |c| c.network = Network::Inherit), "scoped cannot hold the network"),
        (with(&scoped, |c| c.listen.push(80)), "scoped cannot hold the port to listen on"),
    ] {
        let error = soon(sandbox::spawn(&confinement)).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the class {message} that is asked for"));
        assert!(error.hint().is_some());
    }
    let relative = with(&scoped, |c| c.grants.push(Grant::new("relative", Access::Read)));
    let error = soon(sandbox::spawn(&relative)).await.unwrap_err();
    assert_eq!(error.to_string(), "the grant `relative` is not an absolute path");
}

#[tokio::test]
async fn processes_are_bounded_for_the_tree_alone() {
    let place = Place::new();
    for class in classes() {
        let mut confinement = place.confinement(class, "ulimit -u 2>/dev/null || ulimit -p");
        confinement.limits.max_processes = Some(20);
        let (process, enforcement) = soon(sandbox::spawn(&confinement)).await.unwrap();
        let total: u64 = finish(process).await.stdout.trim().parse().unwrap();
        assert!((20..24).contains(&total), "{total}");
        if !rustix::process::getuid().is_root() {
            assert_eq!(enforcement.limits.max_processes, Some(20));
        }
    }
}

#[tokio::test]
async fn many_at_once_do_not_mix() {
    // What the first starts make in a fresh private directory, they make for all.
    for class in classes().into_iter().flat_map(|class| [class; 8]) {
        let place = std::sync::Arc::new(Place::new());
        let starts = (0..24).map(|number| {
            let place = std::sync::Arc::clone(&place);
            tokio::spawn(async move {
                let name = format!("secret {number}");
                place.file(&name, "s");
                let mut confinement = place.confinement(class, &format!("echo {number}; cat '{name}' 2>&-; :"));
                confinement.masks.push(Mask::new(place.work.join(&name), MaskKind::Hidden));
                (number, output(&confinement).await)
            })
        });
        for start in starts.collect::<Vec<_>>() {
            let (number, output) = start.await.unwrap();
            assert_eq!(output, Output::ok(&format!("{number}\n")), "{class}");
        }
    }
}

//! What goes in and comes out.

use sandbox::{Confinement, Exit, Stdin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Output, finish, output, run, shell, soon, start};

#[tokio::test]
async fn both_streams_come_apart() {
    assert_eq!(
        run("echo out; echo err >&2; exit 4").await,
        Output { exit: Exit::Code(4), stdout: "out\n".into(), stderr: "err\n".into() }
    );
}

#[tokio::test]
async fn large_outputs_stream_on_both() {
    let large = "x".repeat(8 << 20);
    let both = run("head -c 8388608 /dev/zero | tr '\\0' x >&2 & \
                    head -c 8388608 /dev/zero | tr '\\0' x; wait")
    .await;
    assert!(both == Output { exit: Exit::Code(0), stdout: large.clone(), stderr: large });
}

#[tokio::test]
async fn no_stdin_is_an_empty_one() {
    assert_eq!(run("cat; echo end").await, Output::ok("end\n"));
}

#[tokio::test]
async fn bytes_are_delivered_and_end() {
    for length in [0, 1, 4 << 20] {
        let mut confinement = Confinement::new("/usr/bin/wc", "/");
        confinement.argv.push("-c".into());
        confinement.stdin = Stdin::Bytes(vec![b'x'; length]);
        assert_eq!(output(&confinement).await, Output::ok(&format!("{length}\n")));
    }
}

#[tokio::test]
async fn bytes_that_nobody_reads_hold_nothing_up() {
    let mut confinement = shell("exec 0<&-; echo done");
    confinement.stdin = Stdin::Bytes(vec![b'x'; 4 << 20]);
    assert_eq!(output(&confinement).await, Output::ok("done\n"));
}

#[tokio::test]
async fn a_pipe_carries_a_conversation() {
    let mut confinement = shell("while read line; do echo \"<$line>\"; done");
    confinement.stdin = Stdin::Pipe;
    let mut process = start(&confinement).await;
    let mut stdin = process.stdin.take().unwrap();
    for word in ["one", "two"] {
        stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 6];
        soon(process.stdout.as_mut().unwrap().read_exact(&mut answer)).await.unwrap();
        assert_eq!(answer, format!("<{word}>\n").into_bytes());
    }
    drop(stdin);
    assert_eq!(finish(process).await, Output::ok(""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_do_not_mix() {
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            tokio::spawn(async move {
                let mut confinement = shell("cat; exit $CODE");
                confinement.env.push(("CODE".into(), number.to_string().into()));
                confinement.stdin = Stdin::Bytes(format!("input of {number}").into_bytes());
                (number, output(&confinement).await)
            })
        })
        .collect();
    for task in tasks {
        let (number, output) = task.await.unwrap();
        let stdout = format!("input of {number}");
        assert_eq!(output, Output { exit: Exit::Code(number), stdout, stderr: String::new() });
    }
}

//! Ordinary developer work, which passes as it does outside.
//!
//! Of interpreters and tools those that the host has; a shell and a C compiler are there wherever this is built, Rust where its user has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::{Access, Confinement, Exit, Grant, Network};

use crate::held::{Place, classes};
use crate::output;

/// Directories of programs that are not the system's, with what they need.
fn toolchains() -> Vec<PathBuf> {
    let told = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
    };
    let rust = told("rustc", &["--print", "sysroot"]);
    let python = told("python3", &["-c", "import sys; print(sys.base_prefix)"]);
    let node = told("node", &["-p", "require('path').dirname(require('path').dirname(process.execPath))"]);
    let tools = [rust, python, node].into_iter().flatten();
    tools.filter(|path| path.join("bin").is_dir() && !path.starts_with("/usr")).collect()
}

fn has(program: &str) -> bool {
    let at = |directory: PathBuf| directory.join(program).is_file();
    let toolchain = toolchains().into_iter().any(|path| at(path.join("bin")));
    toolchain || ["/usr/local/bin", "/usr/bin", "/bin"].into_iter().any(|path| at(path.into()))
}

/// A session's shell, as tools start it: a workdir from which programs start, a private home.
fn session(place: &Place, class: sandbox::Class, script: &str) -> Confinement {
    let mut confinement = place.confinement(class, script);
    let home = place.private.join("home");
    fs::create_dir_all(&home).unwrap();
    confinement.env.clear();
    let bins = toolchains();
    let path =
        bins.iter().map(|path| path.join("bin")).chain(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from));
    confinement.env.push(("PATH".into(), std::env::join_paths(path).unwrap()));
    confinement.env.push(("HOME".into(), home.into()));
    // An account of a service has none that starts anything.
    confinement.env.push(("SHELL".into(), "/bin/sh".into()));
    confinement.env.push(("TMPDIR".into(), place.private.clone().into()));
    confinement.grants.extend(bins.into_iter().map(|path| Grant::new(path, Access::ReadExecute)));
    confinement.grants.push(Grant::new(&place.work, Access::WriteExecute));
    confinement.grants.push(Grant::new(&place.private, Access::WriteExecute));
    confinement
}

async fn passes(programs: &[&str], script: &str, last_line: &str) {
    if !programs.iter().all(|program| has(program)) {
        return;
    }
    for class in classes() {
        for network in [Network::None, Network::Loopback] {
            let place = Place::new();
            let mut confinement = session(&place, class, &format!("set -e; {script}"));
            confinement.network = network;
            let output = output(&confinement).await;
            let told = (output.exit, output.stdout.lines().last().unwrap_or_default());
            assert_eq!(told, (Exit::Code(0), last_line), "{class} {network:?} {output:?}");
        }
    }
}

#[test]
fn what_every_build_of_this_needs_is_found() {
    assert!(["sh", "cc"].into_iter().all(has), "{:?}", toolchains());
    assert!(Path::new("/bin/sh").exists());
}

#[tokio::test]
async fn git_keeps_a_history() {
    let script = "git init -q -b main r && cd r && git config user.name n && git config user.email e
        echo one > file && git add file && git commit -qm first && git branch other && echo two >> file
        git commit -qam second && git checkout -q other && git merge -q main && git gc -q && git clone -q . ../copy
        cd ../copy && git worktree add -q ../tree && git log --format=%s | wc -l";
    passes(&["git"], script, "2").await;
}

#[tokio::test]
async fn c_is_compiled_and_started_and_make_runs_jobs() {
    let script = r#"printf '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n' > main.c
        printf 'all: main\n\t./main\nmain: main.c\n\tcc -O1 -o main main.c\n' > Makefile
        if command -v make >/dev/null; then make -s -j4; else cc -o main main.c && ./main; fi"#;
    passes(&["cc"], script, "built").await;
}

#[tokio::test]
async fn cargo_builds_tests_and_runs() {
    let script = r#"cargo init -q --vcs none --name thing p && cd p
        echo 'fn main() { println!("cargo {}", option_env!("MADE").unwrap_or("none")); }
              #[test] fn works() { std::fs::write("made by a test", "x").unwrap(); }' > src/main.rs
        echo 'fn main() { println!("cargo:rustc-env=MADE=ran"); }' > build.rs
        cargo test -q --offline >/dev/null && cargo run -q --offline"#;
    passes(&["cargo", "rustc", "cc"], script, "cargo ran").await;
}

#[tokio::test]
async fn python_works_in_an_environment_and_in_processes() {
    let script = r#"python3 -m venv --without-pip v
        cat > work.py <<'END'
import asyncio, multiprocessing, os, sqlite3, subprocess, tempfile, threading
def double(n): return 2 * n
if __name__ == '__main__':
    for way in ('fork', 'spawn', 'forkserver'):
        with multiprocessing.get_context(way).Pool(2) as pool: assert pool.map(double, [1, 2]) == [2, 4]
    with multiprocessing.Manager() as manager: manager.list([1])
    async def run():
        p = await asyncio.create_subprocess_exec('echo', 'child', stdout=subprocess.PIPE)
        return (await p.communicate())[0]
    assert asyncio.run(run()) == b'child\n'
    with tempfile.NamedTemporaryFile() as f: f.write(b'x')
    sqlite3.connect('db').execute('create table t (a)')
    t = threading.Thread(target=double, args=(1,)); t.start(); t.join()
    m, s = os.openpty(); os.write(s, b'x'); assert os.ttyname(s).startswith('/dev/pts/')
    print('python', len(os.sched_getaffinity(0)) > 0)
END
        v/bin/python work.py"#;
    passes(&["python3"], script, "python True").await;
}

#[tokio::test]
async fn pip_is_put_into_an_environment() {
    if !has("python3") {
        return;
    }
    let place = Place::new();
    let class = *classes().last().unwrap();
    let script = "python3 -m venv v && v/bin/pip --version | cut -c -3";
    let output = output(&session(&place, class, script)).await;
    assert_eq!((output.exit, output.stdout.as_str()), (Exit::Code(0), "pip\n"), "{output:?}");
}

#[tokio::test]
async fn node_works_with_children_and_local_sockets() {
    let script = r#"cat > work.js <<'END'
const {execFileSync, fork} = require('child_process'), net = require('net'), fs = require('fs'), os = require('os');
if (process.argv[2] === 'child') { process.send('hello'); process.exit(0); }
os.networkInterfaces(); os.cpus(); execFileSync('true');
const child = fork(__filename, ['child']);
child.on('message', message => {
  const server = net.createServer(socket => socket.end('served')).listen('./socket', () => {
    net.connect('./socket').on('data', data => { server.close(); new Worker(message, String(data)); });
  });
});
class Worker { constructor(a, b) {
  const { Worker } = require('worker_threads');
  new Worker('require("worker_threads").parentPort.postMessage(1)', { eval: true }).on('message', () => console.log('node', a, b));
} }
END
        node work.js"#;
    passes(&["node"], script, "node hello served").await;
}

#[tokio::test]
async fn pipes_jobs_traps_and_terminals_work() {
    let script = r#"seq 1000 | sort -rn | head -1 > top; (sleep 0.01; echo background > job) & wait $!
        trap 'echo trapped >> job' USR1; kill -USR1 $$; mkfifo f; (echo through > f &) ; read line < f
        tar cf - top | (mkdir x && cd x && tar xf -); find . -name top | xargs grep -l 1000 | wc -l > count
        [ "$(cat job | tr '\n' ' ')" = 'background trapped ' ]
        exec 9>lock; flock 9; date >/dev/null; id -un >/dev/null; df . >/dev/null; echo $line $(cat count)"#;
    passes(&["flock", "tar"], script, "through 2").await;
}

#[tokio::test]
async fn a_terminal_can_be_had() {
    passes(&["script"], "script -qec 'test -t 0 && test -t 1 && tty' /dev/null | cut -c -8 | tr -d '\\r'", "/dev/pts")
        .await;
    let jobs = r#"script -qec "bash -ic 'sleep 0.01 & fg %1; echo over'" /dev/null | tail -1 | tr -d '\r'"#;
    passes(&["script", "bash"], jobs, "over").await;
    let tmux = "tmux -f /dev/null new-session -d 'echo inside > made; tmux wait-for -S done; read line'
        tmux wait-for done; cat made; tmux kill-server";
    passes(&["tmux"], tmux, "inside").await;
}

#[tokio::test]
async fn a_server_of_its_own_is_reached_inside() {
    if !has("python3") {
        return;
    }
    let script = "python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 & server=$!
        python3 -c 'import urllib.request as u, time
for _ in range(500):
    try: print(u.urlopen(\"http://127.0.0.1:8000/\").status); break
    except OSError: time.sleep(0.01)'
        kill $server";
    for class in classes() {
        let place = Place::new();
        let mut confinement = session(&place, class, script);
        confinement.network = Network::Loopback;
        let output = output(&confinement).await;
        assert_eq!((output.exit, output.stdout.as_str()), (Exit::Code(0), "200\n"), "{class} {output:?}");
    }
}

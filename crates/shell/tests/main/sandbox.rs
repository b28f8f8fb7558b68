//! Tests of the sandbox of `bash`: what a command can do to the rest of the system, and which
//! programs start. Without Landlock they test nothing, and say so.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use picktools::Access;
use picktools_runtime::{ConfirmationDecision, ErrorType, ToolManager};
use picktools_shell::{Bash, BashOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{OUTSIDE, SECRET, TestFolder, error_type, output, run};

/// The Python of the system, whose files are readable in every sandbox.
const PYTHON: &str = "/usr/bin/python3";

/// The output and the success of a command in the sandbox.
struct SandboxedRun {
    output: String,
    has_succeeded: bool,
}

/// Runs a command; `None` if this kernel has no sandbox.
#[expect(clippy::print_stderr, reason = "says that a test tested nothing")]
async fn run_sandboxed(manager: &ToolManager, command: &str) -> Option<SandboxedRun> {
    let executed = run(manager, json!({"command": command, "timeout": 60})).await;
    assert_ne!(
        error_type(&executed),
        Some(ErrorType::Security),
        "the filter refused {command}: {}",
        executed.result.error()
    );
    if executed.result.fields.get("sandboxed") != Some(&Value::Bool(true)) {
        eprintln!("this kernel has no Landlock: not tested: {command}");
        return None;
    }
    Some(SandboxedRun {
        output: output(&executed).to_owned(),
        has_succeeded: executed.result.is_success(),
    })
}

/// The capabilities of this process, as bits.
fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    u64::from_str_radix(line.expect("it is there").trim(), 16).expect("it is a number")
}

fn has_capability(number: u32) -> bool {
    capabilities() & (1 << number) != 0
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it has one")).expect("it is writable");
    fs::write(path, content).expect("it is writable");
}

fn write_program(path: &Path, script: &str) {
    write(path, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// Returns a manager whose commands have this home and these folders in `PATH`.
fn manager_with_path(place: &TestFolder, home: &Path, folders: &[PathBuf]) -> ToolManager {
    let mut path = String::new();
    for folder in folders {
        path.push_str(&format!("{}:", folder.display()));
    }
    path.push_str("/usr/bin:/bin");
    let variables = [
        ("HOME".into(), home.as_os_str().to_owned()),
        ("PATH".into(), path.into()),
    ];
    let options = BashOptions {
        temporary: Vec::new(),
        ..BashOptions::default()
    };
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    ToolManager::builder(access)
        .tool(Bash::new(variables, options))
        .root(&place.root)
        .confirm(|_: &_| ConfirmationDecision::Allow)
        .build()
        .expect("it is valid")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unix_sockets_outside_cannot_be_reached() {
    let place = TestFolder::new();
    let manager = place.manager(BashOptions::default());
    // The path of a socket is short.
    let outside = TempDir::new().expect("it is writable");
    let path = outside.path().join("s");
    let listener = UnixListener::bind(&path).expect("it is free");
    listener.set_nonblocking(true).expect("it is ours");
    let name = format!("picktools-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("it is short");
    let by_name = UnixListener::bind_addr(&address).expect("it is free");
    by_name.set_nonblocking(true).expect("it is ours");
    for (kind, address) in [
        ("SOCK_STREAM", format!("{:?}", path.to_str())),
        ("SOCK_STREAM", format!("'\\0{name}'")),
    ] {
        let address = address.trim_start_matches("Some(").trim_end_matches(')');
        let script = format!(
            "import socket; s = socket.socket(socket.AF_UNIX, socket.{kind}); \
             s.connect({address}); print('CONNECTED')"
        );
        let command = format!("{PYTHON} -c \"{}\"", script.replace('"', "'"));
        let Some(ran) = run_sandboxed(&manager, &command).await else {
            return;
        };
        assert!(!ran.has_succeeded, "{address}: {}", ran.output);
        assert!(ran.output.contains("Permission denied"), "{}", ran.output);
    }
    assert!(listener.accept().is_err() && by_name.accept().is_err());
    let io_uring = format!(
        "{PYTHON} -c \"import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True); \
         libc.syscall(425, 1, ctypes.create_string_buffer(256)); \
         print(errno.errorcode.get(ctypes.get_errno()))\""
    );
    if let Some(ran) = run_sandboxed(&manager, &io_uring).await {
        assert_eq!(ran.output, "ENOSYS\n", "it could open sockets unseen");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socket_pairs_and_the_network_still_work() {
    let place = TestFolder::new();
    let manager = place.manager(BashOptions::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has one").port();
    let command = format!(
        "{PYTHON} -c \"import socket; a, b = socket.socketpair(); a.send(b'x'); \
         print(b.recv(1)); socket.create_connection(('127.0.0.1', {port})); print('connected')\""
    );
    if let Some(ran) = run_sandboxed(&manager, &command).await {
        assert_eq!(ran.output, "b'x'\nconnected\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_of_files_outside_cannot_be_changed() {
    let place = TestFolder::new();
    let manager = place.manager(BashOptions::default());
    let secret = place.folder.path().join("outside/secret.txt");
    let (owner, group) = owner_of(&secret);
    for command in [
        "chown 12345:12345 ../outside/secret.txt",
        "chown -h 12345 ../outside/secret.txt",
        "chgrp 12345 link/secret.txt",
        "/usr/bin/python3 -c \"import os; os.fchown(os.open('../outside', os.O_PATH), 1, 1)\"",
    ] {
        let Some(ran) = run_sandboxed(&manager, command).await else {
            return;
        };
        assert!(!ran.has_succeeded, "{command}: {}", ran.output);
        assert_eq!(owner_of(&secret), (owner, group), "{command}");
    }
}

fn owner_of(path: &Path) -> (u32, u32) {
    let data = fs::metadata(path).expect("it is there");
    (data.uid(), data.gid())
}

/// The mode and the times of files outside are protected by a mount namespace, which needs the
/// capability `CAP_SYS_ADMIN`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrator_cannot_change_mode_or_times_outside() {
    if !has_capability(21) {
        eprintln!("without CAP_SYS_ADMIN the mode and times of files outside are not protected");
        return;
    }
    let place = TestFolder::new();
    let manager = place.manager(BashOptions::default());
    let secret = place.folder.path().join("outside/secret.txt");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let file = fs::File::open(&secret).expect("it is there");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(time).expect("it is ours");
    for command in [
        "chmod 777 ../outside/secret.txt",
        "chmod 777 link/secret.txt",
        "touch -c ../outside/secret.txt",
        "touch -h -d 2001-01-01 ../outside/secret.txt",
        "/usr/bin/python3 -c \"import os; os.setxattr('../outside/secret.txt', 'user.x', b'1')\"",
        "chmod 777 ..",
        "mount -o remount,rw,bind / /; chmod 777 ../outside/secret.txt",
        "unshare -m true; nsenter -t 1 -m chmod 777 \"$PWD/../outside/secret.txt\"",
        "chmod 777 /proc/$PPID/cwd/../../../target",
    ] {
        let Some(ran) = run_sandboxed(&manager, command).await else {
            return;
        };
        assert!(!ran.has_succeeded, "{command}: {}", ran.output);
        let data = fs::metadata(&secret).expect("it is there");
        assert_eq!(data.mode() & 0o777, 0o640, "{command}");
        assert_eq!(data.modified().ok(), Some(time), "{command}");
    }
    let own = "echo x > own; chmod 751 own; touch -d 2001-01-01 own; stat -c %a,%Y own; \
               touch \"$TMPDIR/t\"; chmod 600 \"$TMPDIR/t\"; echo x > /dev/null; chown 1:1 own";
    if let Some(ran) = run_sandboxed(&manager, own).await {
        assert!(ran.has_succeeded, "{}", ran.output);
        assert!(ran.output.starts_with("751,"), "{}", ran.output);
    }
    // The result says why a write failed.
    let denied = run(&manager, json!({"command": "echo x > ../outside/new"})).await;
    let suggestion = json!(denied.result)["suggestion"].to_string();
    assert!(suggestion.contains("sandbox"), "{:?}", denied.result);
    // The mounts of this process are unchanged.
    write(&place.folder.path().join("outside/more"), "x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_outside_cannot_be_inspected() {
    let place = TestFolder::new();
    let manager = place.manager(BashOptions::default());
    let mut other = Command::new("sleep")
        .arg("60")
        .env("SERVICE_API_KEY", SECRET)
        .stdout(Stdio::null())
        .spawn()
        .expect("it is there");
    let id = other.id();
    let own = std::process::id();
    let mut tested = Vec::new();
    for command in [
        format!("cat /proc/{id}/environ | tr '\\0' '\\n'"),
        "cat /proc/$PPID/environ | tr '\\0' '\\n'; cat /proc/1/environ".to_owned(),
        "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -v ^PICKTOOLS_CALL"
            .to_owned(),
        format!(
            "cat /proc/{own}/root{}/outside/secret.txt",
            place.folder.path().display()
        ),
        format!("ls -l /proc/{id}/fd /proc/{id}/cwd/; cat /proc/{id}/maps"),
        format!("{PYTHON} -c \"open('/proc/{id}/mem', 'rb')\""),
    ] {
        if let Some(ran) = run_sandboxed(&manager, &command).await {
            tested.push((command, ran.output));
        }
    }
    other.kill().expect("it runs");
    other.wait().expect("it ends");
    for (command, output) in tested {
        for secret in [SECRET, OUTSIDE, "CARGO_MANIFEST_DIR", "/dev/null"] {
            assert!(!output.contains(secret), "{command}: {output}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_has_no_capabilities_beyond_files() {
    let place = TestFolder::new();
    let manager = place.manager(BashOptions::default());
    let Some(ran) = run_sandboxed(&manager, "grep -E 'Cap(Eff|Inh|Prm)' /proc/self/status").await
    else {
        return;
    };
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE.
    let harmless = 0b100_1111_1011;
    for line in ran.output.lines() {
        let bits = line.rsplit('\t').next().unwrap_or_default();
        let bits = u64::from_str_radix(bits, 16).expect("it is a number");
        assert_eq!(bits & !harmless, 0, "{line}");
    }
    // With a device of its own, a command could read the disk.
    for command in ["mknod disk b 7 0", "unshare -m true", "chroot / true"] {
        if let Some(ran) = run_sandboxed(&manager, command).await {
            assert!(!ran.has_succeeded, "{command}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_of_pyenv_starts() {
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else {
        return;
    };
    let shims = home.join(".pyenv/shims");
    if !shims.join("python3").exists() {
        eprintln!("this machine has no pyenv");
        return;
    }
    let place = TestFolder::new();
    let versions = fs::read_dir(home.join(".pyenv/versions")).expect("it is there");
    let version = versions
        .flatten()
        .find(|version| version.path().join("bin/python3").exists());
    let mut folders = vec![vec![shims, home.join(".pyenv/bin")]];
    folders.extend(version.map(|version| vec![version.path().join("bin")]));
    for folders in folders {
        let manager = manager_with_path(&place, &home, &folders);
        let command = "python3 -c \"import json, ssl, sys; print('started', sys.prefix)\"";
        let Some(ran) = run_sandboxed(&manager, command).await else {
            return;
        };
        assert!(
            ran.output.starts_with("started"),
            "{folders:?}: {}",
            ran.output
        );
        assert!(ran.output.contains(".pyenv/versions"), "{}", ran.output);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_version_managers_start() {
    let place = TestFolder::new();
    let home = place
        .folder
        .path()
        .canonicalize()
        .expect("it is there")
        .join("home");
    let reads = "cat \"$(dirname \"$(readlink -f \"$0\")\")/../lib/part\"";
    // Each program reads a file of its installation.
    for (bin, name) in [
        (".nvm/versions/node/v22.1.0/bin", "node"),
        (".pyenv/versions/3.12.1/bin", "python3.12"),
        (".asdf/installs/ruby/3.3.0/bin", "ruby"),
        (".local/share/mise/installs/go/1.24/bin", "go"),
        (".local/share/tools/v1/bin", "linked"),
        ("apps/deno/bin", "deno"),
    ] {
        write_program(&home.join(bin).join(name), reads);
        write(
            &home.join(bin).join("../lib/part"),
            &format!("{name} started\n"),
        );
    }
    let runs = |program: &str| format!("exec \"{}/{program}\"", home.display());
    write_program(
        &home.join(".asdf/shims/ruby"),
        &runs(".asdf/installs/ruby/3.3.0/bin/ruby"),
    );
    fs::create_dir_all(home.join(".local/bin")).expect("it is writable");
    let linked = home.join(".local/share/tools/v1/bin/linked");
    symlink(linked, home.join(".local/bin/linked")).expect("it is writable");
    symlink(home.join("apps/deno"), home.join("current")).expect("it is writable");
    let folders = [
        ".nvm/versions/node/v22.1.0/bin",
        ".pyenv/versions/3.12.1/bin",
        ".asdf/shims",
        ".local/share/mise/installs/go/1.24/bin",
        ".local/bin",
        "current/bin",
    ]
    .map(|folder| home.join(folder));
    let manager = manager_with_path(&place, &home, &folders);
    for program in ["node", "python3.12", "ruby", "go", "linked", "deno"] {
        let Some(ran) = run_sandboxed(&manager, program).await else {
            return;
        };
        assert_eq!(ran.output, format!("{program} started\n"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_beside_programs_stay_closed() {
    let place = TestFolder::new();
    let home = place
        .folder
        .path()
        .canonicalize()
        .expect("it is there")
        .join("home");
    let secrets = [
        ".ssh/id_ed25519",
        ".ssh/bin/key",
        ".aws/credentials",
        ".cargo/credentials.toml",
        ".docker/config.json",
        ".local/share/keyrings/login.keyring",
        ".config/gh/hosts.yml",
        ".netrc",
        "lib/notes",
        "share/notes",
    ];
    for secret in secrets {
        write(&home.join(secret), SECRET);
    }
    for folder in [".cargo/bin", ".docker/bin", ".local/bin", "bin"] {
        write_program(&home.join(folder).join("program"), "echo started");
    }
    // The root is writable, so what it has in `PATH` opens nothing.
    fs::create_dir_all(place.root.join("bin")).expect("it is writable");
    symlink(home.join(".ssh/bin/key"), place.root.join("bin/key")).expect("it is writable");
    symlink(home.join(".ssh"), place.root.join("inner/bin")).expect("it is writable");
    let mut folders = [".cargo/bin", ".docker/bin", ".local/bin", "bin", "."]
        .map(|folder| home.join(folder))
        .to_vec();
    folders.extend([place.root.join("bin"), place.root.join("inner/bin")]);
    let manager = manager_with_path(&place, &home, &folders);
    for secret in secrets {
        let command = format!("cat \"{}\"", home.join(secret).display());
        let Some(ran) = run_sandboxed(&manager, &command).await else {
            return;
        };
        assert!(
            ran.output.contains("Permission denied"),
            "{secret}: {}",
            ran.output
        );
    }
    if let Some(ran) = run_sandboxed(&manager, "program").await {
        assert_eq!(ran.output, "started\n");
    }
}

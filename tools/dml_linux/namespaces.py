"""Runs programs inside a rig: its mounts and processes are in namespaces of their own, which a first process (the keeper) holds."""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import vulkan
from files import RigError

ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/wine",
    "LANG": "C.UTF-8",
    "XDG_RUNTIME_DIR": "/tmp",
    "WINEPREFIX": "/rig/pfx",
    "WINELOADER": "/usr/lib/wine/wine64",
    "WINESERVER": "/usr/lib/wine/wineserver64",
    "WINEDEBUG": "-all",
    "VKD3D_DEBUG": "none",
    "VK_DRIVER_FILES": "/usr/share/vulkan/icd.d/lvp_icd.json",
    # Empty value: off. These are .NET, HTML, menus, and the debugger, in which a crash would wait for ever.
    # "n,b": Microsoft's C++ runtime and the shims are taken before Wine's own files.
    "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe,winedbg.exe=;d3d12,dxgi,dxcore,vulkan-1,vcruntime140,"
    "vcruntime140_1,msvcp140,msvcp140_1,msvcp140_2,msvcp140_atomic_wait,concrt140=n,b",
}

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWPID, PR_SET_PDEATHSIG = 0x00020000, 0x20000000, 1


def die_with_parent():
    """Tells the kernel to kill this child when its parent ends, however the parent ends. For preexec_fn."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start_time(pid):
    """Returns the start time of process `pid`, None if it is not running. Start time and pid identify a process for good."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def processes():
    """Returns the pids of all processes."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


# Mounts what the Debian system needs, in a mount namespace of its own. /dev gets only the harmless nodes.
MOUNT = r"""
set -e
root=$1 work=$2 binds=$3; shift 3
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do
    : >"$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/shm"; mount -t tmpfs tmpfs "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mkdir -p "$root/rig"; mount --bind "$work" "$root/rig"
if [ -s "$binds" ]; then mkdir -p "$root/vulkan"; mount -t tmpfs -o mode=755 tmpfs "$root/vulkan"; fi
while IFS="	" read -r host inside; do
    mkdir -p "$root${inside%/*}"
    if [ -d "$host" ]; then mkdir -p "$root$inside"; else : >"$root$inside"; fi
    mount --bind "$host" "$root$inside"
    case $inside in /vulkan/*) mount -o remount,bind,ro "$root$inside" ;; esac
done <"$binds"
exec chroot "$root" "$@"
"""
# The PID namespace ends with its first process, which ends with `unshare` (--kill-child).
UNSHARE = ["unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child"]

# Xvfb is needed because Wine 10 has Vulkan only with a display driver. Xvfb chooses a free display number itself.
DISPLAY = r"""
Xvfb -displayfd 3 -screen 0 640x480x24 -nolisten tcp 3>/tmp/display >&2 &
until [ -s /tmp/display ]; do kill -0 $! || exit 1; sleep 0.02; done
DISPLAY=:$(cat /tmp/display); export DISPLAY
cd /rig
"""

# The keeper: the first process inside, from `up` to `down`. The waiting `cmd` keeps Wine's services running, so that a run
# does not have to start them. bash reaps orphaned processes. The loop ends if DIR is deleted. Each file that Wine opens is a request to
# wineserver64: if it waits for a busy core, all wait. So it comes before other processes, where root may say so.
KEEP = (
    DISPLAY
    + r"""
nice -n -10 wineserver64 -p
sleep infinity | wine64 cmd >/dev/null 2>&1 &
wine64 cmd /c exit
echo "$DISPLAY"; exec >&2
while [ -e /rig/py/python.exe ]; do sleep 5 & wait $!; done
"""
)


def isolated(rig, command, log, binds="/dev/null", **options):
    """Returns the command line that runs `command` in the Debian system, in new namespaces, and its options for Popen. The
    file `binds` has lines of what else is shown: a path of the host, a tab, its path inside."""
    options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT, "env": ENVIRONMENT, **options}
    return [*UNSHARE, "sh", "-c", MOUNT, "sh", str(rig.root), str(rig.work), str(binds), *command], options


def keeper(rig):
    """Returns the state of the running rig (pid, started, display, environment), None if it is not running."""
    try:
        state = json.loads((rig.state / "up.json").read_text())
    except (OSError, ValueError):
        return None
    return state if start_time(state["pid"]) == state["started"] else None


def up(rig):
    """Returns the state of the rig. Starts the rig if it is not running. Raises RigError if Wine does not start."""
    state = keeper(rig)
    if state:
        return state
    with rig.lock(), open(rig.log / "up.log", "w") as log:
        state = keeper(rig)
        if state:
            return state
        seen = vulkan.view(rig.root, rig.driver)
        problem = vulkan.problem(rig.root, rig.driver, seen)
        if problem:
            raise RigError(problem)
        binds, env = vulkan.write(rig.state / "vulkan", seen), {**ENVIRONMENT, **seen.environment}
        command, options = isolated(rig, ["bash", "-c", KEEP], log, binds, stdout=subprocess.PIPE, stderr=log, env=env)
        process = subprocess.Popen(command, start_new_session=True, **options)
        ready, _, _ = select.select([process.stdout], [], [], 120)
        display = process.stdout.readline().decode().strip() if ready else ""
        process.stdout.close()
        if not display:
            process.kill()
            must_have_namespaces()
            raise RigError(f"cannot start Wine: {log.name} has its output")
        state = {"pid": process.pid, "started": start_time(process.pid), "display": display}
        state["environment"] = seen.environment
        (rig.state / "up.json").write_text(json.dumps(state))
        return state


def down(rig):
    """Ends all processes inside; the mounts end with them. Raises RigError if a process does not end."""
    with rig.lock():
        state = keeper(rig)
        if state:
            # With this command Wine saves its registry before it ends.
            command = ["timeout", "10", "wineserver64", "-k"]
            spawn(rig, state, command, {}, "/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()
            os.kill(state["pid"], signal.SIGKILL)
        for _ in range(200):
            inside = [pid for pid in processes() if start_time(pid) and root_of(pid) == str(rig.root)]
            if not inside and not keeper(rig):
                break
            time.sleep(0.05)
        else:
            raise RigError(f"processes {inside} inside {rig.root} do not end: end them by hand")
        (rig.state / "up.json").unlink(missing_ok=True)


def root_of(pid):
    """Returns the root folder of a process, None if it has ended or is not ours to see."""
    try:
        return os.readlink(f"/proc/{pid}/root")
    except OSError:
        return None


def entering(state, root, folder="/"):
    """Returns a function for preexec_fn. It makes `root` (a path that the keeper sees) the root folder and `folder` the
    current folder."""
    mounts = os.open(f"/proc/{state['pid']}/ns/mnt", os.O_RDONLY)
    place = os.open(f"/proc/{state['pid']}/root{root}", os.O_RDONLY)

    def enter():
        die_with_parent()
        if libc.setns(mounts, CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "setns")
        os.fchdir(place)
        os.chroot(".")
        os.chdir(folder)

    return enter


def spawn(rig, state, command, environment, cwd, **options):
    """Returns the Popen of a command that it starts inside the running rig. The command is killed when this process ends."""
    own_namespace = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY)
    inside = os.open(f"/proc/{state['pid']}/ns/pid_for_children", os.O_RDONLY)
    if libc.setns(inside, CLONE_NEWPID):  # affects only the children of this process
        raise RigError("cannot enter the rig's namespaces: run `down`, then try again")
    try:
        env = {**ENVIRONMENT, "DISPLAY": state["display"], **state.get("environment", {}), **environment}
        return subprocess.Popen(command, preexec_fn=entering(state, rig.root, cwd), env=env, **options)
    finally:
        libc.setns(own_namespace, CLONE_NEWPID)


# ---------------------------------------------------------------- run

# Each run marks its processes with an environment variable. Wine passes it on to the Windows programs that they start.
MARK = "DML_LINUX_RUN"


def marked():
    """Gives (pid, pid of its run, start time of its run) for each process that a run has started."""
    for pid in processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        for variable in environment.split(b"\0"):
            if variable.startswith(MARK.encode() + b"="):
                run, _, started = variable.decode().partition("=")[2].partition(":")
                yield pid, run, started


def end_leftovers(of=None):
    """Kills the processes that the run with the pid `of` has left. Without `of`: those of all runs that have ended."""
    for pid, run, started in marked():
        if run == of if of else start_time(run) != started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def bind(rig, state, host, inside):
    """Shows the folder `host` as /mnt/`inside`, until `down` or until another folder gets the name. Raises RigError."""
    target = f"{rig.root}/mnt/{inside}"
    seen = f"/proc/{state['pid']}/root{target}"
    if os.path.isdir(seen) and os.path.samefile(seen, host):
        return
    script = 'mkdir -p "$2" && mount --bind "$1" "$2"'
    result = subprocess.run(["sh", "-c", script, "sh", host, target], preexec_fn=entering(state, "/"))
    if result.returncode:
        raise RigError(f"cannot show {host} as /mnt/{inside}")


def run(rig, command, *, environment=(), cwd="/rig", binds=(), timeout=None, **options):
    """Runs a command inside and returns its exit code: 124 after `timeout` seconds, 128 + n after signal n.

    `environment` and `binds` are pairs: (name, value) and (folder of the host, name in /mnt). `cwd` is a folder inside.
    Raises RigError if the command or `cwd` does not exist inside.
    """
    state = up(rig)
    for host, inside in binds:
        bind(rig, state, host, inside)
    if not os.path.isdir(f"/proc/{state['pid']}/root{rig.root}{cwd}"):
        raise RigError(f"--cwd must be a folder inside the rig, got {cwd}")
    end_leftovers()
    pid = str(os.getpid())

    def on_signal(number, frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    try:
        mark = {MARK: f"{pid}:{start_time(pid)}"}
        process = spawn(rig, state, command, {**dict(environment), **mark}, cwd, **options)
        code = process.wait(timeout)
    except FileNotFoundError:
        raise RigError(f"CMD must be a command inside the rig, got {command[0]}") from None
    except subprocess.TimeoutExpired:
        print(f"dml_linux: ended after {timeout:g} s", file=sys.stderr)
        code = 124
    finally:
        end_leftovers(pid)
    return code if code >= 0 else 128 - code


def must_have_namespaces():
    """Raises RigError if this machine cannot run a rig."""
    if os.uname().machine != "x86_64":
        raise RigError(f"needs an x86-64 machine, got {os.uname().machine}")
    missing = [name for name in ("unshare", "mount", "chroot") if not shutil.which(name)]
    if missing:
        raise RigError(f"needs {', '.join(missing)}: install the packages that have them")
    if subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL).returncode:
        raise RigError("cannot create mount and PID namespaces (in a container: start it with --privileged)")

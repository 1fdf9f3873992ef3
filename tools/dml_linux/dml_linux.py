#!/usr/bin/env python3
"""Builds and runs a rig: the real ONNX Runtime DirectML execution provider on Linux, without Windows and without a GPU.

A Windows CPython with onnxruntime-directml runs under Wine. Wine's vkd3d translates Direct3D 12 to Vulkan. Mesa's lavapipe
computes Vulkan on the CPU, or the host's Vulkan driver on a GPU (vulkan.py). All files come from Debian packages, from PyPI
packages, and from shims/ beside this file.

The host never sees a mount of the rig. Mounts and processes are in a mount namespace and a PID namespace of their own. Both
end with the process that holds them (the "keeper"), and also a few seconds after DIR is deleted.
"""

import argparse
import ctypes
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # not there by itself if Python runs in safe mode

import unpack  # noqa: E402
import vulkan  # noqa: E402

MODULES = ["dml_linux.py", "vulkan.py", "unpack.py"]  # what `run`, `up`, `down` and `doctor` need
PYTHONS = [(3, 11), (3, 12), (3, 13), (3, 14)]
THIS_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = [
    "wine64",
    "libwine-dev",  # -dev: dxcore_interface.h, which the cross compiler lacks
    "mesa-vulkan-drivers",
    "libvulkan1",
    "xvfb",
    "gcc-mingw-w64-x86-64-win32",
    "g++-mingw-w64-x86-64-win32",
    "mingw-w64-tools",
]
GIGABYTES = 5
PROXIES = ["http_proxy", "https_proxy", "no_proxy"]
CERTIFICATES = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"]  # variables that name a file of certificates
HOST_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

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

# ---------------------------------------------------------------- basics


class RigError(Exception):
    """An error that is shown to the user as one line, with exit code 2."""


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


def sha256(path):
    """Returns the SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class Rig:
    """The folders of one rig."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.root = self.folder / "root"  # the Debian system
        self.work = self.folder / "work"  # /rig inside, Z:\rig for Windows programs
        self.state = self.folder / "state"
        self.log = self.folder / "log"
        self.cache = self.folder / "cache"
        self.manifest = self.folder / "manifest.json"
        self.vulkan = self.state / "vulkan.json"
        self.python = self.work / "py"
        self.site_packages = self.python / "Lib/site-packages"

    def lock(self, name="lock", wait=True):
        """Returns an open file that holds the lock `name` until it is closed: `lock` to start or end the rig, `setup.lock`
        to build it. Raises RigError if another process holds it and `wait` is false."""
        handle = open(self.state / name, "w")  # noqa: SIM115  the caller closes it
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RigError(f"another setup is running in {self.folder}: wait for its end") from None
        return handle

    @property
    def driver(self):
        """The choice of --vulkan: `software`, `host` or the path of an ICD file."""
        return json.loads(self.vulkan.read_text())["choice"] if self.vulkan.is_file() else "software"

    @property
    def packed(self):
        """What a rig that came from a pack has: `software`, and the Python that `linux` is for. None for any other rig."""
        file = self.state / "packed.json"
        return json.loads(file.read_text()) if file.is_file() else None

    def must_be_built(self):
        """Returns the rig itself. Raises RigError if its setup has not ended."""
        if not self.manifest.is_file():
            raise RigError(f"no rig in {self.folder}: run `setup {self.folder}` first, or again if it was interrupted")
        return self

    def must_have_this_python(self):
        """Returns the rig itself. Raises RigError if it is not built, or was built for another Python than this one."""
        version = json.loads(self.must_be_built().manifest.read_text())["python"]["version"]
        if not version.startswith(f"{THIS_PYTHON}."):
            raise RigError(
                f"the rig has Python {version}: run dml_linux.py with that version, got Python {THIS_PYTHON}"
            )
        return self


# ---------------------------------------------------------------- namespaces

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


# ---------------------------------------------------------------- setup


def must_have_namespaces():
    """Raises RigError if this machine cannot run a rig."""
    if os.uname().machine != "x86_64":
        raise RigError(f"needs an x86-64 machine, got {os.uname().machine}")
    missing = [name for name in ("unshare", "mount", "chroot") if not shutil.which(name)]
    if missing:
        raise RigError(f"needs {', '.join(missing)}: install the packages that have them")
    if subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL).returncode:
        raise RigError("cannot create mount and PID namespaces (in a container: start it with --privileged)")


def check_host(rig):
    """Raises RigError if setup cannot work on this machine, with one line that says what is missing."""
    missing = [name for name in ("gpgv", "dpkg-deb", "wget") if not shutil.which(name)]
    if not shutil.which("debootstrap") and not shutil.which("apt-get"):
        missing.append("debootstrap")
    if missing:
        raise RigError(f"needs {', '.join(missing)}: install the packages that have them")
    if not find_spec("pip"):
        raise RigError(f"{sys.executable} needs pip")
    if not Path(KEYRING).is_file():
        raise RigError(f"needs {KEYRING} (package debian-archive-keyring) to verify Debian's packages")
    must_have_namespaces()
    is_used = rig.folder.exists() and (not rig.folder.is_dir() or any(rig.folder.iterdir()))
    if is_used and not rig.state.is_dir():
        raise RigError(f"DIR must be a new folder, an empty one or a rig, got {rig.folder}")
    place = next(folder for folder in (rig.folder, *rig.folder.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if not rig.manifest.is_file() and not rig.root.is_dir() and free < GIGABYTES << 30:
        raise RigError(f"needs {GIGABYTES} GB of free disk at {place}, got {free / (1 << 30):.1f}")


def proxies():
    """Returns the proxies of this machine as environment variables in small letters: apt and wget read no others."""
    values = {name: os.environ.get(name) or os.environ.get(name.upper()) for name in PROXIES}
    return {name: value for name, value in values.items() if value}


def certificates():
    """Returns the file of certificates that this machine trusts, also a company's own. Returns None if there is none."""
    files = [os.environ.get(name) for name in CERTIFICATES]
    return next((file for file in [*files, HOST_CERTIFICATES] if file and Path(file).is_file()), None)


def pip_environment():
    """Returns the environment for pip: that of this process. sudo hides the caller's pip.conf: it is named there."""
    environment = {**os.environ, **proxies()}
    caller = environment.get("SUDO_USER")
    if caller and "PIP_CONFIG_FILE" not in environment:
        home = Path(os.path.expanduser(f"~{caller}"))
        for file in (home / ".config/pip/pip.conf", home / ".pip/pip.conf"):
            if file.is_file():
                return {**environment, "PIP_CONFIG_FILE": str(file)}
    return environment


class Stages:
    """The steps of setup. A step runs once, and again if its inputs or an earlier step have changed.

    `mirror` is the mirror of Debian, or None for debootstrap's own default. It is no input: another mirror has the same files.
    """

    def __init__(self, rig, mirror=None):
        self.rig, self.mirror, self.key, self.log = rig, mirror, "", None

    def step(self, function, *inputs):
        """Runs a step, unless it is done already with the same inputs and after the same earlier steps."""
        name = function.__name__
        self.key = hashlib.sha256(repr((self.key, name, inputs)).encode()).hexdigest()
        stamp = self.rig.state / f"{name}.done"
        if stamp.is_file() and stamp.read_text() == self.key:
            return print(f"{name}: there", flush=True)
        down(self.rig)
        self.rig.manifest.unlink(missing_ok=True)
        stamp.unlink(missing_ok=True)
        began = time.monotonic()
        with open(self.rig.log / f"{name}.log", "w") as self.log:
            function(self)
        stamp.write_text(self.key)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)

    def call(self, command, **options):
        """Runs a command on the host, with its output in the step's log. Raises RigError if its exit code is not 0."""
        options = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": subprocess.STDOUT, **options}
        code = subprocess.run([str(word) for word in command], preexec_fn=die_with_parent, **options).returncode
        if code:
            raise RigError(
                f"setup failed (exit code {code}): {self.log.name} has the reason; `setup` repeats this step"
            )

    def inside(self, script, **environment):
        """Runs a bash script in the Debian system, with its output in the step's log. Raises RigError as `call` does."""
        command, options = isolated(self.rig, ["bash", "-e", "-c", script], self.log)
        self.call(command, **{**options, "env": {**ENVIRONMENT, **environment}})


def debian_base(stages):
    """Installs the Debian base system with debootstrap, which it fetches if the host has none."""
    rig, new = stages.rig, stages.rig.folder / "root.new"
    for half_done in (rig.root, new):
        shutil.rmtree(half_done, ignore_errors=True)
    command, environment = shutil.which("debootstrap"), {**os.environ, **proxies()}
    if not command:
        stages.call(
            ["sh", "-c", "apt-get download -q debootstrap || { apt-get update && apt-get download -q debootstrap; }"],
            cwd=rig.cache,
            env=environment,
        )
        stages.call(["dpkg-deb", "-x", *rig.cache.glob("debootstrap_*.deb"), rig.cache / "debootstrap"])
        command = rig.cache / "debootstrap/usr/sbin/debootstrap"
        environment["DEBOOTSTRAP_DIR"] = str(rig.cache / "debootstrap/usr/share/debootstrap")
    place = [new, stages.mirror] if stages.mirror else [new]
    stages.call([*UNSHARE, "sh", command, "--variant=minbase", f"--keyring={KEYRING}", SUITE, *place], env=environment)
    new.rename(rig.root)


def apt_sources(root):
    """Returns the files that name apt's sources."""
    return [root / "etc/apt/sources.list", *(root / "etc/apt/sources.list.d").glob("*.*")]


def debian_packages(stages):
    """Installs Wine, Mesa and the cross compiler, and the commands `wine` and `python`."""
    root, trusted = stages.rig.root, certificates()
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    if stages.mirror:
        for file in apt_sources(root):
            file.unlink(missing_ok=True)
        (root / "etc/apt/sources.list").write_text(f"deb {stages.mirror} {SUITE} main\n")
    apt = "apt-get"
    if trusted:
        shutil.copyfile(trusted, root / "etc/apt/host.pem")  # without its mode: apt reads it as another user
        apt += " -o Acquire::https::CaInfo=/etc/apt/host.pem"
    stages.inside(
        f"dpkg --configure -a; {apt} update -q; {apt} -y -f install;"
        f" {apt} install -y -q --no-install-recommends {' '.join(PACKAGES)}; apt-get clean",
        DEBIAN_FRONTEND="noninteractive",
        **proxies(),
    )
    for name, command in {"wine": "wine64", "python": "wine64 /rig/py/python.exe"}.items():
        script = stages.rig.root / "usr/local/bin" / name
        script.write_text(f'#!/bin/sh\nexec /usr/lib/wine/{command} "$@"\n')
        script.chmod(0o755)


def wine_prefix(stages):
    """Makes the Wine prefix, with Direct3D over Vulkan."""
    stages.inside(
        "rm -rf /rig/pfx"
        + DISPLAY
        + r"""
        timeout 200 wine64 wineboot --init
        timeout 60 wine64 reg add 'HKCU\Software\Wine\Direct3D' /v renderer /d vulkan /f
        # With this key a crash would wait in a debugger.
        timeout 60 wine64 reg delete 'HKLM\Software\Microsoft\Windows NT\CurrentVersion\AeDebug' /f || true
        timeout 60 wineserver64 -w"""
    )


def windows_python(stages):
    """Puts the Windows Python together: its DLLs from PyPI, its pure library from this Python."""
    rig = stages.rig
    dll = f"python{THIS_PYTHON.replace('.', '')}.dll"
    libraries = {"libcrypto-3.dll", "libffi-8.dll", "libssl-3.dll", "sqlite3.dll", "zlib1.dll"}
    shutil.rmtree(rig.python, ignore_errors=True)
    (rig.python / "DLLs").mkdir(parents=True)
    with_hashes = ["--require-hashes", "-r", HERE / "python.txt"]
    wheels = rig.cache / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    download = [sys.executable, "-m", "pip", "download", "-q", *FOR_WINDOWS, "--no-deps", "-d", wheels, *with_hashes]
    stages.call(download, env=pip_environment())
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                base = os.path.basename(name)
                if base == dll or (wheel.name.startswith("msvc_runtime") and base.endswith(".dll")):
                    place = rig.python
                elif name.startswith("deploy_libs/") and (
                    base in libraries or (base.endswith(".pyd") and "-win" not in base)
                ):
                    place = rig.python / "DLLs"
                else:
                    continue
                (place / base).write_bytes(archive.read(name))
    leave = shutil.ignore_patterns("__pycache__", "test", "site-packages", "dist-packages", "lib-dynload", "config-*")
    shutil.copytree(sysconfig.get_path("stdlib"), rig.python / "Lib", ignore=leave)
    shutil.rmtree(wheels)


FOR_WINDOWS = [
    "--platform=win_amd64",
    "--implementation=cp",
    f"--python-version={THIS_PYTHON}",
    "--only-binary=:all:",
]


def pip_install(rig, *words):
    """Returns the command line that installs packages into the Windows Python; `words` are more arguments for pip."""
    return [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
        "--no-warn-conflicts",
        "-q",
        "--upgrade",
        f"--target={rig.site_packages}",
        *FOR_WINDOWS,
        *words,
    ]


def windows_packages(stages):
    """Installs the packages of requirements.txt for Windows."""
    shutil.rmtree(stages.rig.site_packages, ignore_errors=True)
    command = pip_install(stages.rig, "--no-deps", "--require-hashes", "-r", HERE / "requirements.txt")
    stages.call(command, env=pip_environment())


def shims(stages):
    """Compiles the shims and puts them in place."""
    rig, dll = stages.rig, f"python{THIS_PYTHON.replace('.', '')}"
    sources = rig.work / "shims"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(HERE / "shims", sources)
    shutil.copy(HERE / "shims" / "sitecustomize.py", rig.python / "Lib")
    for program in programs():
        shutil.copy(program, rig.work / PROGRAMS.get(program.name, program.name))
    stages.inside(rf"""
        cd /rig/shims; system32=/rig/pfx/drive_c/windows/system32 wine=/usr/lib/x86_64-linux-gnu/wine/x86_64-windows
        cc="x86_64-w64-mingw32-gcc -O2 -Wall -s" cxx="x86_64-w64-mingw32-g++ -O2 -Wall -s"
        $cc -municode '-DPYTHON_DLL=L"{dll}.dll"' python.c -o ../py/python.exe
        # Extension modules for the stable ABI need python3.dll. It forwards each name to {dll}.dll.
        {{ echo LIBRARY python3.dll; echo EXPORTS; gendef - ../py/{dll}.dll |
            sed -nE 's/^(_?Py[A-Za-z_0-9]*)( DATA)?\r?$/\1 = {dll}.\1\2/p'; }} >python3.def
        $cc -shared -nostdlib python3.def -o ../py/python3.dll
        # The shims replace Wine's dxcore, d3d12, dxgi and vulkan-1. Copies of Wine's d3d12 and dxgi stand where Wine looks for its own.
        for name in d3d12 dxgi; do
            cp $wine/$name.dll $wine/${{name}}_wine.dll; cp $wine/$name.dll $system32/${{name}}_wine.dll
        done
        $cc -shared d3d12.c d3d12.def -o $system32/d3d12.dll -ldxgi
        $cc -shared dxgi.c dxgi.def -o $system32/dxgi.dll
        $cc -shared vulkan.c vulkan.def -o $system32/vulkan-1.dll
        $cxx -shared -static -fno-exceptions -fno-rtti -idirafter /usr/include/wine/wine/windows dxcore.cpp \
            -o $system32/dxcore.dll -ldxgi -luuid""")


PROGRAMS = {"vulkan.py": "vulkan_devices.py"}  # names in the rig of files that have another one here


def programs():
    """Returns the files that run inside."""
    return [HERE / "smoke.py", HERE / "devices.py", HERE.parents[1] / "opmap/engines/machine/vulkan.py"]


def smoke(stages):
    """Runs smoke.py in the rig. Raises RigError if an operator gives a wrong result."""
    code = run(stages.rig, ["python", "smoke.py"], timeout=300, stdout=stages.log, stderr=stages.log)
    if code:
        raise RigError(f"smoke.py found a wrong result (exit code {code}): {stages.log.name} has its output")


def write_manifest(rig):
    """Writes manifest.json: the versions of all packages and of Python, and the hashes of the shims and of the DLLs."""
    query = ["chroot", str(rig.root), "dpkg-query", "-W", "-f", "${Package} ${Version}\n"]
    packages = dict(line.split() for line in subprocess.check_output(query, text=True).splitlines())
    command = ["python", "-c", "import sys; sys.stdout.write(sys.version.split()[0])"]
    version = spawn(rig, up(rig), command, {}, "/rig", stdout=subprocess.PIPE).communicate()[0].decode()
    sources = "\n".join(file.read_text() for file in apt_sources(rig.root) if file.is_file())
    mirror = re.search(r"https?://\S+", re.sub(r"//[^\s/@]*@", "//", sources))  # without a password
    system32, capi = rig.work / "pfx/drive_c/windows/system32", rig.site_packages / "onnxruntime/capi"
    built = [rig.python / "python.exe", rig.python / "python3.dll"]
    built += [system32 / f"{name}.dll" for name in ("d3d12", "dxgi", "dxcore", "vulkan-1")]
    distributions = sorted(path.name[: -len(".dist-info")] for path in rig.site_packages.glob("*.dist-info"))
    record = {
        "device_class": vulkan.device_class(devices(rig)[0]),
        "driver_version": None,
        "python": {"version": version, "library": ".".join(map(str, sys.version_info[:3]))},
        "debian": {"suite": SUITE, "mirror": mirror and mirror[0], "packages": packages},
        "pypi": dict(name.rsplit("-", 1) for name in distributions),
        "shims": {path.name: sha256(path) for path in built},
        "unmodified": {path.name: sha256(path) for path in sorted(capi.glob("*.dll")) + sorted(capi.glob("*.pyd"))},
    }
    rig.manifest.write_text(json.dumps(record, indent=1) + "\n")


def devices(rig):
    """Returns what devices.py says inside, and what vkd3d says meanwhile."""
    command = ["timeout", "120", "python", "devices.py"]
    with tempfile.TemporaryFile() as log:
        process = spawn(rig, up(rig), command, {"VKD3D_DEBUG": "warn"}, "/rig", stdout=subprocess.PIPE, stderr=log)
        output = process.communicate()[0]
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    try:
        return json.loads(output), said
    except ValueError:
        return {"error": f"devices.py ended with exit code {process.returncode}"}, said


def doctor(rig):
    """Prints the Vulkan drivers and devices of the rig, and what is missing for a GPU. Returns 0 if Direct3D 12 gets a device."""
    seen = vulkan.view(rig.root, rig.driver)
    answer, said = devices(rig)
    if (rig.state / "vulkan/binds").read_text() != vulkan.bind_lines(rig.state / "vulkan", seen):
        raise RigError(
            f"the rig runs with other drivers than this host has now: run `down {rig.folder}`, then try again"
        )
    for line in [*vulkan.described(rig.driver, seen), *loaded(rig, seen), *vulkan.answered(answer, said)]:
        print(line)
    for line in vulkan.lacks(seen):
        print(f"missing: {line}")
    return 0 if vulkan.device_class(answer) else 1


def loaded(rig, seen):
    """Gives a line for each driver of the host that the rig's Debian cannot load."""
    for name in seen.icds:
        library = json.loads((rig.state / "vulkan/icd.d" / name).read_text())["ICD"]["library_path"]
        environment = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "1", "LD_BIND_NOW": "1"}
        command = [vulkan.LOADER, library]
        process = spawn(rig, up(rig), command, environment, "/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = process.communicate()[0].decode("utf-8", "replace")
        reason = re.search(r".*(?:not found|undefined symbol|error while loading).*", text)
        if reason:
            yield f"missing: {name} does not load in the rig ({reason[0].strip()}): its libraries are for a newer system"


def choose_driver(rig, choice):
    """Notes the choice of --vulkan. Ends a rig that runs: it may have other drivers. Raises RigError if no driver can be used."""
    problem = "" if choice == "software" else vulkan.problem(rig.root, choice, vulkan.view(rig.root, choice))
    if problem:
        raise RigError(problem)
    down(rig)
    if choice != rig.driver:
        rig.vulkan.write_text(json.dumps({"choice": choice}) + "\n")


def setup(rig, mirror=None, driver=None):
    """Builds the rig, or the missing steps of it, with Debian's packages from `mirror`. `driver` is the choice of --vulkan;
    without it, the earlier one stays. A rig that came from a pack has all steps. Raises RigError."""
    if rig.packed:
        must_have_namespaces()
        if driver:
            choose_driver(rig, driver)
        stages = Stages(rig)
        with open(rig.log / "smoke.log", "w") as stages.log:
            return smoke(stages)
    check_host(rig)
    for folder in (rig.work, rig.state, rig.log, rig.cache):
        folder.mkdir(parents=True, exist_ok=True)
    lock = rig.lock("setup.lock", wait=False)
    if driver:
        choose_driver(rig, driver)
    sources = [(path.name, sha256(path)) for path in [*sorted((HERE / "shims").iterdir()), *programs()]]
    stages = Stages(rig, mirror)
    stages.step(debian_base, SUITE)
    stages.step(debian_packages, PACKAGES)
    stages.step(wine_prefix)
    stages.step(windows_python, sys.version_info[:3], sha256(HERE / "python.txt"))
    stages.step(windows_packages, sha256(HERE / "requirements.txt"))
    stages.step(shims, sources)
    stages.step(smoke, *([] if rig.driver == "software" else [rig.driver]))
    if not rig.manifest.is_file():
        write_manifest(rig)
        down(rig)
    # Copies for users who have the rig but no checkout.
    if rig.folder != HERE:
        for module in MODULES:
            shutil.copy(HERE / module, rig.folder)
    lock.close()


# ---------------------------------------------------------------- pairs of ONNX Runtime and DirectML


def check_pairs(onnxruntimes, directmls):
    """Raises RigError if no wheel has one of these versions."""
    from runtimes import refusal  # here: the copy of this file in a rig stands alone

    if problem := refusal(onnxruntimes, directmls):
        raise RigError(problem)


def add_pairs(rig, onnxruntimes, directmls):
    """Puts pairs of these versions into a rig, and runs smoke.py on each new one. Raises RigError if one does not load."""
    import runtimes

    was_up = keeper(rig)
    with rig.lock("setup.lock", wait=False), open(rig.log / "runtimes.log", "w") as log:
        stages = Stages(rig)
        stages.log = log

        def download(python, pins, folder):
            words = [*FOR_WINDOWS[:2], f"--python-version={python}", *FOR_WINDOWS[3:], "--no-deps", "--require-hashes"]
            command = [sys.executable, "-m", "pip", "download", "-q", *words, "-r", pins, "-d", folder]
            stages.call(command, env=pip_environment())

        try:
            folders = runtimes.Pairs(rig, THIS_PYTHON, download).make(onnxruntimes, directmls)
        except ValueError as error:
            raise RigError(str(error)) from None
        problems = []
        for folder in folders:
            record = runtimes.read(folder)
            if "problem" not in record:
                record["problem"] = load_problem(rig, folder.name)
                runtimes.write(folder, record)
            print(f"runtime {folder.name}: {'does not load' if record['problem'] else 'loads'}", flush=True)
            if record["problem"]:
                versions = f"ONNX Runtime {record['onnxruntime']} does not load beside DirectML {record['directml']}"
                problems.append(f"{versions}: {record['problem']}")
    if not was_up:
        down(rig)
    if problems:
        raise RigError("; ".join(problems))


def load_problem(rig, name):
    """Returns why ONNX Runtime makes no session on a pair, as one line; None if it does, whatever smoke.py then says."""
    with open(rig.log / f"runtime-{name}.log", "w+") as log:
        environment = [("PYTHONPATH", rf"Z:\rig\runtimes\{name}")]
        code = run(rig, ["python", "smoke.py"], environment=environment, timeout=300, stdout=log, stderr=log)
        log.seek(0)
        text = log.read()
    if not code or " DmlExecutionProvider " in text:
        return None
    last = text.strip().rpartition("\n")[2] or f"exit code {code}"
    return " ".join(last.split())[:300]


# ---------------------------------------------------------------- pack


def make_pack(rig, folder, size, software):
    """Packs the rig into parts in `folder`, and prints their size. Raises RigError."""
    import pack

    if rig.packed:
        raise RigError(f"{rig.folder} came from a pack: carry its parts over, or pack the rig that they were made of")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RigError(f"-o must be a new folder or an empty one, got {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    down(rig)
    stages, linux, source = Stages(rig), rig.cache / "linux", HERE.parents[1]
    extras = [(name, HERE / name) for name in [*MODULES, "gpu_row.sh"]]
    extras.append(("work/measure_directml.py", source / "tools/measure_directml.py"))
    extras += [(f"tools/bench/{path.name}", path) for path in (source / "tools/bench").glob("*.py")]
    with open(rig.log / "pack.log", "w") as stages.log:
        if pack.linux_packages(linux, source, stages.log, pip_environment()):
            raise RigError(f"cannot fetch opmap's packages for Linux: {stages.log.name} has the reason")
        try:
            manifest = pack.pack(rig, folder, size, software, stages.inside, linux, extras)
        except OSError as error:
            raise RigError(f"cannot write {error.filename or folder}: {error.strerror}{unpack.room(error)}") from None
    packed = sum(part["bytes"] for part in manifest["parts"])
    print(f"{len(manifest['parts'])} parts, {packed / 1e6:.0f} MB; unpacked {manifest['unpacked_bytes'] / 1e6:.0f} MB")
    print(f"next, on the other machine: python3 {folder.name}/unpack.py {folder.name} DIR")


def run_opmap(rig, words):
    """Runs opmap of a rig that came from a pack, with this Python and this rig. Returns its exit code. Raises RigError."""
    wanted = (rig.must_be_built().packed or {}).get("linux")
    if not wanted:
        raise RigError(f"{rig.folder} did not come from a pack: use the opmap that is installed, with --dml-runtime")
    if wanted != THIS_PYTHON:
        inside = f"`run {rig.folder} python -m opmap ...` runs it inside"
        raise RigError(f"the pack has opmap for Python {wanted}, got Python {THIS_PYTHON}: start that one, or {inside}")
    environment = {**os.environ, "PYTHONPATH": str(rig.folder / "linux"), "OPMAP_DML_RUNTIME": str(rig.folder)}
    return subprocess.run([sys.executable, "-P", "-m", "opmap", *words], env=environment).returncode


# ---------------------------------------------------------------- command line


def part_size(text):
    """Returns the bytes of a size as 60M or 1G."""
    match = re.fullmatch(r"([1-9]\d*)([MG])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a size as 60M or 1G, got {text!r}")
    return int(match[1]) * {"M": 10**6, "G": 10**9}[match[2]]


def pip(rig, words):
    """Runs pip for the Windows Python and returns its exit code. Constraints keep the versions that setup has pinned, and
    keep out the CPU build of onnxruntime."""
    pins = [line.split(" \\")[0] for line in (HERE / "requirements.txt").read_text().splitlines() if line[:1].isalpha()]
    constraints = rig.state / "constraints.txt"
    constraints.write_text("\n".join([*pins, "onnxruntime<0"]) + "\n")
    command = [str(word) for word in pip_install(rig, "-c", constraints, *words)]
    return subprocess.run(command, env=pip_environment()).returncode


def setting(text):
    """Returns (name, value) for NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, value


def vulkan_driver(text):
    """Returns the choice of --vulkan: `host`, `software`, or the absolute path of an ICD file."""
    if text in ("host", "software"):
        return text
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"must be host, software or the file of a Vulkan driver (ICD), got {text!r}")
    return os.path.abspath(text)


def mirror_url(text):
    """Returns the address of a mirror of Debian, without a slash at its end."""
    if not re.fullmatch(r"https?://[^\s'\"]+", text):
        raise argparse.ArgumentTypeError(f"must be an address, as https://debian.example.org/debian, got {text!r}")
    return text.rstrip("/")


def folder_pair(text):
    """Returns (absolute path of the host's folder, name in /mnt) for HOST or HOST:NAME."""
    host, _, inside = text.partition(":")
    host = os.path.realpath(host)
    inside = inside or os.path.basename(host)
    if not os.path.isdir(host):
        raise argparse.ArgumentTypeError(f"HOST must be a folder, got {host}")
    if not inside or "/" in inside or inside in (".", ".."):
        raise argparse.ArgumentTypeError(f"NAME must be a plain name, got {inside!r}")
    return host, inside


class Parser(argparse.ArgumentParser):
    """A parser whose errors are RigErrors, in one line."""

    def error(self, message):
        raise RigError(f"{message} (--help explains)")


def parse(arguments):
    """Returns the options for these arguments. Raises RigError for bad usage."""
    example = """example:
  dml_linux.py setup /var/tmp/rig
  dml_linux.py install /var/tmp/rig dist/opmap-*.whl
  dml_linux.py run --timeout 600 --bind tests /var/tmp/rig python -m pytest -q /mnt/tests
  dml_linux.py down /var/tmp/rig && rm -r /var/tmp/rig"""
    parser = Parser(
        prog="dml_linux.py", description=__doc__, epilog=example, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True  # not as a keyword: an old Python must get as far as the message that refuses it

    def command(name, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("DIR", type=Rig)
        return sub

    sub = command("setup", "build the rig in DIR, or the missing steps of it, and run smoke.py in it")
    sub.add_argument("--mirror", type=mirror_url, metavar="URL", help="mirror of Debian (default: that of debootstrap)")
    sub.add_argument(
        "--vulkan",
        type=vulkan_driver,
        metavar="host|software|ICD.json",
        help="the host's Vulkan drivers, lavapipe on the CPU, or the driver that a file names (default: the earlier choice,"
        " at first software)",
    )
    for option, what in (("--onnxruntime", "an ONNX Runtime"), ("--directml", "a DirectML.dll")):
        help = f"put {what} of this version beside the rig's own, in a pair for --runtime of opmap; may be repeated"
        sub.add_argument(option, action="append", default=[], metavar="VERSION", help=help)
    command("doctor", "list the Vulkan devices, the one that Direct3D 12 gets, and what is missing for a GPU")
    command("up", "start the rig (`run` does this by itself)")
    command("down", "end all processes inside the rig")
    sub = command(
        "run", "run a command inside; `python` is the Windows Python, `wine` starts any other Windows program"
    )
    sub.add_argument("CMD", nargs=argparse.REMAINDER)
    sub.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="end the command after so many seconds, with exit code 124"
    )
    sub.add_argument(
        "--cwd", default="/rig", metavar="PATH", help="folder inside in which to run (default: /rig, which is DIR/work)"
    )
    sub.add_argument(
        "--env", action="append", default=[], type=setting, metavar="K=V", help="set an environment variable"
    )
    sub.add_argument(
        "--bind",
        action="append",
        default=[],
        type=folder_pair,
        metavar="HOST[:NAME]",
        help="show a folder of the host as /mnt/NAME (Z:\\mnt\\NAME) until down",
    )
    sub = command("pack", "pack what is needed to run, with opmap, for a machine without network")
    sub.add_argument("-o", dest="parts", type=Path, required=True, metavar="PARTS", help="new folder for the parts")
    sub.add_argument(
        "--part-size", type=part_size, default="60M", metavar="SIZE", help="most bytes of a part (default: 60M)"
    )
    sub.add_argument("--software", action="store_true", help="with lavapipe, for a machine without a GPU")
    sub = commands.add_parser("unpack", help="unpack a pack into the new folder DIR (PARTS/unpack.py does the same)")
    sub.add_argument("PARTS", type=Path)
    sub.add_argument("DIR", type=Rig)
    sub = command("opmap", "run opmap of a rig that came from a pack, on this rig")
    sub.add_argument("WORDS", nargs=argparse.REMAINDER)
    sub = command("pip", "install packages for Windows from PyPI; the versions that setup has pinned stay")
    sub.add_argument("PKG", nargs=argparse.REMAINDER)
    sub = command("install", "install wheels without their dependencies (setup has installed those of opmap)")
    sub.add_argument("WHEEL", nargs="+")
    return parser.parse_args(arguments)


def main(arguments):
    """Runs one command and returns its exit code. Raises RigError."""
    options = parse(arguments)
    rig = options.DIR
    if options.command == "unpack":
        unpack.main([str(options.PARTS), str(rig.folder)])
        return 0
    if os.geteuid():
        raise RigError("needs root: it mounts in a namespace of its own")
    if options.command in ("setup", "pip", "install") and sys.version_info[:2] not in PYTHONS:
        raise RigError(
            f"needs Python 3.11 to 3.14, because the Windows Python gets the same version, got {THIS_PYTHON}"
        )
    if options.command == "setup":
        pairs = (options.onnxruntime, options.directml)
        if any(pairs):
            check_pairs(*pairs)
        setup(rig, options.mirror, options.vulkan)
        if any(pairs):
            add_pairs(rig, *pairs)
    elif options.command == "doctor":
        return doctor(rig.must_be_built())
    elif options.command == "up":
        up(rig.must_be_built())
    elif options.command == "down":
        if rig.state.is_dir():
            down(rig)
    elif options.command == "run":
        if not options.CMD:
            raise RigError("run needs a command (--help explains)")
        return run(
            rig.must_be_built(),
            options.CMD,
            environment=options.env,
            cwd=options.cwd,
            binds=options.bind,
            timeout=options.timeout,
        )
    elif options.command == "pack":
        make_pack(rig.must_have_this_python(), options.parts, options.part_size, options.software)
    elif options.command == "opmap":
        return run_opmap(rig, options.WORDS)
    elif options.command == "pip":
        if not options.PKG:
            raise RigError("pip needs a package (--help explains)")
        return pip(rig.must_have_this_python(), options.PKG)
    elif options.command == "install":
        command = pip_install(rig.must_have_this_python(), "--no-deps", *options.WHEEL)
        return subprocess.run(command, env=pip_environment()).returncode
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (RigError, unpack.PackError) as error:
        print(f"dml_linux: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

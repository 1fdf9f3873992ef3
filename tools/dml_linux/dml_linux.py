#!/usr/bin/env python3
"""The real ONNX Runtime DirectML execution provider on Linux, without Windows and without a GPU.

A Windows CPython with onnxruntime-directml runs under Wine; Direct3D 12 goes through Wine's vkd3d to Vulkan, and
Mesa's lavapipe computes it on the CPU. Everything comes from Debian and PyPI packages and from shims/ beside this file.

Nothing is ever mounted where the host could see it: mounts and processes live in a mount and a PID namespace of their
own, which end with the process that holds them (the "keeper"), and soon after DIR is deleted.
"""

import argparse
import ctypes
import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHONS = [(3, 11), (3, 12), (3, 13), (3, 14)]
MIRROR, SUITE = "http://deb.debian.org/debian", "trixie"
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
    # Off: .NET, HTML, menus, and the debugger, in which a crash would wait for ever. Microsoft's C++ runtime and the
    # shims before Wine's own.
    "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe,winedbg.exe=;d3d12,dxcore,vcruntime140,vcruntime140_1,"
    "msvcp140,msvcp140_1,msvcp140_2,msvcp140_atomic_wait,concrt140=n,b",
}

# ---------------------------------------------------------------- small things


class RigError(Exception):
    """What goes wrong with a sentence for the user: printed in one line, exit code 2."""


libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWPID, PR_SET_PDEATHSIG = 0x00020000, 0x20000000, 1


def die_with_parent():
    """For preexec_fn: the kernel kills the child when this process ends, however it ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start_time(pid):
    """The time process `pid` was started, which together with the pid names it for good; None if it is not running."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def processes():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def sha256(path):
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
        self.python = self.work / "py"
        self.site_packages = self.python / "Lib/site-packages"

    def lock(self, name="lock", wait=True):
        """Hold this open while the rig is brought up or down (or, by another name, built)."""
        handle = open(self.state / name, "w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RigError(f"another setup is at work in {self.folder}") from None
        return handle

    def must_be_built(self):
        if not self.manifest.is_file():
            raise RigError(f"no rig in {self.folder}: run `setup {self.folder}` first, or again if it was interrupted")
        return self

    def must_have_this_python(self):
        version = json.loads(self.must_be_built().manifest.read_text())["python"]["version"]
        if not version.startswith("%d.%d." % sys.version_info[:2]):
            raise RigError(
                f"this rig holds Python {version}, and pip must run under the same: call me with that Python"
            )
        return self


# ---------------------------------------------------------------- namespaces

# What is mounted on the Debian system, in a mount namespace of its own. Of /dev only the harmless nodes.
MOUNT = r"""
set -e
root=$1 work=$2; shift 2
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
exec chroot "$root" "$@"
"""
# The PID namespace ends with its first process, and that one with `unshare` (--kill-child).
UNSHARE = ["unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child"]

# Xvfb, because Wine 10 gives Vulkan only to a display driver; it looks for a free number itself.
DISPLAY = r"""
Xvfb -displayfd 3 -screen 0 640x480x24 -nolisten tcp 3>/tmp/display >&2 &
until [ -s /tmp/display ]; do kill -0 $! || exit 1; sleep 0.02; done
DISPLAY=:$(cat /tmp/display); export DISPLAY
cd /rig
"""

# The first process inside, from `up` to `down`. The waiting `cmd` keeps Wine's services running between two runs; else
# each run would start them again. bash reaps what is orphaned. If DIR is deleted meanwhile, all ends.
KEEP = (
    DISPLAY
    + r"""
wineserver64 -p
sleep infinity | wine64 cmd >/dev/null 2>&1 &
wine64 cmd /c exit
echo "$DISPLAY"; exec >&2
while [ -e /rig/py/python.exe ]; do sleep 5 & wait $!; done
"""
)


def isolated(rig, command, log, **options):
    """The command line that runs `command` in the Debian system, in namespaces of its own, and its Popen options."""
    options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT, "env": ENVIRONMENT, **options}
    return [*UNSHARE, "sh", "-c", MOUNT, "sh", str(rig.root), str(rig.work), *command], options


def keeper(rig):
    """The state of the running rig, or None."""
    try:
        state = json.loads((rig.state / "up.json").read_text())
    except (OSError, ValueError):
        return None
    return state if start_time(state["pid"]) == state["started"] else None


def up(rig):
    """Start the rig if it is not running; returns its state."""
    state = keeper(rig)
    if state:
        return state
    with rig.lock(), open(rig.log / "up.log", "w") as log:
        state = keeper(rig)
        if state:
            return state
        command, options = isolated(rig, ["bash", "-c", KEEP], log, stdout=subprocess.PIPE, stderr=log)
        process = subprocess.Popen(command, start_new_session=True, **options)
        ready, _, _ = select.select([process.stdout], [], [], 120)
        display = process.stdout.readline().decode().strip() if ready else ""
        process.stdout.close()
        if not display:
            process.kill()
            raise RigError(f"cannot start Wine, see {log.name}")
        state = {"pid": process.pid, "started": start_time(process.pid), "display": display}
        (rig.state / "up.json").write_text(json.dumps(state))
        return state


def down(rig):
    """End whatever runs inside; the mounts go with it."""
    with rig.lock():
        state = keeper(rig)
        if state:
            # Asked this way Wine writes its registry first.
            command = ["timeout", "10", "wineserver64", "-k"]
            spawn(rig, state, command, {}, "/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()
            os.kill(state["pid"], signal.SIGKILL)
        for _ in range(200):
            inside = [pid for pid in processes() if start_time(pid) and root_of(pid) == str(rig.root)]
            if not inside and not keeper(rig):
                break
            time.sleep(0.05)
        else:
            raise RigError(f"still running inside {rig.root}: processes {inside}")
        (rig.state / "up.json").unlink(missing_ok=True)


def root_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/root")
    except OSError:
        return None


def entering(state, root, folder="/"):
    """For preexec_fn: a function that makes `root`, as the keeper sees it, the root, and `folder` the current one."""
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
    """Start a command inside the running rig; it dies with this process."""
    own = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY)
    theirs = os.open(f"/proc/{state['pid']}/ns/pid_for_children", os.O_RDONLY)
    if libc.setns(theirs, CLONE_NEWPID):  # counts for the children of this process only
        raise RigError("cannot enter the rig's namespaces")
    try:
        env = {**ENVIRONMENT, "DISPLAY": state["display"], **environment}
        return subprocess.Popen(command, preexec_fn=entering(state, rig.root, cwd), env=env, **options)
    finally:
        libc.setns(own, CLONE_NEWPID)


# ---------------------------------------------------------------- run

# Each run marks its processes by an environment variable, which Wine hands on to the Windows programs they start.
MARK = "DML_LINUX_RUN"


def marked():
    """(pid, pid of its run, start time of its run) of all processes that some run started."""
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
    """Kill what the run `of` left behind, or, without it, what any run did that is no more."""
    for pid, run, started in marked():
        if run == of if of else start_time(run) != started:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def bind(rig, state, host, inside):
    """Make the folder `host` visible as /mnt/`inside`, until `down` or until another folder takes the name."""
    target = f"{rig.root}/mnt/{inside}"
    seen = f"/proc/{state['pid']}/root{target}"
    if os.path.isdir(seen) and os.path.samefile(seen, host):
        return
    script = 'mkdir -p "$2" && mount --bind "$1" "$2"'
    result = subprocess.run(["sh", "-c", script, "sh", host, target], preexec_fn=entering(state, "/"))
    if result.returncode:
        raise RigError(f"cannot bind {host} to /mnt/{inside}")


def run(rig, command, *, environment=(), cwd="/rig", binds=(), timeout=None, **options):
    """Run a command inside and return its exit code; 124 after the timeout, 128 + n for signal n."""
    state = up(rig)
    for host, inside in binds:
        bind(rig, state, host, inside)
    if not os.path.isdir(f"/proc/{state['pid']}/root{rig.root}{cwd}"):
        raise RigError(f"no folder {cwd} inside")
    end_leftovers()
    own = str(os.getpid())

    def on_signal(number, frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    try:
        mark = {MARK: f"{own}:{start_time(own)}"}
        process = spawn(rig, state, command, {**dict(environment), **mark}, cwd, **options)
        code = process.wait(timeout)
    except FileNotFoundError:
        raise RigError(f"no command {command[0]} inside") from None
    except subprocess.TimeoutExpired:
        print(f"dml_linux: ended after {timeout:g} s", file=sys.stderr)
        code = 124
    finally:
        end_leftovers(own)
    return code if code >= 0 else 128 - code


# ---------------------------------------------------------------- setup


def check_host(rig):
    missing = [name for name in ("unshare", "mount", "chroot", "gpgv", "dpkg-deb", "wget") if not shutil.which(name)]
    if not shutil.which("debootstrap") and not shutil.which("apt-get"):
        missing.append("debootstrap")
    if os.uname().machine != "x86_64":
        raise RigError("needs an x86-64 machine")
    if missing:
        raise RigError(f"needs {', '.join(missing)}")
    if not find_spec("pip"):
        raise RigError(f"needs pip for {sys.executable}")
    if not Path(KEYRING).is_file():
        raise RigError(f"needs {KEYRING} (package debian-archive-keyring) to verify what it fetches")
    if subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL).returncode:
        raise RigError("needs to create mount and PID namespaces (in a container: --privileged)")
    if rig.folder.exists() and any(rig.folder.iterdir()) and not rig.state.is_dir():
        raise RigError(f"{rig.folder} is neither empty nor a rig")
    place = next(folder for folder in (rig.folder, *rig.folder.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if not rig.manifest.is_file() and not rig.root.is_dir() and free < GIGABYTES << 30:
        raise RigError(f"needs {GIGABYTES} GB of disk at {place}, has {free / (1 << 30):.1f}")


class Stages:
    """The steps of setup: each is done once, and again if its inputs, or a step before it, changed."""

    def __init__(self, rig):
        self.rig, self.key, self.log = rig, "", None

    def step(self, function, *inputs):
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
        options = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": subprocess.STDOUT, **options}
        code = subprocess.run([str(word) for word in command], preexec_fn=die_with_parent, **options).returncode
        if code:
            raise RigError(f"setup failed (exit code {code}), see {self.log.name}; `setup` again goes on from there")

    def inside(self, script, **environment):
        command, options = isolated(self.rig, ["bash", "-e", "-c", script], self.log)
        self.call(command, **{**options, "env": {**ENVIRONMENT, **environment}})


def debian_base(stages):
    rig, new = stages.rig, stages.rig.folder / "root.new"
    for half_done in (rig.root, new):
        shutil.rmtree(half_done, ignore_errors=True)
    command, environment = shutil.which("debootstrap"), dict(os.environ)
    if not command:
        stages.call(
            ["sh", "-c", "apt-get download -q debootstrap || { apt-get update && apt-get download -q debootstrap; }"],
            cwd=rig.cache,
        )
        stages.call(["dpkg-deb", "-x", *rig.cache.glob("debootstrap_*.deb"), rig.cache / "debootstrap"])
        command = rig.cache / "debootstrap/usr/sbin/debootstrap"
        environment["DEBOOTSTRAP_DIR"] = str(rig.cache / "debootstrap/usr/share/debootstrap")
    stages.call(
        [*UNSHARE, "sh", command, "--variant=minbase", f"--keyring={KEYRING}", SUITE, new, MIRROR], env=environment
    )
    new.rename(rig.root)


def debian_packages(stages):
    shutil.copy("/etc/resolv.conf", stages.rig.root / "etc/resolv.conf")
    proxies = {name: os.environ[name] for name in ("http_proxy", "https_proxy", "no_proxy") if name in os.environ}
    stages.inside(
        "dpkg --configure -a; apt-get update -q; apt-get -y -f install;"
        f" apt-get install -y -q --no-install-recommends {' '.join(PACKAGES)}; apt-get clean",
        DEBIAN_FRONTEND="noninteractive",
        **proxies,
    )
    for name, command in {"wine": "wine64", "python": "wine64 /rig/py/python.exe"}.items():
        script = stages.rig.root / "usr/local/bin" / name
        script.write_text(f'#!/bin/sh\nexec /usr/lib/wine/{command} "$@"\n')
        script.chmod(0o755)


def wine_prefix(stages):
    stages.inside(
        "rm -rf /rig/pfx"
        + DISPLAY
        + r"""
        timeout 200 wine64 wineboot --init
        timeout 60 wine64 reg add 'HKCU\Software\Wine\Direct3D' /v renderer /d vulkan /f
        # Without this a crash would wait in a debugger.
        timeout 60 wine64 reg delete 'HKLM\Software\Microsoft\Windows NT\CurrentVersion\AeDebug' /f || true
        timeout 60 wineserver64 -w"""
    )


def windows_python(stages):
    rig = stages.rig
    dll = "python%d%d.dll" % sys.version_info[:2]
    libraries = {"libcrypto-3.dll", "libffi-8.dll", "libssl-3.dll", "sqlite3.dll", "zlib1.dll"}
    shutil.rmtree(rig.python, ignore_errors=True)
    (rig.python / "DLLs").mkdir(parents=True)
    with_hashes = ["--require-hashes", "-r", HERE / "python.txt"]
    wheels = rig.cache / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    stages.call([sys.executable, "-m", "pip", "download", "-q", *FOR_WINDOWS, "--no-deps", "-d", wheels, *with_hashes])
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                base = os.path.basename(name)
                if base == dll or (wheel.name.startswith("msvc_runtime") and base.endswith(".dll")):
                    place = rig.python
                elif name.startswith("deploy_libs/") and (
                    base in libraries or base.endswith(".pyd") and "-win" not in base
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
    "--python-version=%d.%d" % sys.version_info[:2],
    "--only-binary=:all:",
]


def pip_install(rig, *words):
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
    shutil.rmtree(stages.rig.site_packages, ignore_errors=True)
    stages.call(pip_install(stages.rig, "--no-deps", "--require-hashes", "-r", HERE / "requirements.txt"))


def shims(stages):
    rig, dll = stages.rig, "python%d%d" % sys.version_info[:2]
    sources = rig.work / "shims"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(HERE / "shims", sources)
    shutil.copy(HERE / "shims" / "sitecustomize.py", rig.python / "Lib")
    shutil.copy(HERE / "smoke.py", rig.work)
    stages.inside(rf"""
        cd /rig/shims; system32=/rig/pfx/drive_c/windows/system32 wine=/usr/lib/x86_64-linux-gnu/wine/x86_64-windows
        cc="x86_64-w64-mingw32-gcc -O2 -Wall -s" cxx="x86_64-w64-mingw32-g++ -O2 -Wall -s"
        $cc -municode '-DPYTHON_DLL=L"{dll}.dll"' python.c -o ../py/python.exe
        # python3.dll, which modules for the stable ABI ask for: nothing but a pointer to {dll}.dll for each name.
        {{ echo LIBRARY python3.dll; echo EXPORTS; gendef - ../py/{dll}.dll |
            sed -nE 's/^(_?Py[A-Za-z_0-9]*)( DATA)?\r?$/\1 = {dll}.\1\2/p'; }} >python3.def
        $cc -shared -nostdlib python3.def -o ../py/python3.dll
        # dxcore and d3d12 in Wine's place; a copy of its d3d12 beside, where Wine looks for its own DLLs too.
        cp $wine/d3d12.dll $wine/d3d12_wine.dll; cp $wine/d3d12.dll $system32/d3d12_wine.dll
        $cc -shared d3d12.c d3d12.def -o $system32/d3d12.dll
        $cxx -shared -static -fno-exceptions -fno-rtti -idirafter /usr/include/wine/wine/windows dxcore.cpp \
            -o $system32/dxcore.dll -ldxgi -luuid""")


def smoke(stages):
    code = run(stages.rig, ["python", "smoke.py"], timeout=300, stdout=stages.log, stderr=stages.log)
    if code:
        raise RigError(f"built, but the three operators do not run right (exit code {code}), see {stages.log.name}")


def write_manifest(rig):
    query = ["chroot", str(rig.root), "dpkg-query", "-W", "-f", "${Package} ${Version}\n"]
    packages = dict(line.split() for line in subprocess.check_output(query, text=True).splitlines())
    ask = ["python", "-c", "import sys; sys.stdout.write(sys.version.split()[0])"]
    version = spawn(rig, up(rig), ask, {}, "/rig", stdout=subprocess.PIPE).communicate()[0].decode()
    system32, capi = rig.work / "pfx/drive_c/windows/system32", rig.site_packages / "onnxruntime/capi"
    built = [rig.python / "python.exe", rig.python / "python3.dll", system32 / "d3d12.dll", system32 / "dxcore.dll"]
    distributions = sorted(path.name[: -len(".dist-info")] for path in rig.site_packages.glob("*.dist-info"))
    record = {
        "device_class": "emulated",
        "driver_version": None,
        "python": {"version": version, "library": "%d.%d.%d" % sys.version_info[:3]},
        "debian": {"suite": SUITE, "mirror": MIRROR, "packages": packages},
        "pypi": dict(name.rsplit("-", 1) for name in distributions),
        "shims": {path.name: sha256(path) for path in built},
        "unmodified": {path.name: sha256(path) for path in sorted(capi.glob("*.dll")) + sorted(capi.glob("*.pyd"))},
    }
    rig.manifest.write_text(json.dumps(record, indent=1) + "\n")


def setup(rig):
    check_host(rig)
    for folder in (rig.work, rig.state, rig.log, rig.cache):
        folder.mkdir(parents=True, exist_ok=True)
    lock = rig.lock("setup.lock", wait=False)
    sources = [(path.name, sha256(path)) for path in [*sorted((HERE / "shims").iterdir()), HERE / "smoke.py"]]
    stages = Stages(rig)
    stages.step(debian_base, SUITE, MIRROR)
    stages.step(debian_packages, PACKAGES)
    stages.step(wine_prefix)
    stages.step(windows_python, sys.version_info[:3], sha256(HERE / "python.txt"))
    stages.step(windows_packages, sha256(HERE / "requirements.txt"))
    stages.step(shims, sources)
    stages.step(smoke)
    if not rig.manifest.is_file():
        write_manifest(rig)
        down(rig)
    lock.close()


# ---------------------------------------------------------------- command line


def pip(rig, words):
    """Let pip install into the Windows Python, never touching what setup pinned, nor letting in the CPU onnxruntime."""
    pins = [line.split(" \\")[0] for line in (HERE / "requirements.txt").read_text().splitlines() if line[:1].isalpha()]
    constraints = rig.state / "constraints.txt"
    constraints.write_text("\n".join([*pins, "onnxruntime<0"]) + "\n")
    return subprocess.run([str(word) for word in pip_install(rig, "-c", constraints, *words)]).returncode


def setting(text):
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def folder_pair(text):
    host, _, inside = text.partition(":")
    host = os.path.realpath(host)
    inside = inside or os.path.basename(host)
    if not os.path.isdir(host):
        raise argparse.ArgumentTypeError(f"no folder {host}")
    if not inside or "/" in inside or inside in (".", ".."):
        raise argparse.ArgumentTypeError(f"{inside!r} is not a plain name")
    return host, inside


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise RigError(f"{message} (--help explains)")


def parse(arguments):
    example = """example:
  dml_linux.py setup /var/tmp/rig
  dml_linux.py install /var/tmp/rig dist/opmap-*.whl
  dml_linux.py run --timeout 600 --bind tests /var/tmp/rig python -m pytest -q /mnt/tests
  dml_linux.py down /var/tmp/rig && rm -r /var/tmp/rig"""
    parser = Parser(
        prog="dml_linux.py", description=__doc__, epilog=example, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True  # an older Python, which is refused below, knows no such keyword

    def command(name, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("DIR", type=Rig)
        return sub

    command("setup", "build the rig in DIR, or what is missing of it, and run the three operators there")
    command("up", "start it (run does so by itself)")
    command("down", "end all that runs inside")
    sub = command("run", "run a command inside; python is the Windows one, wine starts any other Windows program")
    sub.add_argument("CMD", nargs=argparse.REMAINDER)
    sub.add_argument("--timeout", type=float, metavar="SECONDS", help="end it then, with exit code 124")
    sub.add_argument(
        "--cwd", default="/rig", metavar="PATH", help="folder inside to run in (default /rig, which is DIR/work)"
    )
    sub.add_argument("--env", action="append", default=[], type=setting, metavar="K=V", help="an environment variable")
    sub.add_argument(
        "--bind",
        action="append",
        default=[],
        type=folder_pair,
        metavar="HOST[:NAME]",
        help="show the host's folder as /mnt/NAME (Z:\\mnt\\NAME), until down",
    )
    sub = command("pip", "install packages for Windows from PyPI; what setup pinned stays as it is")
    sub.add_argument("PKG", nargs=argparse.REMAINDER)
    sub = command("install", "install built wheels without their dependencies (opmap: setup brought those)")
    sub.add_argument("WHEEL", nargs="+")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    rig = options.DIR
    if os.geteuid():
        raise RigError("needs root, to mount in a namespace of its own")
    if options.command in ("setup", "pip", "install") and sys.version_info[:2] not in PYTHONS:
        raise RigError(
            "needs Python 3.11 to 3.14, whose version and library the Windows Python gets; this is %d.%d"
            % sys.version_info[:2]
        )
    if options.command == "setup":
        setup(rig)
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
    elif options.command == "pip":
        if not options.PKG:
            raise RigError("pip needs a package (--help explains)")
        return pip(rig.must_have_this_python(), options.PKG)
    elif options.command == "install":
        return subprocess.run(pip_install(rig.must_have_this_python(), "--no-deps", *options.WHEEL)).returncode
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RigError as error:
        print(f"dml_linux: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

"""Builds a rig step by step, says what it has, and puts pairs of ONNX Runtime and DirectML into it."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path

import vulkan
from files import HERE, THIS_PYTHON, RigError, sha256
from namespaces import (
    DISPLAY,
    ENVIRONMENT,
    UNSHARE,
    die_with_parent,
    down,
    isolated,
    keeper,
    must_have_namespaces,
    run,
    spawn,
    up,
)

MODULES = [  # what `run`, `up`, `down` and `doctor` need
    "dml_linux.py",
    "files.py",
    "namespaces.py",
    "set_up.py",
    "unpack.py",
    "vulkan.py",
]
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

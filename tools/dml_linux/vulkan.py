"""Which Vulkan drivers a rig sees: lavapipe of its own Debian, or those of the host.

A driver of the host is found by the Vulkan loader's own rules. Its files are shown in the rig, read-only, below /vulkan, each
time the rig starts, so that a new version of the driver needs no new setup. A library that the rig's Debian has is taken from
there; only what it lacks comes from the host. The host's files are never written.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

SOFTWARE_ICD = "/usr/share/vulkan/icd.d/lvp_icd.json"
LIBRARIES = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib", "lib64"]  # of the rig's Debian
LOADER = "/lib64/ld-linux-x86-64.so.2"
CONTAINERS = ["/usr/local/nvidia/share", "/run/opengl-driver/share"]  # where container toolkits and NixOS put drivers
GPUS_OF_MESA = ["radeon", "intel", "intel_hasvk", "nouveau"]  # in the rig's Debian; they need /dev/dri only
X86_64 = 62


class Driver(NamedTuple):
    """A driver of the host: its ICD file, what is in it, its library, and why it cannot be used (or "")."""

    icd: Path
    content: dict
    library: Path | None
    problem: str


class View(NamedTuple):
    """What a rig sees: pairs (file of the host, path inside), the driver files by name, the environment, the host's drivers."""

    binds: list
    icds: dict
    environment: dict
    drivers: list


def icd_files(environ=os.environ):
    """Returns the ICD files of this host, in the order of the Vulkan loader."""
    named = environ.get("VK_DRIVER_FILES") or environ.get("VK_ICD_FILENAMES")
    places = (named or environ.get("VK_ADD_DRIVER_FILES") or "").split(":")
    if not named:
        home = Path(environ.get("HOME") or "/root")
        folders = [environ.get("XDG_CONFIG_HOME") or home / ".config"]
        folders += (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
        folders += ["/usr/local/etc", "/etc", environ.get("XDG_DATA_HOME") or home / ".local/share"]
        folders += (environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
        places += [Path(folder, "vulkan/icd.d") for folder in [*folders, *CONTAINERS] if folder]
    files = []
    for place in map(Path, filter(None, places)):
        files += sorted(place.glob("*.json")) if place.is_dir() else [place] if named else []
    return list(dict.fromkeys(files))


def read_driver(icd):
    """Returns the driver that an ICD file names. A driver that cannot be used has a problem, with the cure."""
    try:
        content = json.loads(icd.read_bytes())
        name = content["ICD"]["library_path"]
        if not name or not isinstance(name, str):
            raise ValueError
    except OSError as error:
        return Driver(icd, {}, None, f"cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError):
        return Driver(icd, {}, None, "names no library: install the driver's package again")
    path = icd.parent / name if "/" in name else where(name)
    if not path or not path.is_file():
        return Driver(
            icd, content, None, f"names {name}, which is not on this host: install the driver's package again"
        )
    path = Path(os.path.abspath(path))
    with open(path, "rb") as file:
        head = file.read(20)
    if head[:5] != b"\x7fELF\2" or int.from_bytes(head[18:20], "little") != X86_64:
        return Driver(
            icd, content, path, f"names {path}, which is no x86-64 library: the rig needs the driver for x86-64"
        )
    return Driver(icd, content, path, "")


def trace(command, **environment):
    """Returns what the host's loader says of a library or program: lines `name => path`. It runs nothing of them."""
    env = {**os.environ, "LC_ALL": "C", **environment}
    try:
        result = subprocess.run([LOADER, *command], env=env, capture_output=True, text=True, errors="replace")
    except OSError:  # a host without glibc
        return {}
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", result.stdout, re.MULTILINE))


def where(name):
    """Returns where the host's loader finds a library by its name; None if it does not."""
    found = trace(["--list", shutil.which("true") or "/bin/true"], LD_PRELOAD=name).get(name)
    places = [found] if found else [f"{Path(place).parent}/lib64/{name}" for place in CONTAINERS]
    return next((Path(place) for place in places if Path(place).is_file()), None)


def siblings(library):
    """Returns NVIDIA's libraries of the same version, by name: the driver opens them while it runs."""
    real = library.resolve()
    version = re.fullmatch(r"lib\w*nvidia[\w-]*\.so\.(\d+(?:\.\d+)+)", real.name)
    if not version:
        return {}
    files = [file for file in real.parent.iterdir() if file.resolve().name.endswith(f".so.{version[1]}")]
    return {file.name: file.resolve() for file in files if file.is_file()}


def libraries(library, root):
    """Returns the host's libraries, by name, that a driver loads and that the rig in `root` does not have."""
    wanted = {}
    for each in {library, *siblings(library).values()}:
        wanted.update(trace([str(each)], LD_TRACE_LOADED_OBJECTS="1"))
    wanted = {Path(name).name: Path(path) for name, path in wanted.items()}
    lacking = {n: p for n, p in wanted.items() if not any((root / place / n).is_file() for place in LIBRARIES)}
    return {**lacking, **siblings(library)}


def host_view(root, icds):
    """Returns the view of a rig in `root` on the drivers of these ICD files."""
    drivers = [read_driver(icd) for icd in icds]
    binds, contents, inside = {}, {}, []
    for number, driver in enumerate(driver for driver in drivers if not driver.problem):
        place = f"/vulkan/{number}/{driver.library.name}"
        binds[place] = driver.library.resolve()
        for name, path in libraries(driver.library, root).items():
            binds.setdefault(f"/vulkan/lib/{name}", path.resolve())
        name = f"{number}-{driver.icd.name}"
        contents[name] = {**driver.content, "ICD": {**driver.content["ICD"], "library_path": place}}
        inside.append(f"/vulkan/icd.d/{name}")
    devices = [Path("/dev/dri")] if Path("/dev/dri").is_dir() else []
    if devices:
        own = [f"/usr/share/vulkan/icd.d/{name}_icd.json" for name in GPUS_OF_MESA]
        inside += [icd for icd in own if (root / icd[1:]).is_file()]
    devices += sorted(Path("/dev").glob("nvidia*"))
    pairs = [(str(device), str(device)) for device in devices] + [(str(p), place) for place, p in binds.items()]
    environment = {"VK_DRIVER_FILES": ":".join(inside), "LD_LIBRARY_PATH": "/vulkan/lib"}
    return View(pairs, contents, environment, drivers)


def view(root, choice):
    """Returns what the rig in `root` sees by the choice `software`, `host` or the path of an ICD file."""
    if choice == "software":
        return View([], {}, {"VK_DRIVER_FILES": SOFTWARE_ICD}, [])
    return host_view(root, icd_files() if choice == "host" else [Path(choice)])


def problem(root, choice, seen):
    """Returns why no rig can start with this view, with the cure; "" if one can."""
    if choice == "software":
        there = (root / SOFTWARE_ICD[1:]).is_file()
        return "" if there else "the rig has no lavapipe: use `setup --vulkan host`, or a pack made with --software"
    if seen.environment["VK_DRIVER_FILES"]:
        return ""
    if seen.drivers:
        return "; ".join(f"{driver.icd} {driver.problem}" for driver in seen.drivers)
    return (
        "no Vulkan driver on this host: install the card's, name its ICD file with --vulkan, or use --vulkan software"
    )


def bind_lines(folder, seen):
    """Returns the lines of the file that lists what is shown, for a view that is written into `folder`."""
    pairs = [*seen.binds, (str(folder / "icd.d"), "/vulkan/icd.d")] if seen.icds else seen.binds
    return "".join(f"{host}\t{inside}\n" for host, inside in pairs)


def write(folder, seen):
    """Writes the view for the rig's start into `folder`, and returns the file that lists what is to be shown."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "icd.d").mkdir(parents=True)
    for name, content in seen.icds.items():
        (folder / "icd.d" / name).write_text(json.dumps(content) + "\n")
    (folder / "binds").write_text(bind_lines(folder, seen))
    return folder / "binds"


def lacks(seen):
    """Gives what the host lacks for a GPU, one line each with the cure."""
    names = [driver.library.name for driver in seen.drivers if not driver.problem]
    nvidia = any("nvidia" in name for name in names)
    nodes = {host for host, _ in seen.binds}
    if nvidia and "/dev/nvidiactl" not in nodes:
        yield "/dev/nvidiactl is missing: load the kernel module nvidia; in a container, start it with all GPUs"
    if not nvidia and "/dev/nvidiactl" in nodes:
        cure = "install the driver's libraries for Vulkan; in a container, set NVIDIA_DRIVER_CAPABILITIES=all"
        yield f"an NVIDIA card without a Vulkan driver: {cure}"
    mesa = any(f"libvulkan_{name}.so" in names for name in GPUS_OF_MESA)
    if mesa and not list(Path("/dev/dri").glob("renderD*")):
        yield "/dev/dri has no render node: load the card's kernel module; in a container, pass --device /dev/dri"


def described(choice, seen):
    """Gives a line for the choice of --vulkan, and for each driver of the host."""
    yield f"vulkan: {choice}"
    for driver in seen.drivers:
        yield f"driver: {driver.icd}: {driver.problem or driver.library}"


def chosen(answer):
    """Returns the Vulkan device that Direct3D 12 gets; None if it gets none."""
    luid = answer.get("direct3d", {}).get("value")
    return next(
        (device for device in answer.get("vulkan", {}).get("value") or [] if luid and device["luid"] == luid), None
    )


def device_class(answer):
    """Returns the device class of the rig, as opmap names it; None without a device."""
    device = chosen(answer)
    return device and ("translated" if device["type"] in ("integrated", "discrete", "virtual") else "emulated")


def answered(answer, said):
    """Gives a line for each Vulkan device, and one for Direct3D 12; `said` is what vkd3d said meanwhile."""
    if "error" in answer:
        yield f"missing: {answer['error']}: run `down`, then try again"
        return
    devices = answer["vulkan"].get("value") or []
    for number, device in enumerate(devices):
        memory = f"{device['memory'] / (1 << 30):.1f} GB"
        yield f"device {number}: {device['name']}, {device['type']}, {device['driver']}, Vulkan {device['api_version']}, {memory}"
    if not devices:
        why = answer["vulkan"].get("error") or "no device"
        yield f"missing: Vulkan: {why}: no driver above has a card here; `setup --vulkan software` needs none"
    elif chosen(answer):
        yield f"Direct3D 12: {chosen(answer)['name']} ({device_class(answer)})"
    else:
        why = answer["direct3d"].get("error", "its device is none of these")
        reasons = re.findall(r"\berr:(.*)", said) or re.findall(r"\bwarn:(.*)", said)
        more = f" ({reasons[0].strip()})" if reasons else ""
        yield f"missing: Direct3D 12: vkd3d cannot use {devices[0]['name']}: {why}{more}: try a newer driver, or another card"

#!/usr/bin/env python3
"""Builds and runs a rig: the real ONNX Runtime DirectML execution provider on Linux, without Windows and without a GPU.

A Windows CPython with onnxruntime-directml runs under Wine. Wine's vkd3d translates Direct3D 12 to Vulkan. Mesa's lavapipe
computes Vulkan on the CPU, or the host's Vulkan driver on a GPU (vulkan.py). All files come from Debian packages, from PyPI
packages, and from shims/ beside this file.

The host never sees a mount of the rig. Mounts and processes are in a mount namespace and a PID namespace of their own. Both
end with the process that holds them (the "keeper"), and also a few seconds after DIR is deleted.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not there by itself if Python runs in safe mode

import unpack
from files import HERE, THIS_PYTHON, Rig, RigError
from namespaces import down, run, up
from set_up import MODULES, Stages, add_pairs, check_pairs, doctor, pip_environment, pip_install, setup

PYTHONS = [(3, 11), (3, 12), (3, 13), (3, 14)]

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

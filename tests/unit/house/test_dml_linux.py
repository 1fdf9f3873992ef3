"""The DirectML EP on Linux: how opmap finds its folder and starts the worker. Its cases are in test_dml_worker.py."""

import hashlib
import json
import struct
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import opmap
from opmap.cases.catalogue import catalogue
from opmap.engines import dml_linux
from opmap.engines.providers import Provider, ProviderMissing, open_provider
from opmap.engines.sessions import CPU
from opmap.engines.worker import WorkerProvider
from opmap.errors import InputError
from opmap.judge.judge import Judge

ROOT = Path(opmap.__file__).parents[1]
TOOL = Path(__file__).resolve().parents[3] / "tools" / "dml_linux" / "dml_linux.py"
PROXIED = {"http_proxy": "http://proxy:1", "https_proxy": "http://proxy:2", "no_proxy": "localhost"}
MIRROR = "https://debian.example.org/debian"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a rig runs on Linux only")
class TestRig:
    """The DirectML EP on Linux: how its folder is found, and how the worker starts there."""

    @pytest.fixture
    def rig(self, tmp_path):
        (tmp_path / "work").mkdir()
        (tmp_path / "manifest.json").write_text('{"python": {"version": "3.11.9"}}')
        (tmp_path / "dml_linux.py").touch()
        return tmp_path

    def test_no_name(self):
        assert dml_linux.find_dml_runtime(None, {}) is None

    @pytest.mark.parametrize("by_option", [True, False])
    def test_command(self, rig, by_option):
        named = (str(rig), {}) if by_option else (None, {"OPMAP_DML_RUNTIME": str(rig)})
        command = dml_linux.find_dml_runtime(*named)
        assert [sys.executable, f"{rig}/dml_linux.py", "run", str(rig), "python", "-P"] == command[:-1]
        staged = rig / "work" / command[-1]
        assert (ROOT / "opmap/engines/worker_main.py").read_bytes() == staged.read_bytes()
        assert command == dml_linux.find_dml_runtime(*named)
        assert 1 == len(list((rig / "work").iterdir()))

    def test_other_packages(self, rig):
        """The worker's Python looks into the folders that OPMAP_DML_PYTHONPATH names first."""
        command = dml_linux.find_dml_runtime(str(rig), {"OPMAP_DML_PYTHONPATH": "Z:\\rig\\new"})
        assert command[2:6] == ["run", "--env", "PYTHONPATH=Z:\\rig\\new", str(rig)]

    def pair(self, rig, name, **fields):
        """Puts a pair into a rig, as setup does."""
        onnxruntime, _, directml = name.partition("-")
        (rig / "work/runtimes" / name).mkdir(parents=True)
        record = {"onnxruntime": onnxruntime, "directml": directml, "python": "3.11", "own": False, **fields}
        (rig / "work/runtimes" / name / "runtime.json").write_text(json.dumps(record), encoding="utf-8")

    def test_pairs(self, rig):
        """The pairs of a rig stand in the order of their versions; --runtime names one; what setup has not ended is
        none.
        """
        assert [] == dml_linux.pairs(str(rig), {}) == dml_linux.pairs(None, {})
        for name in ("1.30.0-1.9.1", "1.24.4-1.15.4", "1.24.4-1.9.0"):
            self.pair(rig, name, problem="887A0004" if name.startswith("1.30") else None)
        (rig / "work/runtimes/1.30.0-1.15.4").mkdir()
        found = dml_linux.pairs(None, {"OPMAP_DML_RUNTIME": str(rig)})
        assert ["1.24.4-1.9.0", "1.24.4-1.15.4", "1.30.0-1.9.1"] == [pair.name for pair in found]
        assert "ONNX Runtime 1.30.0, DirectML 1.9.1: does not load: 887A0004" == str(found[2])
        command = dml_linux.find_dml_runtime(str(rig), {"OPMAP_DML_PYTHONPATH": "X"}, runtime="1.24.4-1.9.0")
        assert command[2:6] == ["run", "--env", r"PYTHONPATH=Z:\rig\runtimes\1.24.4-1.9.0", str(rig)]

    def test_no_such_pair(self, rig):
        for folder, has in ((str(rig), "none: tools/dml_linux has setup"), (None, "none")):
            with pytest.raises(InputError, match=f"^--runtime must be a pair .*, which has {has}.*got '1.24.4-2.0.0'"):
                dml_linux.find_dml_runtime(folder, {}, runtime="1.24.4-2.0.0")
        self.pair(rig, "1.24.4-1.9.0")
        with pytest.raises(InputError, match=r"which has 1\.24\.4-1\.9\.0, got '\.\./x'"):
            dml_linux.find_dml_runtime(str(rig), {}, runtime="../x")

    def test_copy(self, rig):
        """The copy of opmap in the rig works as a worker."""
        command = [sys.executable, "-P", str(rig / "work" / dml_linux.find_dml_runtime(str(rig), {})[-1])]
        with WorkerProvider(CPU, command=command) as worker:
            judge = Judge(Provider(CPU, None, "hardware", worker))
            assert "pass" == judge(next(catalogue("smoke"))).verdict

    @pytest.mark.parametrize("make", [lambda d: None, lambda d: (d / "manifest.json").write_text("[]")])
    def test_not_a_rig(self, tmp_path, make):
        make(tmp_path)
        for named, option in (
            ((str(tmp_path), {}), "--dml-runtime"),
            ((None, {"OPMAP_DML_RUNTIME": str(tmp_path)}), "OPMAP_DML"),
        ):
            with pytest.raises(InputError, match=rf"{option}.* must name a folder that"):
                dml_linux.find_dml_runtime(*named)

    def test_rig_does_not_start(self, rig):
        (rig / "dml_linux.py").write_text("import sys; sys.exit('dml_linux: needs root')")
        with pytest.raises(ProviderMissing, match=r"does not start: .*needs root"):
            open_provider("dml", dml_runtime=str(rig))

    def test_rig_without_directml(self, rig):
        """The rig's script runs this Python, whose ONNX Runtime has no DirectML EP."""
        program = (
            "import os, sys; os.chdir(sys.argv[2] + '/work'); os.execv(sys.executable, [sys.executable, *sys.argv[4:]])"
        )
        (rig / "dml_linux.py").write_text(program)
        with pytest.raises(ProviderMissing, match="DmlExecutionProvider is not in the worker's ONNX Runtime"):
            open_provider("auto", dml_runtime=str(rig))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a rig is built on Linux only")
@pytest.mark.skipif(not TOOL.is_file(), reason="only the tests are here")
class TestSetup:
    """How a rig is built inside a company's network: what its steps run, and with which environment."""

    @pytest.fixture
    def tool(self, monkeypatch, tmp_path):
        """The steps of setup, on a machine without proxies. They run nothing: their commands are in `calls`."""
        monkeypatch.syspath_prepend(str(TOOL.parent))
        tool, command_line = import_module("set_up"), import_module("dml_linux")
        for name in [*PROXIED, "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "PIP_CONFIG_FILE", "SUDO_USER"]:
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)
        calls = []

        def run(command, **options):
            calls.append(([str(word) for word in command], options.get("env")))
            for made in ("root.new", "work/py/Lib/site-packages"):
                (tmp_path / made).mkdir(parents=True, exist_ok=True)
            return SimpleNamespace(returncode=0)

        doubled = SimpleNamespace(**vars(subprocess) | {"run": run})
        for module in (tool, command_line, import_module("namespaces")):
            monkeypatch.setattr(module, "subprocess", doubled)
        monkeypatch.setattr("shutil.which", lambda name: f"/usr/sbin/{name}")
        monkeypatch.setattr(tool, "calls", calls, raising=False)
        monkeypatch.setattr(tool, "command_line", command_line, raising=False)
        return tool

    def stages(self, tool, folder, mirror=None):
        for made in ("root/etc/apt/sources.list.d", "root/usr/local/bin", "state"):
            (folder / made).mkdir(parents=True, exist_ok=True)
        stages = tool.Stages(tool.command_line.Rig(folder))
        stages.log, stages.mirror = None, mirror
        return stages

    def proxied(self, monkeypatch, capitals):
        for name, value in PROXIED.items():
            monkeypatch.setenv(name.upper() if capitals else name, value)

    @pytest.mark.parametrize("mirror", [None, MIRROR])
    def test_mirror(self, tool, tmp_path, mirror):
        """debootstrap gets the mirror that was named, or none: then it takes its own default."""
        tool.debian_base(self.stages(tool, tmp_path, mirror))
        ((command, _),) = tool.calls
        assert [str(tmp_path / "root.new"), *([mirror] if mirror else [])] == command[command.index(tool.SUITE) + 1 :]

    def test_mirror_of_packages(self, tool, tmp_path):
        """A step that runs later takes the mirror too."""
        stages = self.stages(tool, tmp_path, MIRROR)
        (tmp_path / "root/etc/apt/sources.list.d/debian.sources").write_text("URIs: http://old.example.org")
        tool.debian_packages(stages)
        texts = [file.read_text() for file in tool.apt_sources(tmp_path / "root") if file.is_file()]
        assert [f"deb {MIRROR} trixie main\n"] == texts

    def test_other_mirror(self, tool, tmp_path, monkeypatch):
        """A rig that was built from one mirror is not built anew for another."""
        done = []
        for mirror in (None, MIRROR):
            stages = self.stages(tool, tmp_path, mirror)
            (tmp_path / "log").mkdir(exist_ok=True)
            monkeypatch.setattr(tool, "check_host", lambda rig: None)
            monkeypatch.setattr(tool.Stages, "step", lambda self, function, *inputs: done.append((function, inputs)))
            stages.rig.manifest.touch()
            tool.setup(stages.rig, mirror)
        assert done[:7] == done[7:]

    @pytest.mark.parametrize("capitals", [False, True])
    @pytest.mark.parametrize("step", ["debian_base", "debian_packages", "windows_packages"])
    def test_proxies(self, tool, tmp_path, monkeypatch, step, capitals):
        """debootstrap, apt inside the rig, and pip get the proxies in small letters, which all of them read."""
        self.proxied(monkeypatch, capitals)
        getattr(tool, step)(self.stages(tool, tmp_path))
        ((_, environment),) = tool.calls
        assert PROXIED.items() <= environment.items()

    def test_no_proxies(self, tool, tmp_path):
        tool.debian_packages(self.stages(tool, tmp_path))
        assert not [name for name in tool.calls[0][1] if "proxy" in name.lower()]

    @pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"])
    def test_certificates(self, tool, tmp_path, monkeypatch, variable):
        """apt inside the rig trusts what the host trusts."""
        (tmp_path / "own.pem").write_text("certificate")
        monkeypatch.setenv(variable, str(tmp_path / "own.pem"))
        tool.debian_packages(self.stages(tool, tmp_path))
        assert "certificate" == (tmp_path / "root/etc/apt/host.pem").read_text()
        script = tool.calls[0][0][-1]
        assert script.count("apt-get -o Acquire::https::CaInfo=/etc/apt/host.pem ") == 3

    @pytest.mark.parametrize("by", ["setup", "pip", "install"])
    def test_index(self, tool, tmp_path, monkeypatch, by):
        """pip gets the variables of this process."""
        monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.org/simple")
        self.run_pip(tool, tmp_path, monkeypatch, by)
        ((command, environment),) = tool.calls
        assert "install" in command
        assert "https://index.example.org/simple" == environment["PIP_INDEX_URL"]

    @pytest.mark.parametrize("by", ["setup", "pip", "install"])
    @pytest.mark.parametrize("file", [".config/pip/pip.conf", ".pip/pip.conf"])
    def test_sudo(self, tool, tmp_path, monkeypatch, by, file):
        """Under sudo, pip reads the `pip.conf` of the user who called it; a file that was named goes first."""
        place = tmp_path / "home" / file
        place.parent.mkdir(parents=True)
        place.touch()
        monkeypatch.setenv("SUDO_USER", "somebody")
        monkeypatch.setattr("os.path.expanduser", lambda path: {"~somebody": str(tmp_path / "home")}.get(path, path))
        self.run_pip(tool, tmp_path, monkeypatch, by)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/own.conf")
        self.run_pip(tool, tmp_path, monkeypatch, by)
        assert [str(place), "/own.conf"] == [environment["PIP_CONFIG_FILE"] for _, environment in tool.calls]

    def run_pip(self, tool, folder, monkeypatch, by):
        """Runs pip as a step of setup, or as one of the commands `pip` and `install`."""
        stages = self.stages(tool, folder)
        if by == "setup":
            return tool.windows_packages(stages)
        monkeypatch.setattr("os.geteuid", lambda: 0)
        stages.rig.manifest.write_text(f'{{"python": {{"version": "{tool.THIS_PYTHON}.1"}}}}')
        return tool.command_line.main([by, str(folder), "package"])

    @pytest.mark.parametrize(
        ("code", "text", "problem"),
        [
            (0, "Gather DmlExecutionProvider ok\n", None),
            (1, "Gather DmlExecutionProvider WRONG: [0]\n", None),
            (
                1,
                "Traceback:\n  File x\nRuntimeError: dml_provider_factory.cc(549):  887A0004 \n\n",
                "RuntimeError: dml_provider_factory.cc(549): 887A0004",
            ),
            (139, "", "exit code 139"),
        ],
    )
    def test_load_problem(self, tool, tmp_path, monkeypatch, code, text, problem):
        """A pair loads if an operator ran, also with a wrong result. Else the last line says why it does not."""
        (tmp_path / "log").mkdir()

        def run(rig, command, *, environment, timeout, stdout, stderr):
            assert [("PYTHONPATH", r"Z:\rig\runtimes\1.2-3.4")] == environment
            stdout.write(text)
            return code

        monkeypatch.setattr(tool, "run", run)
        assert problem == tool.load_problem(tool.command_line.Rig(tmp_path), "1.2-3.4")

    def test_pairs_in_one_line(self, tool, tmp_path):
        """A version that no wheel has is refused before anything is built."""
        with pytest.raises(tool.RigError, match=r"^--directml must be one of 1\.5\.1, .*, got '1\.11\.0'$"):
            tool.check_pairs([], ["1.11.0"])
        assert [] == [*tmp_path.iterdir()]

    @pytest.mark.parametrize("text", ["debian.example.org", "file:///srv/debian", "https://a b", "https://a'; rm"])
    def test_no_address(self, tool, tmp_path, text):
        with pytest.raises(
            tool.RigError, match=r"--mirror: must be an address, as https://debian\.example\.org/debian, got "
        ):
            tool.command_line.parse(["setup", "--mirror", text, str(tmp_path)])
        assert MIRROR == tool.command_line.parse(["setup", "--mirror", f"{MIRROR}/", str(tmp_path)]).mirror

    def test_not_a_folder(self, tool, tmp_path, monkeypatch):
        """DIR is a file: one line says what it must be."""
        monkeypatch.setattr(tool, "KEYRING", str(TOOL))
        monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine="x86_64"))
        (tmp_path / "file").touch()
        with pytest.raises(tool.RigError, match="DIR must be a new folder, an empty one or a rig"):
            tool.check_host(tool.command_line.Rig(tmp_path / "file"))


@pytest.mark.skipif(not TOOL.is_file(), reason="only the tests are here")
class TestPairs:
    """Pairs of an ONNX Runtime and a DirectML.dll: what setup takes out of wheels, and what it refuses.

    The wheels are doubles.
    """

    @pytest.fixture
    def runtimes(self, monkeypatch):
        monkeypatch.syspath_prepend(str(TOOL.parent))
        monkeypatch.delitem(sys.modules, "runtimes", raising=False)
        import runtimes

        return runtimes

    @pytest.fixture
    def pairs(self, runtimes, monkeypatch, tmp_path):
        """Pairs in a rig with ONNX Runtime 1.24.4 beside DirectML 1.15.4. `pairs.wheels` are the DLLs of its wheels."""
        site_packages = tmp_path / "site-packages"
        self.package(site_packages, self.dll("1.15.4"))
        rig = SimpleNamespace(work=tmp_path / "work", cache=tmp_path / "cache", site_packages=site_packages)
        wheels, downloads = {"==1.16.3": self.dll("1.12.1"), "==1.30.0": self.dll("1.15.4")}, []

        def download(python, pins, folder):
            name = next(name for name in wheels if name in pins.read_text(encoding="utf-8"))
            assert "--hash=sha256:" in pins.read_text(encoding="utf-8")
            self.package(folder / "content", wheels[name])
            with zipfile.ZipFile(folder / "double.whl", "w") as archive:
                for file in (folder / "content").rglob("*.*"):
                    archive.write(file, file.relative_to(folder / "content").as_posix())
            downloads.append((name, python))

        name, python, wheel, _ = runtimes.DIRECTML["1.12.1"]
        monkeypatch.setitem(runtimes.DIRECTML, "1.12.1", (name, python, wheel, runtimes.sha256(wheels["==1.16.3"])))
        for folder in (rig.work, rig.cache):
            folder.mkdir()
        pairs = runtimes.Pairs(rig, "3.12", download)
        pairs.wheels, pairs.downloads = wheels, downloads
        return pairs

    def dll(self, version):
        """A file with a version resource, as far as its reader looks."""
        major, minor, build = map(int, version.split("."))
        fixed = struct.pack("<IIII", 0xFEEF04BD, 0x10000, major << 16 | minor, build << 16)
        return b"MZ" + struct.pack("<I", 0xFEEF04BD) + "VS_VERSION_INFO".encode("utf-16le") + bytes(4) + fixed

    def package(self, folder, dll):
        (folder / "onnxruntime/capi").mkdir(parents=True)
        (folder / "onnxruntime/capi/DirectML.dll").write_bytes(dll)
        (folder / "onnxruntime/__init__.py").write_text("__version__ = 0", encoding="utf-8")

    def test_made(self, pairs, runtimes):
        """Each pair has its own DirectML.dll, read from the file itself; all other files are there once."""
        made = pairs.make([], ["1.12.1"]) + pairs.make(["1.30.0"], ["1.12.1"])
        assert ["1.24.4-1.15.4", "1.24.4-1.12.1", "1.30.0-1.15.4", "1.30.0-1.12.1"] == [folder.name for folder in made]
        versions = [runtimes.file_version((folder / runtimes.DLL).read_bytes()) for folder in made]
        assert ["1.15.4", "1.12.1", "1.15.4", "1.12.1"] == versions
        inodes = [(folder / "onnxruntime/__init__.py").stat().st_ino for folder in made]
        assert inodes[0] == inodes[1] != inodes[2] == inodes[3]
        assert (made[1] / runtimes.DLL).stat().st_ino == (made[3] / runtimes.DLL).stat().st_ino
        assert [("==1.16.3", "3.11"), ("==1.30.0", "3.12")] == pairs.downloads
        assert made[2:] == pairs.make(["1.30.0"], ["1.12.1"]), "what is there is not made again"
        assert 2 == len(pairs.downloads)
        assert [] == [*pairs.rig.cache.iterdir()]

    @pytest.mark.parametrize("believed", [False, True])
    def test_other_version(self, pairs, runtimes, monkeypatch, believed):
        """The DLL's own version counts, not that of the table: also if the sum is right."""
        pairs.wheels["==1.16.3"] = other = self.dll("1.12.0")
        if believed:
            row = runtimes.DIRECTML["1.12.1"]
            monkeypatch.setitem(runtimes.DIRECTML, "1.12.1", (*row[:3], hashlib.sha256(other).hexdigest()))
        with pytest.raises(ValueError, match=r"onnxruntime-directml==1.16.3 must be version 1.12.1, got 1.12.0"):
            pairs.make([], ["1.12.1"])
        assert ["1.24.4-1.15.4"] == [folder.name for folder in pairs.folder.iterdir()]

    def test_other_python(self, pairs):
        """A pair that was made for another Python is made anew."""
        (folder,) = pairs.make(["1.30.0"], [])
        pairs.python = "3.13"
        assert [folder] == pairs.make(["1.30.0"], [])
        assert [("==1.30.0", "3.12"), ("==1.30.0", "3.13")] == pairs.downloads

    def test_refused(self, runtimes):
        """A version that no wheel has is one line, with those known."""
        assert None is runtimes.refusal(["1.24.4", "1.28.3", "1.30.0"], list(runtimes.DIRECTML))
        assert "--directml must be one of 1.5.1, 1.8.0, " in runtimes.refusal([], ["1.12.1", "1.11.0"])
        assert runtimes.refusal(["1.2"], []).startswith("--onnxruntime must be one of 1.24.4, 1.28.3, 1.30.0, which ")

    def test_no_version(self, runtimes):
        assert None is runtimes.file_version(b"MZ") is runtimes.file_version("VS_VERSION_INFO".encode("utf-16le"))

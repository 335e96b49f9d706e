"""When an image is built again, what its context holds, and what a person reads when the build cannot start."""

import fcntl
import re
import shutil
from pathlib import Path

import pytest

from trainer_images import build

NUMERIC_USER = re.compile(r"USER [1-9]\d*:[1-9]\d*")


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A tiny repository with one image."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print()")
    (tmp_path / "other.py").write_text("")
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    (tmp_path / "Dockerfile.dockerignore").write_text("*\n!src\n**/__pycache__\n")
    return tmp_path


IMAGE = build.Image("tiny", Path("Dockerfile"))


@pytest.mark.parametrize(
    ("path", "again"),
    [
        pytest.param("src/main.py", True, id="a source file"),
        pytest.param("src/new.py", True, id="a new source file"),
        pytest.param("Dockerfile", True, id="the Dockerfile"),
        pytest.param("Dockerfile.dockerignore", True, id="the ignore file"),
        pytest.param("other.py", False, id="a file outside of the context"),
        pytest.param("src/__pycache__/main.pyc", False, id="compiled code"),
    ],
)
def test_an_image_is_built_again_when_its_inputs_change(context: Path, path: str, again: bool) -> None:
    before = build.input_key(IMAGE, context)
    (context / path).parent.mkdir(exist_ok=True)
    with (context / path).open("a") as file:
        file.write("\n# changed\n")
    assert (build.input_key(IMAGE, context) != before) is again


def test_an_image_is_built_again_when_a_file_becomes_executable(context: Path) -> None:
    before = build.input_key(IMAGE, context)
    (context / "src" / "main.py").chmod(0o755)
    assert build.input_key(IMAGE, context) != before


def test_an_image_is_built_again_when_its_arguments_change(context: Path) -> None:
    other = build.Image("tiny", Path("Dockerfile"), {"TORCH_VARIANT": "cuda"})
    assert build.input_key(other, context) != build.input_key(IMAGE, context)


def test_an_image_is_built_again_when_the_one_it_starts_from_is(context: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (context / "top").mkdir()
    (context / "top/Dockerfile").write_text("FROM tiny")
    (context / "top/Dockerfile.dockerignore").write_text("*\n")
    top = build.Image("top", Path("top/Dockerfile"), base="tiny")
    monkeypatch.setitem(build.IMAGES, "tiny", IMAGE)
    before = build.input_key(top, context)
    (context / "src" / "main.py").write_text("print(1)")
    assert build.input_key(top, context) != before


@pytest.mark.parametrize(
    ("wanted", "built"),
    [
        pytest.param(["operator"], ["operator"], id="on the base system"),
        pytest.param(["horovod"], ["pytorch", "horovod"], id="on an image of ours"),
        pytest.param(["horovod", "operator", "pytorch"], ["pytorch", "horovod", "operator"], id="none twice"),
    ],
)
def test_an_image_is_built_after_the_one_it_starts_from(wanted: list[str], built: list[str]) -> None:
    assert build.with_bases(wanted) == built


def test_an_input_that_is_gone_is_named(context: Path) -> None:
    shutil.rmtree(context / "src")
    with pytest.raises(build.BuildError, match=r"Dockerfile\.dockerignore names src"):
        build.input_key(IMAGE, context)


@pytest.mark.parametrize("image", build.IMAGES.values(), ids=lambda image: image.name)
def test_an_image_takes_only_what_it_lists(image: build.Image) -> None:
    lines = [line for line in (build.ROOT / image.ignore_file).read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"


@pytest.mark.parametrize("image", build.IMAGES.values(), ids=lambda image: image.name)
def test_everything_a_dockerfile_copies_is_in_its_context(image: build.Image) -> None:
    inputs = build.input_files(image)
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (build.ROOT / image.dockerfile).read_text(), re.MULTILINE)
    sources = [Path(source) for copy in copies for source in copy.split()]
    assert sources
    assert [s for s in sources if not any(path == s or s in path.parents for path in inputs)] == []


@pytest.mark.parametrize("image", build.IMAGES.values(), ids=lambda image: image.name)
def test_an_image_runs_as_a_numbered_user_without_privileges(image: build.Image) -> None:
    last_stage = (build.ROOT / image.dockerfile).read_text().split("\nFROM ")[-1]
    users = re.findall(r"^USER .*$", last_stage, re.MULTILINE)
    assert len(users) == 1
    assert NUMERIC_USER.fullmatch(users[0])


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        pytest.param({}, [], id="nothing set"),
        pytest.param(
            {"SSL_CERT_FILE": "/ca.pem"}, ["--volume=/ca.pem:/etc/ssl/certs/ca-certificates.crt:ro"], id="certificates"
        ),
        pytest.param({"PIP_INDEX_URL": "https://index"}, ["--build-arg=PIP_INDEX_URL=https://index"], id="own index"),
    ],
)
def test_what_a_build_takes_from_the_machine(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], options: list[str]
) -> None:
    for name in ("SSL_CERT_FILE", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert list(build.host_options()) == options


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        pytest.param({"DTJ_CACHE_DIR": "/own"}, "/own", id="its own variable"),
        pytest.param({"XDG_CACHE_HOME": "/xdg"}, "/xdg/dtj", id="the user's cache folder"),
        pytest.param({"HOME": "/home/me"}, "/home/me/.cache/dtj", id="no cache folder set"),
    ],
)
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str) -> None:
    for name in ("DTJ_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert build.cache_folder() == Path(folder)


def test_a_second_build_is_refused(tmp_path: Path) -> None:
    store = build.Store(tmp_path)
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(build.BuildError, match="another build uses"), build.only_one(store):
            pass


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match="apt-get install buildah mmdebstrap util-linux"):
        build.check_machine()


def test_an_unknown_image_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["build", "pytoch"])
    with pytest.raises(SystemExit, match="2"):
        build.main()
    assert "no image is named pytoch; there are pytorch, horovod, tensorflow, jax, operator" in capsys.readouterr().err

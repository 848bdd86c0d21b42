"""Builds the package for pip (PEP 517, PEP 660) with the standard library alone.

A wheel is a zip of the files and three texts about them. Own code instead of setuptools, so that
`pip install ./python` needs neither a network nor another package. libshoal.so goes in when it is
there: $SHOAL_LIBRARY, or that of the checkout's build folder.
"""
import base64
import hashlib
import os
import pathlib
import re
import sysconfig
import tarfile
import zipfile

here = pathlib.Path(__file__).resolve().parent


def _field(name):
    return re.search(rf'^{name} = "([^"]*)"', (here / "pyproject.toml").read_text(), re.M)[1]


NAME, VERSION = _field("name"), _field("version")
METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: {_field("description")}
License: Apache-2.0
Requires-Python: {_field("requires-python")}
"""


def _library():
    chosen = os.environ.get("SHOAL_LIBRARY") or here.parent / "build/libshoal.so"
    path = pathlib.Path(chosen)
    return path if path.is_file() else None


def _tag():
    """With the library inside it is for this platform, else for all."""
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform()) if _library() else "any"
    return f"py3-none-{platform}"


def _sources():
    return {f"{NAME}/{path.name}": path.read_bytes() for path in sorted((here / NAME).iterdir())
            if path.suffix == ".py" or path.name == "py.typed"}


def _write(folder, files):
    info = f"{NAME}-{VERSION}.dist-info"
    files[f"{info}/METADATA"] = METADATA.encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: shoal\nRoot-Is-Purelib: "
                              f"{str(_library() is None).lower()}\nTag: {_tag()}\n").encode()
    record = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(data)}\n")
    record.append(f"{info}/RECORD,,\n")
    files[f"{info}/RECORD"] = "".join(record).encode()
    name = f"{NAME}-{VERSION}-{_tag()}.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = _sources()
    library = _library()
    if library:
        files[f"{NAME}/libshoal.so"] = library.read_bytes()
    return _write(wheel_directory, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {f"{NAME}.pth": f"{here}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    name = f"{NAME}-{VERSION}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as archive:
        for part in ("pyproject.toml", "build_wheel.py", *_sources()):
            archive.add(here / part, f"{NAME}-{VERSION}/{part}")
    return name

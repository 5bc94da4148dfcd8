"""The build backend (PEP 517): a wheel of this folder, made with the standard library, so that installing downloads nothing."""
import base64
import hashlib
import os
import zipfile

NAME, VERSION = "countersign", "0.1.0"
INFO = "%s-%s.dist-info" % (NAME, VERSION)
METADATA = """Metadata-Version: 2.1
Name: %s
Version: %s
Summary: Client of Countersign: ask people, delegate work, serve as an agent
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: verify
Requires-Dist: cryptography>=41; extra == "verify"
Description-Content-Type: text/markdown

""" % (NAME, VERSION)
WHEEL = "Wheel-Version: 1.0\nGenerator: countersign\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _files(is_editable):
    if is_editable:
        here = os.path.dirname(os.path.abspath(__file__))
        return {"%s.pth" % NAME: (here + "\n").encode("utf-8")}
    return {"%s/%s" % (NAME, one): _read(os.path.join(NAME, one)) for one in sorted(os.listdir(NAME)) if one.endswith((".py", ".typed"))}


def _wheel(folder, is_editable=False):
    files = _files(is_editable)
    files[INFO + "/METADATA"] = METADATA.encode("utf-8") + _read("README.md")
    files[INFO + "/WHEEL"] = WHEEL.encode("utf-8")
    record = "".join("%s,sha256=%s,%d\n" % (path, _digest(data), len(data)) for path, data in files.items())
    files[INFO + "/RECORD"] = (record + INFO + "/RECORD,,\n").encode("utf-8")
    name = "%s-%s-py3-none-any.whl" % (NAME, VERSION)
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), data)
    return name


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode("ascii").rstrip("=")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, is_editable=True)


def build_sdist(sdist_directory, config_settings=None):
    import tarfile

    name = "%s-%s" % (NAME, VERSION)
    with tarfile.open(os.path.join(sdist_directory, name + ".tar.gz"), "w:gz") as archive:
        for path in ["pyproject.toml", "README.md", "build_wheel_here.py", NAME]:
            archive.add(path, "%s/%s" % (name, path))
    return name + ".tar.gz"


get_requires_for_build_wheel = get_requires_for_build_editable = get_requires_for_build_sdist = lambda config_settings=None: []

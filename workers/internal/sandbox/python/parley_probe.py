"""Finds out what a sandbox's interpreter has, and makes what it is to be given. Runs in a sandbox as any program does."""

import glob
import os
import py_compile
import shutil
import sys

for name in glob.glob("parley_*.py"):
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(name, name + "c", dfile=name, doraise=True, invalidation_mode=mode)

found = {}
for folder in sys.path:
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        name, dot, kind = entry.rpartition(".")
        if kind in ("dist-info", "egg-info") and "-" in name:
            package, version = name.split("-")[:2]
            found.setdefault(package.lower().replace("_", "-"), version)
print("python", ".".join(map(str, sys.version_info[:3])))
for package, version in sorted(found.items()):
    print(package, version)

try:
    import matplotlib
    from matplotlib import font_manager  # noqa: F401  the import creates matplotlib's list of fonts
except Exception as error:
    print(error, file=sys.stderr)
else:
    for path in glob.glob(os.path.join(matplotlib.get_cachedir(), "fontlist-*.json")):
        shutil.copy(path, ".")

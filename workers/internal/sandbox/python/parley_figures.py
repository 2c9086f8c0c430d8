"""What matplotlib's figures come to where there is no screen: showing saves them, and so does the program's end."""

import functools
import importlib.util
import os
import sys

_attached = []


def spec():
    """Finds pyplot, and changes it once it is loaded."""
    found = importlib.util.find_spec("matplotlib.pyplot")
    load = found.loader.exec_module

    def exec_module(module):
        load(module)
        attach(module)

    found.loader.exec_module = exec_module
    return found


def attach(pyplot):
    figure = pyplot.Figure
    save = figure.savefig

    @functools.wraps(save)
    def savefig(self, fname, *args, **kwargs):
        save(self, fname, *args, **kwargs)
        mark_saved(self, fname)

    def show(*args, **kwargs):
        """Saves the open figures as figure-1.png and so on, and closes them, as closing their windows would."""
        save_open()
        pyplot.close("all")

    figure.savefig = savefig
    pyplot.show = show
    _attached[:] = [pyplot, save]


def mark_saved(figure, target):
    """Figures that were saved to a file are not saved again. One that we had saved before is theirs now."""
    if not isinstance(target, (str, os.PathLike)) and not isinstance(getattr(target, "name", None), str):
        return
    figure._parley_saved = True
    ours = getattr(figure, "_parley_file", None)
    if ours and os.path.abspath(os.fspath(getattr(target, "name", target))) != ours:
        figure._parley_file = None
        try:
            os.unlink(ours)
        except OSError:
            pass


def save_open():
    """Saves the open figures that show something and were not saved."""
    if not _attached:
        return
    pyplot, save = _attached
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if getattr(figure, "_parley_saved", False) or not (figure.get_axes() or figure.texts or figure.images):
            continue
        name = free_name()
        try:
            save(figure, name, bbox_inches="tight")
        except Exception as error:
            print(f"{os.path.basename(name)} cannot be saved: {error}", file=sys.stderr)
            continue
        figure._parley_saved, figure._parley_file = True, name


def free_name():
    number = 1
    while os.path.lexists(f"/work/figure-{number}.png"):
        number += 1
    return f"/work/figure-{number}.png"

"""Prints the methods of both clients, as group.method, and the names that shadow builtins."""

import builtins
import inspect
import json

import parley
from parley._async import AsyncGroup
from parley._group import Group


def methods(client, kind):
    for group, value in vars(client).items():
        if isinstance(value, kind):
            for name in dir(type(value)):
                if name == "__call__" or not name.startswith("_"):
                    yield f"{group}.{'send' if name == '__call__' else name}", getattr(type(value), name)


sync = dict(methods(parley.Parley(api_key="ak_x"), Group))
names = {argument: f"{name}({argument})" for name, method in sync.items() for argument in inspect.signature(method).parameters}
names |= {name: f"parley.{name}" for name in parley.__all__} | {name: f"parley.types.{name}" for name in parley.types.__all__}
shadowed = [where for name, where in names.items() if hasattr(builtins, name) and not name.startswith("__")]
client = parley.AsyncParley(api_key="ak_x")
asynchronous = [
    f"{group}.{'send' if name == '__call__' else name}" for group, value in vars(client).items() if isinstance(value, AsyncGroup)
    for name in dir(type(value)) if name == "__call__" or not name.startswith("_")
]
print(json.dumps({"sync": list(sync), "async": asynchronous, "shadowed": shadowed}))

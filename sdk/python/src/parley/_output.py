"""Schemas of answers: JSON Schemas and Pydantic classes. Pydantic is not a dependency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._errors import RunFailedError
from .types import Run


def json_schema(schema: Any) -> dict[str, Any]:
    """Return the JSON Schema of `schema`, which is a dict, a Pydantic model, or a Pydantic
    `TypeAdapter`.
    """
    if isinstance(schema, Mapping):
        return dict(schema)
    for name in ("model_json_schema", "json_schema"):
        write = getattr(schema, name, None)
        if callable(write):
            return dict(write())
    raise TypeError("schema must be a JSON Schema, a Pydantic model or a TypeAdapter")


def parsed(run: Run, schema: Any) -> Any:
    """Return the data of a completed run, as an object of the schema's class if it has one.

    For any other run it raises `RunFailedError`.
    """
    output = run.get("output")
    if run["status"] != "completed" or output is None or "data" not in output:
        raise RunFailedError(run)
    for name in ("model_validate", "validate_python"):
        validate = getattr(schema, name, None)
        if callable(validate):
            return validate(output["data"])
    return output["data"]

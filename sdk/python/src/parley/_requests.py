"""Requests with a body: JSON, and the form that uploads a file."""

from __future__ import annotations

import io
import json
import mimetypes
import os
import secrets
from collections.abc import Mapping
from typing import IO, Any

from ._transport import Request
from .types import ModelSettings


def json_request(
    method: str,
    path: str,
    query: Mapping[str, Any],
    body: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
    *,
    repeatable: bool = True,
    nulls: bool = False,
) -> Request:
    """Return a request with a JSON body. Fields that are None are omitted unless `nulls` is true.
    """
    given = {name: value for name, value in body.items() if nulls or value is not None}
    # An unpaired surrogate is escaped instead of rejected. The service then reports the field that
    # contains it.
    raw = json.dumps(given, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")
    return Request(method, path, query, {**(headers or {}), "Content-Type": "application/json"}, raw, repeatable)


def read_file(file: str | os.PathLike[str] | bytes | IO[bytes]) -> tuple[str, bytes]:
    """Return the name and the content of a path, of bytes or of an open file."""
    if isinstance(file, (bytes, bytearray, memoryview)):
        return "", bytes(file)
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as opened:
            return os.path.basename(os.fspath(file)), opened.read()
    data = file.read()
    if isinstance(data, str):
        raise TypeError("file must be opened in binary mode: open(path, 'rb')")
    name = getattr(file, "name", "")
    return os.path.basename(name) if isinstance(name, str) else "", data


def form_request(
    name: str,
    data: bytes,
    mime_type: str | None,
    metadata: Mapping[str, str] | None,
    method: str = "POST",
    query: Mapping[str, Any] | None = None,
) -> Request:
    """Return the form that uploads a file."""
    if not name:
        raise ValueError("name is required for this file; pass name=…")
    boundary = secrets.token_hex(16)
    quoted = name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    kind = mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    body = io.BytesIO()
    if metadata is not None:
        body.write(f'--{boundary}\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{json.dumps(metadata)}\r\n'.encode())
    body.write(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'.encode(errors="surrogatepass"))
    body.write(f"Content-Type: {kind}\r\n\r\n".encode() + data + f"\r\n--{boundary}--\r\n".encode())
    return Request(method, "/api/knowledge", query or {}, {"Content-Type": f"multipart/form-data; boundary={boundary}"}, body.getvalue())


def with_settings(body: Mapping[str, Any], settings: ModelSettings | None) -> dict[str, Any]:
    """Return the fields of a body that are not None. Model settings are included even if they are
    None.
    """
    return {**{name: value for name, value in body.items() if value is not None}, **(settings or {})}

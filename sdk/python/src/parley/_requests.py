"""Requests with a body: of JSON, and the form that uploads a file."""

from __future__ import annotations

import io
import json
import mimetypes
import os
import secrets
from collections.abc import Mapping
from typing import IO, Any

from ._transport import Request


def json_request(
    method: str,
    path: str,
    query: Mapping[str, Any],
    body: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
    *,
    repeatable: bool = True,
) -> Request:
    """Give a request with a JSON body, of which what is None is left out."""
    given = {name: value for name, value in body.items() if value is not None}
    # Half a surrogate pair becomes its escape, and the service says which field it is in.
    raw = json.dumps(given, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")
    return Request(method, path, query, {**(headers or {}), "Content-Type": "application/json"}, raw, repeatable)


def read_file(file: str | os.PathLike[str] | bytes | IO[bytes]) -> tuple[str, bytes]:
    """Give name and content of a path, of bytes or of an open file."""
    if isinstance(file, (bytes, bytearray, memoryview)):
        return "", bytes(file)
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as opened:
            return os.path.basename(os.fspath(file)), opened.read()
    data = file.read()
    if isinstance(data, str):
        raise TypeError("open the file for reading bytes: open(path, 'rb')")
    name = getattr(file, "name", "")
    return os.path.basename(name) if isinstance(name, str) else "", data


def form_request(name: str, data: bytes, mime_type: str | None, metadata: Mapping[str, str] | None) -> Request:
    """Give the form that uploads a file."""
    if not name:
        raise ValueError("give the name of the document: name=…")
    boundary = secrets.token_hex(16)
    quoted = name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    kind = mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    body = io.BytesIO()
    if metadata is not None:
        body.write(f'--{boundary}\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{json.dumps(metadata)}\r\n'.encode())
    body.write(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'.encode(errors="surrogatepass"))
    body.write(f"Content-Type: {kind}\r\n\r\n".encode() + data + f"\r\n--{boundary}--\r\n".encode())
    return Request("POST", "/api/knowledge", {}, {"Content-Type": f"multipart/form-data; boundary={boundary}"}, body.getvalue())

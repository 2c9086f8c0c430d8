"""The documents that agents search."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import IO, Literal

from ._errors import WaitEndedError
from ._group import Group, require_id
from ._reading import Page
from ._requests import form_request, json_request, read_file
from ._transport import Request
from .types import Deleted, Document, DocumentPage, DocumentPassages, FoundList


class Knowledge(Group):
    """Documents that agents search and cite."""

    def upload(
        self,
        file: str | os.PathLike[str] | bytes | IO[bytes] | None = None,
        *,
        name: str | None = None,
        content: str | None = None,
        url: str | None = None,
        mime_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Document:
        """Add a document: a path, bytes, a file opened in binary mode, a text as `content`, or a
        `url` to fetch.

        The service then processes the document; see `wait`. Adding the same bytes again returns the
        same document.
        """
        if sum(given is not None for given in (file, content, url)) != 1:
            raise ValueError("pass exactly one of file, content and url")
        if file is None:
            body = {"name": name, "content": content, "url": url, "mimeType": mime_type, "metadata": metadata}
            return self._http.call(Document, json_request("POST", "/api/knowledge", {}, body))
        known, data = read_file(file)
        return self._http.call(Document, form_request(name or known, data, mime_type, metadata))

    def get(self, document_id: str) -> Document:
        """Read a document's state and progress."""
        return self._http.call(Document, Request("GET", "/api/knowledge", {"id": require_id(document_id)}))

    def wait(self, document_id: str, *, timeout: float | None = None) -> Document:
        """Wait until a document is `ready` or `failed`, and return it.

        After `timeout` seconds it raises `WaitEndedError`.
        """
        deadline = self._client.runs._deadline(timeout)
        pause = 0.1
        while True:
            document = self.get(document_id)
            if document["status"] in ("ready", "failed"):
                return document
            if self._http.clock() >= deadline:
                raise WaitEndedError(f"waiting ended before document {document_id} was ready; its status is {document['status']}", document_id=document_id)
            self._http.pause(min(pause, max(0.0, deadline - self._http.clock())))
            pause = min(2.0, pause * 1.5)

    def list(
        self,
        *,
        q: str | None = None,
        status: Literal["queued", "processing", "ready", "failed"] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Document]:
        """List documents, newest first. `q` is a part of their names."""
        return self._page(Document, "/api/knowledge", {"q": q, "status": status, "limit": limit, "cursor": cursor})

    def search(
        self,
        query: str,
        *,
        document_ids: Sequence[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> FoundList:
        """Find passages, best first, as agents do: in all ready documents, or in some of them."""
        having = [f"{key}:{value}" for key, value in metadata.items()] if metadata else None
        asked = {"query": query, "documentId": document_ids, "metadata": having, "limit": limit}
        return self._http.call(FoundList, Request("GET", "/api/knowledge", asked))

    def download(self, document_id: str) -> bytes:
        """Download a document's original."""
        return self._http.content(Request("GET", "/api/knowledge", {"id": require_id(document_id), "content": "1"}))

    def page(self, document_id: str, page: int) -> DocumentPage:
        """Read the text of a page, from 1."""
        return self._about(DocumentPage, "GET", "/api/knowledge", document_id, {"page": page})

    def passages(self, document_id: str, chunk: int) -> DocumentPassages:
        """Read a passage by its number, from 0, with the passages around it."""
        return self._about(DocumentPassages, "GET", "/api/knowledge", document_id, {"chunk": chunk})

    def update(
        self,
        document_id: str,
        file: str | os.PathLike[str] | bytes | IO[bytes] | None = None,
        *,
        name: str | None = None,
        content: str | None = None,
        url: str | None = None,
        mime_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Document:
        """Change a document, or replace its content.

        Omitted fields keep their values. A document with new content or a new name is
        processed again.
        """
        query = {"id": require_id(document_id)}
        if file is None:
            body = {"name": name, "content": content, "url": url, "mimeType": mime_type, "metadata": metadata}
            return self._http.call(Document, json_request("PUT", "/api/knowledge", query, body))
        known, data = read_file(file)
        return self._http.call(Document, form_request(name or known, data, mime_type, metadata, "PUT", query))

    def retry(self, document_id: str) -> Document:
        """Process a failed or ready document again."""
        return self._http.call(Document, Request("POST", "/api/knowledge", {"id": require_id(document_id), "action": "retry"}))

    def delete(self, document_id: str) -> Deleted:
        """Delete a document. Its passages are no longer found or cited."""
        return self._http.call(Deleted, Request("DELETE", "/api/knowledge", {"id": require_id(document_id)}))

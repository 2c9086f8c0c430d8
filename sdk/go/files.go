package parley

import (
	"context"
	"mime"
	"net/http"
	"net/url"
)

// File is a downloaded file. The content is in memory as a whole; it has at most 64 MiB.
type File struct {
	Name     string // empty if the service sent none
	MimeType string
	Content  []byte
}

// Files uploads files for messages, and downloads files that runs created. It reads files that the
// caller may read: those of the caller's runs or, for admins, those of all runs.
type Files struct{ group }

// Upload stores an image or a document for the Attachments of a message. If sessionID is not empty,
// the file can be attached only in that session. If mimeType is empty, the type is detected from
// the content and the name.
func (f Files) Upload(ctx context.Context, name, mimeType string, content []byte, sessionID string) (*UploadedFile, error) {
	query := url.Values{}
	set(query, "name", name)
	set(query, "sessionId", sessionID)
	if mimeType == "" {
		mimeType = "application/octet-stream"
	}

	response, err := f.client.Call(ctx, Request{
		Method: http.MethodPost, Path: "/api/files", Query: query, Header: map[string]string{"Content-Type": mimeType},
		Body: content, Keyed: true,
	})
	if err != nil {
		return nil, err
	}
	var file UploadedFile
	return &file, response.Into(&file)
}

// Download reads a file by its id in the output of a tool call. The error is an *APIError with the
// status 404 if the file does not exist or was erased.
func (f Files) Download(ctx context.Context, id string) (*File, error) {
	return download(ctx, f.group, "/api/files", id, url.Values{})
}

// download returns the content, the name and the media type of a file. download changes query.
func download(ctx context.Context, g group, path, id string, query url.Values) (*File, error) {
	if id == "" {
		return nil, errNoID
	}
	query.Set("id", id)

	response, err := g.client.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return nil, err
	}

	_, disposition, err := mime.ParseMediaType(response.Header.Get("Content-Disposition"))
	if err != nil {
		disposition = nil // the file is returned without a name if the name cannot be parsed
	}
	return &File{Name: disposition["filename"], MimeType: response.Header.Get("Content-Type"), Content: response.Body}, nil
}

// Sources reads the texts that answers cite. Every member of the organization may read them.
type Sources struct{ group }

// Get reads the text of a source. The argument id is the sourceId of a citation. The text is as it
// was when a run read the source, so it can be compared with the text that an answer cites.
func (s Sources) Get(ctx context.Context, id string) (*Source, error) {
	return one[Source](ctx, s.group, "/api/sources", id)
}

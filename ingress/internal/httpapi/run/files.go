package run

import (
	"context"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/filelink"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/rundb"
)

const (

	// FileCaching is the Cache-Control header of files created by runs. The content of such a file
	// never changes, so clients may cache it. The time is short, because a reader may lose the
	// permission to read the file.
	FileCaching = "private, max-age=3600, immutable, no-transform"

	// linkCaching is the Cache-Control header of attachments and of files opened by a link.
	// Browsers must revalidate each time, so that an erased file is no longer shown.
	linkCaching = "private, no-cache, no-transform"
)

// Files handles requests for files and sources of runs. Files are created by tool calls, or
// attached to messages. The handler of package run and that of package openai use it.
type Files struct{ *Deps }

// Files returns the handler of requests for files and sources. The handler shares the dependencies
// of h.
func (h *Handler) Files() Files { return Files{&h.Deps} }

// errNoFile returns the error for a file that does not exist or that the caller may not read. Both
// cases have the same error, so that ids reveal nothing.
func errNoFile() error { return apierr.Missing() }

// get handles GET /api/files?id=: it responds with the content of a run's file. Ranges and
// conditional requests are supported.
func (h Files) get(c *gin.Context) {
	fileID, err := httpx.RequiredID(c, id.File)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	h.Send(c, fileID)
}

// Send responds with the content of a run's file, if the caller may read the run. Otherwise, and if
// the id is malformed, it responds with not_found. The response takes a download slot until it has
// been sent.
func (h Files) Send(c *gin.Context, fileID string) {
	if !id.Valid(id.File, fileID) {
		httpx.Fail(c, errNoFile())
		return
	}
	slot, err := h.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.Downloads.Leave(slot)

	file, content, err := h.open(c, fileID)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer func() { _ = content.Close() }() // opened for reading only, so no data can be lost

	caching := FileCaching
	if file.CallID == domain.AttachmentCall {
		caching = linkCaching // the worker that executes the run may replace an image by a converted one
	}
	transfer.SendFile(c, file, caching, content, slot, h.SessionCheck(c))
}

// OpenLink handles GET /files?token=: it responds with the content of a run's file to any client
// that has a valid link to it; see package filelink. The link proves the permission. The link works
// until it expires or the run is erased.
func (h Files) OpenLink(c *gin.Context) {
	token, _ := httpx.QueryValue(c, filelink.Token, &httpx.Problems{})
	org, fileID, err := h.Links.Read(token)
	if err != nil {
		httpx.Fail(c, apierr.Wrap(apierr.NotFound, err, "%s", filelink.ErrInvalid.Error()))
		return
	}

	// All links to a file count as one credential, so their downloads share its slots.
	owner := transfer.Owner{Organization: org, Credential: "link:" + fileID, Client: h.Auth.DemoClient(c.Request)}
	slot, err := h.Downloads.Enter(owner, http.NewResponseController(c.Writer))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.Downloads.Leave(slot)

	ctx := c.Request.Context()
	file, content, err := h.openFor(ctx, org, fileID, func(runID string) (rundb.StoredRun, error) {
		run, err := h.RunsDB.ShortRun(ctx, org, "", runID)
		httpx.SetLogIDs(c, run.Target(), runID, run.Run.SessionID)
		return run, err
	})
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer func() { _ = content.Close() }() // opened for reading only, so no data can be lost

	transfer.SendLinked(c, file, linkCaching, content, slot)
}

// open opens a file and sets the ids for the log line. It returns not_found if the run of the file
// is erased or the caller may not read it. The caller must close the content.
func (h Files) open(c *gin.Context, fileID string) (domain.File, io.ReadSeekCloser, error) {
	// A caller who may read the run may read its files.
	return h.openFor(c.Request.Context(), httpx.Caller(c).OrganizationID, fileID, func(runID string) (rundb.StoredRun, error) {
		return (&Handler{*h.Deps}).findRun(c, runID)
	})
}

// openFor opens a file of an organization. find returns the run of the file, or an error if the
// caller may not read that run. openFor returns not_found if the run is erased. The caller must
// close the content. An upload that no run uses is not found.
func (h Files) openFor(ctx context.Context, org, fileID string, find func(runID string) (rundb.StoredRun, error)) (
	file domain.File, content io.ReadSeekCloser, err error,
) {
	file, content, err = h.BlobsDB.OpenFile(ctx, org, fileID)
	if err != nil {
		return file, nil, err
	}

	// Uploads have no run that could permit the read.
	if file.RunID == "" { // an upload that is not attached to a run yet
		_ = content.Close() // opened for reading only, so no data can be lost
		return file, nil, errNoFile()
	}

	run, err := find(file.RunID)
	if err == nil && run.Erased {
		err = errNoFile()
	}
	if err != nil {
		_ = content.Close() // opened for reading only, so no data can be lost
		return file, nil, err
	}
	return file, content, nil
}

// find is the Finder for files. It returns not_found for a file that the caller may not read. It
// opens the content and closes it again, because opening makes all checks.
func (h Files) find(c *gin.Context, fileID string) error {
	_, content, err := h.open(c, fileID)
	if err == nil {
		_ = content.Close() // opened for reading only, so no data can be lost
	}
	return err
}

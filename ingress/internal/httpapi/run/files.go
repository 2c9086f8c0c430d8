package run

import (
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
)

const (

	// FileCaching is the Cache-Control header of files. The content with an id never changes, but
	// the permission to read it may.
	FileCaching = "private, max-age=3600, immutable, no-transform"
)

// getFile handles GET /api/files?id=: the content of a file that a run created, for callers who may
// read the run.
func (h *Handler) getFile(c *gin.Context) {
	fileID, err := httpx.RequiredID(c, id.File)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	slot, err := h.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.Downloads.Leave(slot)

	file, content, err := h.openFile(c, fileID)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer func() { _ = content.Close() }() // read only: nothing can be lost

	transfer.SendFile(c, file, FileCaching, content, slot, h.SessionCheck(c))
}

// openFile opens a file. It returns not_found if the caller may not read the file's run, or if the
// run is erased.
func (h *Handler) openFile(c *gin.Context, fileID string) (file domain.File, content io.ReadSeekCloser, err error) {
	file, content, err = h.BlobsDB.OpenFile(c.Request.Context(), httpx.Caller(c).OrganizationID, fileID)
	if err != nil {
		return file, nil, err
	}

	// Callers who may read the run may read its files.
	run, err := h.findRun(c, file.RunID)
	if err == nil && run.Erased {
		err = apierr.New(apierr.NotFound, "no such resource")
	}
	if err != nil {
		_ = content.Close() // read only: nothing can be lost
		return file, nil, err
	}
	return file, content, nil
}

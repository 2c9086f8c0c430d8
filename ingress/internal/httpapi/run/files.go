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

	// FileCaching says how files are kept. The content of an id never changes; what may change is who may see it.
	FileCaching = "private, max-age=3600, immutable, no-transform"
)

// getFile is GET /api/files?id=: the content of a file that a run has made, for whoever may see the run.
func (h *Handler) getFile(c *gin.Context) {
	fileID, err := httpx.RequiredID(c, id.File)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	place, err := h.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.Downloads.Leave(place)
	file, content, err := h.openFile(c, fileID)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer func() { _ = content.Close() }() // nothing was written to it
	transfer.SendFile(c, file, FileCaching, content, place, h.Permit(c))
}

// openFile opens a file whose run the caller may read. Of others there is none, and none of an erased run.
func (h *Handler) openFile(c *gin.Context, fileID string) (file domain.File, content io.ReadSeekCloser, err error) {
	file, content, err = h.BlobsDB.OpenFile(c.Request.Context(), httpx.Caller(c).OrganizationID, fileID)
	if err != nil {
		return file, nil, err
	}
	run, err := h.findRun(c, file.RunID)
	if err == nil && run.Erased {
		err = apierr.New(apierr.NotFound, "no such resource")
	}
	if err != nil {
		_ = content.Close() // as above
		return file, nil, err
	}
	return file, content, nil
}

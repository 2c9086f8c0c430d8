package run

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
)

const (
	maxFileName  = 255     // characters
	maxForm      = 1 << 20 // bytes of a form besides its file
	maxFormParts = 8
	maxBoundary  = 70 // RFC 2046
	maxField     = 4 << 10
)

// uploadView is the response to an upload.
type uploadView struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Bytes    int64  `json:"bytes"`
}

// upload handles POST /api/files: it stores the body, or the file of a form, for a later message.
func (h Files) upload(c *gin.Context) {
	if visits(httpx.Caller(c)) {
		httpx.Fail(c, apierr.New(apierr.DemoRestricted, "visitors cannot upload files"))
		return
	}
	if c.Request.ContentLength == 0 {
		httpx.Fail(c, apierr.Invalid(httpx.BodyPath, httpx.CodeRequired, "a file is required"))
		return
	}

	found := &httpx.Problems{}
	name, _ := httpx.QueryValue(c, "name", found)
	sessionID, _ := httpx.QueryValue(c, "sessionId", found)
	checkUpload(found, name, sessionID)
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}

	form := httpx.IsForm(c.Request.Header)
	limit := int64(domain.MaxAttachmentBytes)
	if form {
		limit += maxForm
	}
	in, err := transfer.Receive(c, transfer.OwnerFor(c), h.SessionCheck(c), transfer.Step{All: h.Uploads, Max: limit})
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer in.Leave()

	var file domain.File
	if form {
		file, err = h.readForm(c, in, name, sessionID)
	} else {
		file, err = h.Files.Upload(c.Request.Context(), httpx.Caller(c), sessionID, name, c.GetHeader("Content-Type"), in)
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	in.Complete()
	httpx.WriteJSON(c, http.StatusCreated, uploadView{ID: file.ID, Name: file.Name, MIMEType: file.MIMEType, Bytes: file.Bytes})
}

// checkUpload checks the parameters of an upload. Each may be empty.
func checkUpload(found *httpx.Problems, name, sessionID string) {
	if name != "" {
		found.Name("name", name, maxFileName)
	}
	if sessionID != "" {
		httpx.CheckSession(found, "sessionId", sessionID)
	}
}

// readForm stores the file of a form. The field sessionId precedes the file, because the file is
// stored as it arrives.
func (h Files) readForm(c *gin.Context, in *transfer.Upload, name, sessionID string) (file domain.File, err error) {
	_, parameters, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	boundary := parameters["boundary"]
	if err != nil || boundary == "" || len(boundary) > maxBoundary || strings.HasSuffix(boundary, " ") {
		return file, apierr.Invalid(httpx.BodyPath, httpx.CodeInvalidValue, "must have a boundary of 1 to %d characters", maxBoundary)
	}

	parts := multipart.NewReader(in, boundary)
	for range maxFormParts {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF) && file.ID == "":
			return file, apierr.Invalid("file", httpx.CodeRequired, "is required: the form part with the file")
		case errors.Is(err, io.EOF):
			return file, nil
		case err != nil:
			return file, formError(in, err)
		}

		switch field := part.FormName(); {
		case field == "file" && file.ID != "":
			return file, apierr.Invalid("file", httpx.CodeTooLong, "must be sent only once")
		case field == "file":
			file, err = h.Files.Upload(c.Request.Context(), httpx.Caller(c), sessionID, fileNameOr(part, name), part.Header.Get("Content-Type"), part)
			if err != nil && in.Err == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				return file, err
			}
		case (field == "sessionId" || field == "name") && file.ID == "":
			var value string
			if value, err = readField(part, field); field == "name" {
				name = value
			} else {
				sessionID = value
			}
		default:
			err = apierr.Invalid(httpx.BodyPath, httpx.CodeUnknown, "the parts of the form are name, sessionId and then file")
		}
		if err != nil {
			return file, formError(in, err)
		}
	}
	return file, apierr.Invalid(httpx.BodyPath, httpx.CodeTooLong, "the form must have at most %d parts", maxFormParts)
}

// readField reads a text part of a form.
func readField(part io.Reader, field string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(part, maxField+1))
	if err != nil {
		return "", err //nolint:wrapcheck // explained by formError
	}
	found := &httpx.Problems{}
	if field == "name" {
		checkUpload(found, string(text), "")
	} else {
		checkUpload(found, "", string(text))
	}
	return string(text), found.Err()
}

// formError returns the error for a form that cannot be read. An API error stays unchanged.
func formError(in *transfer.Upload, err error) error {
	switch {
	case in.Err != nil:
		return in.Err
	case errors.As(err, new(*apierr.Error)):
		return err
	default:
		return apierr.Wrap(apierr.InvalidRequest, err, "the body is not a complete form with this boundary")
	}
}

// fileNameOr returns the name, or else the file name of a part.
func fileNameOr(part *multipart.Part, name string) string {
	if name != "" {
		return name
	}
	_, parameters, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return parameters["filename"]
}

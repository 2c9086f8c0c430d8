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
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
)

const (
	maxFileName = 255     // characters
	maxForm     = 1 << 20 // maximum bytes of a form in addition to the bytes of its file
	// Maximum number of parts, including the file.
	maxFormParts = 8
	maxBoundary  = 70 // maximum length according to RFC 2046
	// Maximum bytes of a text field.
	maxField = 4 << 10
)

// uploadView is the response to an upload. The id can be used as an attachment of a message.
type uploadView struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Bytes    int64  `json:"bytes"`
}

// upload handles POST /api/files: it stores a file for a later message. The file is the body or, if
// the body is a form, the file in it. The status is 201. Visitors must name the session.
func (h Files) upload(c *gin.Context) {
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

	// The limit for the file itself is checked while the file is stored.
	if form {
		limit += maxForm
	}

	slots := h.Uploads
	if httpx.Caller(c).Visitor.ID != "" {
		slots = h.VisitorUploads
	}

	in, err := transfer.Receive(c, transfer.OwnerFor(c), h.SessionCheck(c), transfer.Step{All: slots, Max: limit})
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

// checkUpload checks the name and the session of an upload. Both may be empty. Problems are added
// to found.
func checkUpload(found *httpx.Problems, name, sessionID string) {
	if name != "" {
		found.Name("name", name, maxFileName)
	}
	if sessionID != "" {
		runbody.CheckSession(found, "sessionId", sessionID)
	}
}

// formUpload is the state of reading a form that contains one file. The fields of the form replace
// those of the query.
type formUpload struct {
	// Body of the request.
	in *transfer.Upload
	// Fields of the query, replaced by the fields of the form that were read so far.
	name, sessionID string
	file            domain.File // the stored file; the id is empty until it is stored
}

// readForm stores the file of a form. The fields sessionId and name must precede the file, because
// the file is stored while it arrives. The form may have at most maxFormParts parts.
func (h Files) readForm(c *gin.Context, in *transfer.Upload, name, sessionID string) (domain.File, error) {
	form := formUpload{in: in, name: name, sessionID: sessionID}
	_, parameters, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	boundary := parameters["boundary"]
	if err != nil || boundary == "" || len(boundary) > maxBoundary || strings.HasSuffix(boundary, " ") {
		return form.file, apierr.Invalid(httpx.BodyPath, httpx.CodeInvalidValue, "must have a boundary of 1 to %d characters", maxBoundary)
	}

	parts := multipart.NewReader(in, boundary)

	// A part is read completely before the next one, because the body is a stream.
	for range maxFormParts {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF) && form.file.ID == "":
			return form.file, apierr.Invalid("file", httpx.CodeRequired, "is required: the form part with the file")
		case errors.Is(err, io.EOF):
			return form.file, nil
		case err == nil:
			err = h.takePart(c, &form, part)
		default:
			err = formError(in, err)
		}
		if err != nil {
			return form.file, err
		}
	}
	return form.file, apierr.Invalid(httpx.BodyPath, httpx.CodeTooLong, "the form must have at most %d parts", maxFormParts)
}

// takePart reads one part of a form. It sets the fields of form, or stores the file. The error is
// an API error.
func (h Files) takePart(c *gin.Context, form *formUpload, part *multipart.Part) (err error) {
	field := part.FormName()
	if form.file.ID != "" {
		switch field {
		case "file":
			return apierr.Invalid("file", httpx.CodeTooLong, "must be sent only once")
		case "sessionId", "name":
			return apierr.Invalid(field, httpx.CodeInvalidValue, "must precede the part file, which must be the last part")
		}
	}

	switch field {
	case "file":
		kind := part.Header.Get("Content-Type")
		form.file, err = h.Files.Upload(c.Request.Context(), httpx.Caller(c), form.sessionID, fileNameOr(part, form.name), kind, part)

		// The connection has not failed, so the error concerns the file itself.
		if err != nil && form.in.Err == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
	case "sessionId":
		form.sessionID, err = readField(part, field)
	case "name":
		form.name, err = readField(part, field)
	default:
		return apierr.Invalid(httpx.BodyPath, httpx.CodeUnknown,
			"must contain only the parts name, sessionId and file, and file must be the last part")
	}
	if err != nil {
		return formError(form.in, err)
	}
	return nil
}

// readField reads and checks a part of a form that contains a text. At most maxField bytes are
// read; a longer text is a problem of its length.
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

// formError returns the error for a form that cannot be read because of err. If err is an API
// error, formError returns err. The error of the upload takes precedence, because it causes the
// other errors.
func formError(in *transfer.Upload, err error) error {
	switch {
	case in.Err != nil:
		return in.Err
	case errors.As(err, new(*apierr.Error)):
		return err
	default:
		return apierr.Wrap(apierr.InvalidRequest, err, "the body is not a complete multipart form with the declared boundary")
	}
}

// fileNameOr returns name if it is not empty. Otherwise it returns the file name of a part. The
// result is not checked; attach cleans it.
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

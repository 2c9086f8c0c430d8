package extract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	pictures "image"
	"io"
	"math"
	"slices"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/parse/pdf"
)

// pictureLimits bound a reader that renders a page.
var pictureLimits = Limits{CPU: 10 * time.Second, Wall: 15 * time.Second, Memory: 512 << 20}

// maxPictureLine is the maximum length in bytes of a line that describes a picture. The JSON form
// of every valid picture is shorter.
const maxPictureLine = 2 << 20

var errInvalidPicture = errors.New("invalid picture")

// Picture renders a page of a PDF in a sandbox. If ctx ends, the error wraps the cause. Any other
// error is a *document.Failure.
func (e *Extractor) Picture(ctx context.Context, content []byte, page int) (picture domain.PagePicture, err error) {
	l := pictureLimits.orDefaults()
	err = e.run(ctx, Document{Content: content}, order{Limits: l, Picture: page}, func(output io.Reader) (err error) {
		picture, err = readPicture(output)
		return err
	})
	return picture, err
}

// readPicture reads and validates the output of a reader that renders a page.
func readPicture(from io.Reader) (domain.PagePicture, error) {
	in := bufio.NewReaderSize(from, maxPictureLine)
	if err := greeted(in); err != nil {
		return domain.PagePicture{}, err
	}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return domain.PagePicture{}, readFailure(err)
	}

	var reply pictureReply
	if err := json.Unmarshal(line, &reply); err != nil {
		return domain.PagePicture{}, violationDetail(errNoEvent, err)
	}
	switch {
	case reply.Failure != nil:
		return domain.PagePicture{}, checkFailure(reply.Failure)
	case reply.Picture == nil || !validPicture(reply.Picture):
		return domain.PagePicture{}, violation(errInvalidPicture)
	default:
		return *reply.Picture, nil
	}
}

// validPicture reports whether a picture has the stated type and is within the limits.
func validPicture(p *domain.PagePicture) bool {
	size, format, err := pictures.DecodeConfig(bytes.NewReader(p.Data))
	if err != nil || "image/"+format != p.MIMEType || max(size.Width, size.Height) > pdf.PicturePixels || len(p.Data) > pdf.MaxPictureBytes {
		return false
	}
	if p.Words == nil || len(p.Words) > pdf.MaxPictureWords || !(p.Width > 0 && p.Height > 0 && max(p.Width, p.Height) < maxCoordinate) {
		return false
	}
	return !slices.ContainsFunc(p.Words, func(w domain.PageWord) bool { return !validWord(w) })
}

// validWord reports whether a word on a page is within the limits.
func validWord(w domain.PageWord) bool {
	return w.Text != "" && short(w.Text, pdf.MaxWordBytes) && w.Box[0] <= w.Box[2] && w.Box[1] <= w.Box[3] &&
		!slices.ContainsFunc(w.Box[:], func(side float64) bool { return math.Abs(side) > maxCoordinate })
}

package extract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"parley/shared/imageinfo"
	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/pdf"
	"parley/workers/internal/picture"
)

// ImageLimits are the limits of a reader that converts an image.
var ImageLimits = Limits{CPU: 30 * time.Second, Wall: time.Minute, Memory: 768 << 20, Files: 64 << 20}

// imagePath is the path of the converted image in the sandbox. tesseract reads the image from this
// path.
const imagePath = "/tmp/image"

const maxImageText = 64 << 10

// Image is a converted image, with the text that was recognized in it.
type Image struct {
	picture.Picture

	Text string
}

// imageHead is the line that precedes the bytes of a converted image and describes them.
type imageHead struct {
	MediaType string            `json:"mediaType,omitempty"`
	Width     int               `json:"width,omitempty"`
	Height    int               `json:"height,omitempty"`
	Bytes     int               `json:"bytes,omitempty"`
	Text      string            `json:"text,omitempty"`
	Failure   *document.Failure `json:"failure,omitempty"`
}

// Image converts an image in a sandbox: it decodes the image and encodes it again, without
// metadata. If recognize is true and tesseract is installed, it also reads the text in the image.
// If ctx ends, the error wraps the cause. Any other error is a *document.Failure.
func (e *Extractor) Image(ctx context.Context, content []byte, recognize bool) (Image, error) {
	var out Image
	o := order{Limits: ImageLimits.orDefaults(), NoOCR: e.config.NoOCR || !recognize, Image: true}
	err := e.run(ctx, Document{Content: content}, o, func(from io.Reader) (err error) {
		out, err = readImage(from)
		return err
	})
	return out, err
}

// readImage validates the output of a reader that converts an image.
func readImage(from io.Reader) (Image, error) {
	in := bufio.NewReaderSize(from, maxLine)
	if err := greeted(in); err != nil {
		return Image{}, err
	}
	head, err := readImageHead(in)
	if err != nil {
		return Image{}, err
	}
	content := make([]byte, head.Bytes)
	if _, err := io.ReadFull(in, content); err != nil {
		return Image{}, violation(errTruncated)
	}
	is, err := imageinfo.Read(bytes.NewReader(content))
	encoded := is.MediaType == imageinfo.PNG || is.MediaType == imageinfo.JPEG
	if err != nil || !encoded || is != (imageinfo.Info{MediaType: head.MediaType, Width: head.Width, Height: head.Height}) ||
		max(is.Width, is.Height) > picture.MaxSide {
		return Image{}, violation(errors.New("an image does not match its header"))
	}
	return Image{
		Picture: picture.Picture{MediaType: is.MediaType, Width: is.Width, Height: is.Height, Content: content}, Text: head.Text,
	}, nil
}

// readImageHead reads and validates the line that precedes an image. If the image could not be
// converted, it returns the failure.
func readImageHead(in *bufio.Reader) (head imageHead, err error) {
	line, err := in.ReadSlice('\n')
	switch {
	case err != nil:
		return head, readFailure(err)
	case !utf8.Valid(line) || json.Unmarshal(line, &head) != nil:
		return head, violation(errNoEvent)
	case head.Failure != nil:
		return head, checkFailure(head.Failure)
	case head.Bytes < 1 || head.Bytes > picture.MaxBytes || len(head.Text) > maxImageText || !clean(head.Text, true):
		return head, violation(errors.New("an image has an invalid header"))
	}
	return head, nil
}

// convertImage converts an image in the reader's process and writes the result.
func convertImage(o order, content []byte, w *eventWriter) error {
	made, err := convertSafely(content)
	if err != nil {
		return w.image(imageHead{Failure: imageFailure(err)}, nil)
	}

	head := imageHead{MediaType: made.MediaType, Width: made.Width, Height: made.Height, Bytes: len(made.Content)}
	if !o.NoOCR && os.WriteFile(imagePath, made.Content, 0o600) == nil {
		head.Text = parse.Clean(pdf.Recognize(context.Background(), imagePath))
	}
	return w.image(head, made.Content)
}

// convertSafely converts an image. It returns an error if a decoder panics.
func convertSafely(content []byte) (made picture.Picture, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("decoder panicked: %v", v)
		}
	}()
	return picture.Convert(content)
}

// imageFailure returns the failure for an image that could not be converted.
func imageFailure(err error) *document.Failure {
	switch {
	case errors.Is(err, imageinfo.ErrFormat):
		return &document.Failure{Code: document.Unsupported, Message: "The file is not a PNG, JPEG, WebP or GIF image."}
	case errors.Is(err, imageinfo.ErrPixels):
		return &document.Failure{Code: document.TooLarge, Message: "The image has more than 25 megapixels."}
	default:
		return &document.Failure{Code: document.Damaged, Message: "The image is damaged, or in a variant of its format that is not supported."}
	}
}

package pdf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // this import and image/png register the decoders for pictureFormats
	_ "image/png"
	"io"
	"math"
	"strconv"

	"parley/shared/domain"
	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// Limits of a picture. A picture and its words must fit into one message of the bus.
const (
	PicturePixels   = 1500      // pixels of the longer side
	MaxPictureBytes = 450 << 10 // bytes of the encoded picture
	MaxPictureWords = 3000
	MaxWordBytes    = 100

	pictureText = 48 << 10 // maximum total size of the page's words in bytes
)

// pictureFormats lists pdftoppm's options for a picture, in order of preference. A page with
// photographs may be too large in the format PNG.
var pictureFormats = []struct {
	mimeType string
	options  []string
}{
	{"image/png", []string{"-png"}},
	{"image/jpeg", []string{"-jpeg", "-jpegopt", "quality=80"}},
	{"image/jpeg", []string{"-jpeg", "-jpegopt", "quality=40"}},
}

// errPicture means that the picture is too large in every format.
var errPicture = &document.Failure{Code: document.TooLarge, Message: "The page is too large to be shown as a picture."}

// Picture returns a picture of one page of the document at path, together with the page's words.
// Pages are numbered from 1. Lengths and positions are in points, so they are valid for any size at
// which the picture is shown.
//
// The error is a *document.Failure if the page does not exist, if the document cannot be read, or
// if the picture is too large.
func Picture(ctx context.Context, path string, number int) (domain.PagePicture, error) {
	text, err := pageText(ctx, path, number)
	if err != nil {
		return domain.PagePicture{}, err
	}
	picture, size, err := renderPicture(ctx, path, number)
	if err != nil {
		return domain.PagePicture{}, err
	}

	// If the page is rotated, pdftotext and pdftoppm may report its width and height in different
	// order, so only the longer sides are compared.
	longer := max(text.width, text.height)
	if longer <= 0 {
		return domain.PagePicture{}, errDamaged
	}
	point := longer / PicturePixels
	picture.Width, picture.Height = rounded(float64(size.Width)*point), rounded(float64(size.Height)*point)
	picture.Words = pictureWords(text)
	return picture, nil
}

// pageText returns the words of a page and their positions. It fails with errDamaged if there is no
// such page.
func pageText(ctx context.Context, path string, number int) (*page, error) {
	n := strconv.Itoa(number)
	p, err := start(ctx, nil, "pdftotext", "-tsv", "-enc", "UTF-8", "-f", n, "-l", n, path, "-")
	if err != nil {
		return nil, err
	}

	text := &page{}
	err = newScanner(p.stdout, number, 1).next(text)
	_, _ = io.Copy(io.Discard, p.stdout) // the program blocks until its whole output is read
	if failed := p.finish(); failed != nil {
		return nil, failed
	}
	if errors.Is(err, io.EOF) {
		return nil, errDamaged
	}
	return text, err
}

// renderPicture renders a page in the first format in which the picture is small enough. It returns
// the picture without its words, and its size in pixels. It returns errPicture if no format is
// suitable.
func renderPicture(ctx context.Context, path string, number int) (domain.PagePicture, image.Config, error) {
	n := strconv.Itoa(number)
	for _, format := range pictureFormats {
		args := append([]string{"-f", n, "-l", n, "-scale-to", strconv.Itoa(PicturePixels), "-singlefile"}, format.options...)
		// One byte more than the limit shows that the picture is too large.
		data, err := output(ctx, MaxPictureBytes+1, nil, "pdftoppm", append(args, path)...)
		if err != nil {
			return domain.PagePicture{}, image.Config{}, err
		}
		if len(data) > MaxPictureBytes {
			continue
		}
		size, _, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			return domain.PagePicture{}, image.Config{}, fmt.Errorf("reading the size of a picture: %w", err)
		}
		return domain.PagePicture{MIMEType: format.mimeType, Data: data}, size, nil
	}
	return domain.PagePicture{}, image.Config{}, errPicture
}

// pictureWords returns the words of a page as far as the limits of a picture allow. Words without
// visible characters are omitted. The list is not nil.
func pictureWords(p *page) []domain.PageWord {
	words, size := []domain.PageWord{}, 0
	for i, w := range p.words {
		text := parse.Line(string(p.word(i)), MaxWordBytes)
		if text == "" || w.x0 > w.x1 || w.y0 > w.y1 {
			continue
		}
		if size += len(text); size > pictureText || len(words) == MaxPictureWords {
			break
		}
		words = append(words, domain.PageWord{Text: text, Box: domain.Box{rounded(w.x0), rounded(w.y0), rounded(w.x1), rounded(w.y1)}})
	}
	return words
}

// rounded rounds a length in points to tenths of a point.
func rounded(points float64) float64 { return math.Round(points*10) / 10 }

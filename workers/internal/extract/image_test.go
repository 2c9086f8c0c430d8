//go:build linux

package extract

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"parley/shared/imageinfo"
	"parley/workers/internal/document"
	"parley/workers/internal/parse/pdf/pdftest"
	"parley/workers/internal/picture"
)

func newPNG(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An image is decoded and encoded again in the sandbox. If tesseract is installed, the text in the
// image is read.
func TestImagesAreConvertedInTheSandbox(t *testing.T) {
	t.Parallel()
	e := open(t, Config{})
	largest := newPNG(t, 5000, 5000)
	got, err := e.Image(t.Context(), largest, false)
	if err != nil || got.MediaType != imageinfo.PNG || got.Width > picture.MaxSide || got.Height != got.Width || bytes.Equal(got.Content, largest) {
		t.Fatalf("%s, %d × %d, %v", got.MediaType, got.Width, got.Height, err)
	}

	if _, err := exec.LookPath("tesseract"); err != nil {
		t.Skip("NOT TESTED: text in images: there is no tesseract on this machine (install the package tesseract-ocr)")
	}
	page := imagePage(t, imaged)
	var b bytes.Buffer
	if err := png.Encode(&b, &image.Gray{Pix: page.Image, Stride: page.Width, Rect: image.Rect(0, 0, page.Width, page.Height)}); err != nil {
		t.Fatal(err)
	}
	got, err = e.Image(t.Context(), b.Bytes(), true)
	if err != nil || !strings.Contains(got.Text, "harbour master counted") {
		t.Errorf("%q, %v", got.Text, err)
	}
	if got, err = e.Image(t.Context(), b.Bytes(), false); err != nil || got.Text != "" {
		t.Errorf("without recognition: %q, %v", got.Text, err)
	}
}

// A malicious image results in a failure with a message, and the extractor can still convert other
// images.
func TestHostileImagesFail(t *testing.T) {
	t.Parallel()
	e := open(t, Config{})
	huge := newPNG(t, 10, 10)
	copy(huge[16:], "\x00\x00\xff\xff\x00\x00\xff\xff")
	for name, c := range map[string]struct {
		content []byte
		want    document.Code
	}{
		"SVG":        {[]byte("<svg onload='x'/>"), document.Unsupported},
		"PDF":        {pdftest.Pages(pdftest.Page{}).Bytes(), document.Unsupported},
		"megapixels": {huge, document.TooLarge},
		"truncated":  {newPNG(t, 300, 300)[:100], document.Damaged},
	} {
		_, err := e.Image(t.Context(), c.content, false)
		failure, is := errors.AsType[*document.Failure](err)
		if !is || c.want != "" && failure.Code != c.want || failure.Retry {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := e.Image(t.Context(), newPNG(t, 2, 2), false); err != nil {
		t.Error(err)
	}
}

// The worker accepts an image only if the image matches the description that the reader sends with
// the image.
func TestAnImageOfATakenOverReader(t *testing.T) {
	t.Parallel()
	good := string(newPNG(t, 3, 2))
	for name, out := range map[string]string{
		"nothing":       "",
		"no greeting":   `{"mediaType":"image/png"}` + "\n",
		"no head":       protocol + "\n",
		"no bytes":      protocol + `{"mediaType":"image/png","width":3,"height":2,"bytes":80}` + "\n",
		"other size":    protocol + `{"mediaType":"image/png","width":3,"height":3,"bytes":` + strconv.Itoa(len(good)) + "}\n" + good,
		"other type":    protocol + `{"mediaType":"image/jpeg","width":3,"height":2,"bytes":` + strconv.Itoa(len(good)) + "}\n" + good,
		"huge":          protocol + `{"mediaType":"image/png","width":3,"height":2,"bytes":99999999}` + "\n" + good,
		"not an image":  protocol + `{"mediaType":"image/svg+xml","width":3,"height":2,"bytes":5}` + "\n<svg>",
		"controls":      protocol + `{"mediaType":"image/png","width":3,"height":2,"text":"a\u0007","bytes":` + strconv.Itoa(len(good)) + "}\n" + good,
		"other failure": protocol + `{"failure":{"code":"quota_exceeded","message":"m"}}` + "\n",
	} {
		if got, err := readImage(strings.NewReader(out)); err == nil {
			t.Errorf("%s: %+v", name, got.Picture)
		}
	}
	whole := protocol + `{"mediaType":"image/png","width":3,"height":2,"text":"ab","bytes":` + strconv.Itoa(len(good)) + "}\n" + good
	if got, err := readImage(strings.NewReader(whole)); err != nil || string(got.Content) != good || got.Text != "ab" {
		t.Errorf("%v", err)
	}
}

package imageinfo

import (
	"bytes"
	"errors"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	t.Parallel()
	from := image.NewGray(image.Rect(0, 0, 300, 20))
	encoded := map[string]func(*bytes.Buffer) error{
		PNG: func(b *bytes.Buffer) error { return png.Encode(b, from) }, JPEG: func(b *bytes.Buffer) error { return jpeg.Encode(b, from, nil) },
		GIF: func(b *bytes.Buffer) error { return gif.Encode(b, from, nil) },
	}
	for want, encode := range encoded {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(iotest.OneByteReader(&b)); err != nil || got != (Info{MediaType: want, Width: 300, Height: 20}) {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
	}

	for name, c := range map[string]struct {
		head   string
		width  int
		height int
	}{
		"lossy":    {"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x2c\x01\x14\x00", 300, 20},
		"lossless": {"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f\x2b\xc1\x04\x00\x00\x00\x00\x00\x00", 300, 20},
		"extended": {"RIFF\x00\x00\x00\x00WEBPVP8X\x00\x00\x00\x00\x00\x00\x00\x00\x2b\x01\x00\x13\x00\x00", 300, 20},
	} {
		if got, err := Read(strings.NewReader(c.head)); err != nil || got != (Info{MediaType: WebP, Width: c.width, Height: c.height}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		want    error
	}{
		"empty":         {"", ErrFormat},
		"text":          {"an image, really", ErrFormat},
		"SVG":           {"<svg/>", ErrFormat},
		"short PNG":     {"\x89PNG\r\n\x1a\n", ErrDamaged},
		"not IHDR":      {"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dXXXX\x00\x00\x00\x01\x00\x00\x00\x01", ErrDamaged},
		"no width":      {"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x00\x00\x00\x00\x01", ErrDamaged},
		"negative":      {"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\xff\xff\xff\xff\x00\x00\x00\x01", ErrDamaged},
		"most pixels":   {"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x13\x88\x00\x00\x13\x88", nil},
		"too many":      {"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x13\x88\x00\x00\x13\x89", ErrPixels},
		"JPEG, no size": {"\xff\xd8\xff\xda\x00\x02", ErrDamaged},
		"WebP, unknown": {"RIFF\x00\x00\x00\x00WEBPXXXX" + strings.Repeat("\x00", 20), ErrDamaged},
	} {
		if _, err := Read(strings.NewReader(c.content)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := Read(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
}

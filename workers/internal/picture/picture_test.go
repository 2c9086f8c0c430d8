package picture

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"parley/shared/imageinfo"
)

// drawn returns an image whose left half is red and whose right half has the given color.
func drawn(width, height int, right color.Color) *image.NRGBA {
	out := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			if x < width/2 {
				out.Set(x, y, color.NRGBA{R: 255, A: 255})
			} else {
				out.Set(x, y, right)
			}
		}
	}
	return out
}

func asPNG(t *testing.T, from image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, from); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withEXIF returns a JPEG image with an EXIF block. The block contains an orientation and a secret.
func withEXIF(t *testing.T, from image.Image, orientation byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, from, nil); err != nil {
		t.Fatal(err)
	}
	exif := "Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string([]byte{orientation}) + "\x00\x00\x00\x00\x00\x00\x00GPS of the secret house"
	segment := append([]byte{0xff, 0xe1, 0, byte(len(exif) + 2)}, exif...)
	return append(append([]byte{0xff, 0xd8}, segment...), b.Bytes()[2:]...)
}

func decoded(t *testing.T, p Picture) image.Image {
	t.Helper()
	out, err := decode(p.MediaType, p.Content)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := imageinfo.Read(bytes.NewReader(p.Content)); err != nil || is != (imageinfo.Info{MediaType: p.MediaType, Width: p.Width, Height: p.Height}) {
		t.Errorf("%+v, %v; want %s, %d × %d", is, err, p.MediaType, p.Width, p.Height)
	}
	return out
}

// A converted image has no metadata. It is upright, because the orientation in its EXIF block was
// applied.
func TestMetadataIsRemovedAndTheImageUpright(t *testing.T) {
	t.Parallel()
	for orientation, red := range map[byte]image.Point{ // red is the new position of the red left half
		0: {X: 5, Y: 20}, 1: {X: 5, Y: 20}, 2: {X: 75, Y: 20}, 3: {X: 75, Y: 20}, 4: {X: 5, Y: 20},
		5: {X: 20, Y: 5}, 6: {X: 20, Y: 5}, 7: {X: 20, Y: 75}, 8: {X: 20, Y: 75}, 9: {X: 5, Y: 20},
	} {
		p, err := Convert(withEXIF(t, drawn(80, 40, color.NRGBA{B: 255, A: 255}), orientation))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(p.Content, []byte("Exif")) || bytes.Contains(p.Content, []byte("secret")) || p.MediaType != imageinfo.JPEG {
			t.Errorf("orientation %d: metadata remains, or %s", orientation, p.MediaType)
		}
		out := decoded(t, p)
		for y := range out.Bounds().Dy() {
			for x := range out.Bounds().Dx() {
				r, _, b, _ := out.At(x, y).RGBA()
				if x == red.X && y == red.Y && (r < 0xc000 || b > 0x4000) {
					t.Errorf("orientation %d: at %v is %x %x", orientation, red, r, b)
				}
			}
		}
	}
}

func TestImagesAreScaledDown(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]image.Point{"small": {X: 3, Y: 1}, "largest side": {X: 2048, Y: 10}, "one more": {X: 2049, Y: 10}, "large": {X: 5000, Y: 3}, "tall": {X: 1, Y: 4097}} {
		p, err := Convert(asPNG(t, drawn(size.X, size.Y, color.NRGBA{G: 255, A: 128})))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out := decoded(t, p)
		if max(p.Width, p.Height) > MaxSide || p.Width < 1 || p.Height < 1 || size.X <= 2048 && size.Y <= 2048 && (p.Width != size.X || p.Height != size.Y) {
			t.Errorf("%s: %d × %d", name, p.Width, p.Height)
		}
		if _, g, _, a := out.At(p.Width-1, 0).RGBA(); size.X > 1 && (a < 0x7000 || a > 0x9000 || g < 0x7000) {
			t.Errorf("%s: green %x, alpha %x", name, g, a)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	noise := image.NewNRGBA(image.Rect(0, 0, 1000, 1000))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise.Pix {
		noise.Pix[i] = byte(random.Uint32())
	}
	if p, err := Convert(asPNG(t, noise)); err != nil || p.MediaType != imageinfo.JPEG || len(p.Content) > MaxBytes {
		t.Errorf("noise: %s, %d bytes, %v", p.MediaType, len(p.Content), err)
	}

	var b bytes.Buffer
	palette := image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.Black, color.White})
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{palette, palette}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	if p, err := Convert(b.Bytes()); err != nil || p.MediaType != imageinfo.PNG || p.Width != 9 {
		t.Errorf("GIF: %+v, %v", p, err)
	}
	webp, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Convert(webp); err != nil || p.Width != 1 || p.Height != 1 {
		t.Errorf("WebP: %+v, %v", p, err)
	}
}

// Malicious images are rejected: images with too many pixels, damaged images, and images in other
// formats.
func TestHostileImages(t *testing.T) {
	t.Parallel()
	small := asPNG(t, drawn(10, 10, color.White))
	huge := bytes.Clone(small)
	copy(huge[16:], "\x00\x00\x27\x10\x00\x00\x27\x10") // 10,000 × 10,000 pixels
	for name, c := range map[string]struct {
		content []byte
		want    error
	}{
		"SVG":              {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), imageinfo.ErrFormat},
		"PDF":              {[]byte("%PDF-1.7 and so on"), imageinfo.ErrFormat},
		"archive":          {[]byte("PK\x03\x04 and so on, and on"), imageinfo.ErrFormat},
		"empty":            {nil, imageinfo.ErrFormat},
		"too many pixels":  {huge, imageinfo.ErrPixels},
		"truncated header": {small[:20], imageinfo.ErrDamaged},
		"truncated":        {small[:len(small)/2], nil},
		"JPEG of padding":  {[]byte("\xff\xd8\xff" + strings.Repeat("\xff", 1<<20)), imageinfo.ErrDamaged},
		"JPEG of segments": {[]byte("\xff\xd8" + strings.Repeat("\xff\xe1\x00\x02", 1<<16)), imageinfo.ErrDamaged},
		"GIF header":       {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00"), nil},
		"WebP header":      {[]byte("RIFF\xff\xff\xff\xffWEBPVP8X\xff\xff\xff\xff\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00"), nil},
	} {
		if p, err := Convert(c.content); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want %v", name, p.MediaType, err, c.want)
		}
	}
}

// FuzzConvert checks that damaged images cause neither a hang nor a panic.
func FuzzConvert(f *testing.F) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, drawn(8, 8, color.White), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00"))
	f.Fuzz(func(_ *testing.T, content []byte) {
		if info, err := imageinfo.Read(bytes.NewReader(content)); err == nil && info.Width*info.Height < 1<<20 {
			_, _ = Convert(content)
		}
	})
}

//go:build linux

package extract

import (
	"bytes"
	"context"
	"encoding/json"
	pictures "image"
	"image/color"
	"image/png"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/testkit"
	pdfmaker "parley/shared/testkit/pdf"
	"parley/workers/internal/document"
	"parley/workers/internal/parse/pdf/pdftest"
)

func TestPictureShowsThePageAndItsWords(t *testing.T) {
	t.Parallel()
	e := open(t, Config{})
	content := pdfmaker.Write(
		pdfmaker.Page{Heading: "First", Paragraphs: []string{"Nothing to see."}},
		pdfmaker.Page{Heading: "Warranty", Paragraphs: []string{"The lamp has a warranty of three years."}},
	)
	p, err := e.Picture(t.Context(), content, 2)
	if err != nil {
		t.Fatal(err)
	}
	if p.MIMEType != "image/png" || p.Height != 842 || p.Width < 594 || p.Width > 596 {
		t.Errorf("%s of %v × %v points", p.MIMEType, p.Width, p.Height)
	}
	shown, err := png.Decode(bytes.NewReader(p.Data))
	if err != nil {
		t.Fatal(err)
	}

	// The picture has dark pixels at the position of each word, and none in the margin.
	scale := float64(shown.Bounds().Dy()) / p.Height
	dark := func(box domain.Box) (n int) {
		for y := int(box[1] * scale); y < int(box[3]*scale); y++ {
			for x := int(box[0] * scale); x < int(box[2]*scale); x++ {
				if color.GrayModel.Convert(shown.At(x, y)).(color.Gray).Y < 128 {
					n++
				}
			}
		}
		return n
	}
	var words []string
	for _, w := range p.Words {
		words = append(words, w.Text)
		if dark(w.Box) == 0 {
			t.Errorf("nothing is drawn at %+v", w)
		}
	}
	if text := strings.Join(words, " "); text != "Warranty The lamp has a warranty of three years." {
		t.Errorf("%q", text)
	}
	if n := dark(domain.Box{0, 0, p.Width, 30}); n != 0 {
		t.Errorf("%d dark pixels in the margin", n)
	}
}

func TestPictureOfAHostilePDFEndsWithAReason(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("NOT TESTED under the race detector: the detector's own memory exceeds the limit")
	}
	e, all := open(t, Config{}), pdftest.Hostile()
	for _, name := range sampled(t, slices.Sorted(maps.Keys(all))) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := e.Picture(t.Context(), all[name], 1)
			if failure, is := err.(*document.Failure); err != nil && (!is || failure.Message == "" || failure.Retry) { //nolint:errorlint // it is never wrapped
				t.Errorf("%v", err)
			}
		})
	}
}

// sampled returns the files whose pictures are drawn: a quarter of them with -short. The choice is
// random; TestHostilePDFsEndWithAReason reads the text of all of the files.
func sampled(t *testing.T, names []string) []string {
	t.Helper()
	if !testing.Short() {
		return names
	}
	chosen := rand.New(rand.NewPCG(testkit.Seed(t), 0)).Perm(len(names))[:(len(names)+3)/4]
	t.Logf("NOT TESTED with -short: pictures of %d files", len(names)-len(chosen))
	var files []string
	for _, n := range chosen {
		files = append(files, names[n])
	}
	return files
}

func TestPictureEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, Config{}).Picture(ctx, pdfmaker.Write(pdfmaker.Page{Heading: "One"}), 1); err == nil || ctx.Err() == nil {
		t.Errorf("%v", err)
	}
}

// A malicious document may have taken control of the reader, so the worker accepts only a picture
// that matches its description.
func TestInvalidPicturesAreRejected(t *testing.T) {
	t.Parallel()
	encoded := func(width, height int) []byte {
		var out bytes.Buffer
		if err := png.Encode(&out, pictures.NewGray(pictures.Rect(0, 0, width, height))); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	good := func() domain.PagePicture {
		return domain.PagePicture{
			MIMEType: "image/png", Width: 10, Height: 10, Data: encoded(10, 10), Words: []domain.PageWord{{Text: "a", Box: domain.Box{1, 1, 2, 2}}},
		}
	}
	output := func(p domain.PagePicture) string {
		line, err := json.Marshal(pictureReply{Picture: &p})
		if err != nil {
			t.Fatal(err)
		}
		return protocol + string(line) + "\n"
	}
	if _, err := readPicture(strings.NewReader(output(good()))); err != nil {
		t.Errorf("a valid picture: %v", err)
	}

	for name, change := range map[string]func(*domain.PagePicture){
		"another type":       func(p *domain.PagePicture) { p.MIMEType = "image/svg+xml" },
		"another format":     func(p *domain.PagePicture) { p.MIMEType = "image/jpeg" },
		"no picture":         func(p *domain.PagePicture) { p.Data = []byte("<html>") },
		"too many pixels":    func(p *domain.PagePicture) { p.Data = encoded(1501, 1) },
		"no size":            func(p *domain.PagePicture) { p.Width = 0 },
		"a word without end": func(p *domain.PagePicture) { p.Words[0].Text = strings.Repeat("a", 101) },
		"a word with lines":  func(p *domain.PagePicture) { p.Words[0].Text = "a\nb" },
		"a word elsewhere":   func(p *domain.PagePicture) { p.Words[0].Box = domain.Box{0, 0, 1e9, 1} },
		"a reversed word":    func(p *domain.PagePicture) { p.Words[0].Box = domain.Box{2, 1, 1, 2} },
		"too many words":     func(p *domain.PagePicture) { p.Words = make([]domain.PageWord, 3001) },
	} {
		p := good()
		change(&p)
		if _, err := readPicture(strings.NewReader(output(p))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "another greeting": "parley-reader 0\n{}\n", "no event": protocol + "{}\n", "no end": protocol + "{", "too long": protocol + strings.Repeat(" ", 3<<20),
	} {
		if _, err := readPicture(strings.NewReader(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

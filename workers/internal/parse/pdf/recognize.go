package pdf

import (
	"context"
	"strings"
)

// maxRecognized is the maximum number of bytes of text that Recognize returns.
const maxRecognized = 64 << 10

// Recognize returns the text in an image file, or "" if tesseract is not installed or fails. The
// text is UTF-8 and has at most maxRecognized bytes. The reader process uses Recognize for images
// that are attached to messages.
func Recognize(ctx context.Context, path string) string {
	m := newImages(Config{})
	if !m.available(ctx) {
		return ""
	}
	text, err := output(ctx, maxRecognized, []string{"OMP_THREAD_LIMIT=1"}, "tesseract", path, "stdout", "-l", m.langs)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(text), ""))
}

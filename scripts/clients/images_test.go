package clients

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"testing"

	"parley/shared/testkit/pdf"
)

// picture returns a PNG, as base64.
func picture(t *testing.T) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 24, 16))); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(file.Bytes())
}

// TestImages sends images and files in messages with clients from npm.
func TestImages(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	document := pdf.Write(pdf.Page{Paragraphs: []string{"Everybody has thirty days of holidays a year."}})
	var got struct{ Parts int }
	decode(t, []byte(s.node(t, "images.mjs", "IMAGE="+picture(t), "DOCUMENT="+base64.StdEncoding.EncodeToString(document),
		"AGENT_ID="+s.agent(t, map[string]any{"model": "offline"}))), &got)
	if got.Parts != 8 {
		t.Errorf("%d parts", got.Parts)
	}
}

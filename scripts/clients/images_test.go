package clients

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"testing"
)

// TestImages sends images and files in messages with clients from npm.
func TestImages(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 24, 16))); err != nil {
		t.Fatal(err)
	}
	var got struct{ Parts int }
	decode(t, []byte(s.node(t, "images.mjs", "IMAGE="+base64.StdEncoding.EncodeToString(picture.Bytes()),
		"AGENT_ID="+s.agent(t, map[string]any{"model": "offline"}))), &got)
	if got.Parts != 4 {
		t.Errorf("%d parts", got.Parts)
	}
}

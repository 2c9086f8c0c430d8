package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

// Asset is a file. It never changes, so it is safe for concurrent use.
type Asset struct {
	Type string // media type
	// Strong entity tag, with quotation marks, derived from the content.
	ETag string
	// Content as it is sent without compression.
	Body []byte
	Gzip []byte // the content of Body, compressed
}

// WidgetScript is the name of the script that other sites load. The script loads the module
// WidgetFiles when a chat that accepts attachments is opened. Both names stay the same in all
// releases, because other sites contain them.
const (
	WidgetScript = "widget.js"
	WidgetFiles  = "widget-files.js"
)

// Licences is the name of the file with the licences of the packages in the bundles.
const Licences = "licences.txt"

//go:embed dist
var bundles embed.FS

// types contains the media types of bundles by extension. A test checks that every bundle has one
// of these extensions.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".txt": "text/plain; charset=utf-8",
}

// Assets returns the bundles that scripts/web.sh wrote, by name. All names except WidgetScript,
// WidgetFiles and Licences contain a hash of the content. The first call in a process compresses
// the bundles. An error is a defect of the build; later calls return it again.
var Assets = sync.OnceValues(func() (map[string]Asset, error) {
	entries, err := fs.ReadDir(bundles, "dist")
	if err != nil {
		return nil, fmt.Errorf("reading bundles: %w", err)
	}
	assets := make(map[string]Asset, len(entries))
	for _, entry := range entries {
		body, err := bundles.ReadFile("dist/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading bundles: %w", err)
		}
		if assets[entry.Name()], err = NewAsset(types[path.Ext(entry.Name())], body); err != nil {
			return nil, err
		}
	}
	return assets, nil
})

// NewAsset returns an asset with an ETag and a compressed body. Two assets with the same body have
// the same ETag.
func NewAsset(contentType string, body []byte) (Asset, error) {
	compressed, err := compress(body)
	if err != nil {
		return Asset{}, err
	}
	sum := sha256.Sum256(body)
	return Asset{Type: contentType, ETag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, Body: body, Gzip: compressed}, nil
}

// compress compresses a body at the highest level, because each body is compressed only once. The
// result is sent to clients that accept gzip.
func compress(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compressing bundle: %w", err)
	}
	return out.Bytes(), nil
}

// bundled returns the path of the bundle with a name and an extension. It returns an error unless
// exactly one bundle has this name and extension. The path begins with /assets/. Templates call
// bundled, so that pages load the bundles of their own release.
func bundled(name, extension string) (string, error) {
	entries, err := fs.Glob(bundles, "dist/"+name+"-*"+extension)
	if err != nil {
		return "", fmt.Errorf("finding bundle: %w", err)
	}
	found := ""
	for _, entry := range entries {
		hash := strings.TrimSuffix(strings.TrimPrefix(path.Base(entry), name+"-"), extension)
		if strings.Contains(hash, "-") {
			continue // a bundle with a longer name that begins with this name
		}
		if found != "" {
			return "", fmt.Errorf("two bundles %s%s; run make web", name, extension)
		}
		found = "/assets/" + path.Base(entry)
	}
	if found == "" {
		return "", fmt.Errorf("no bundle %s%s; run make web", name, extension)
	}
	return found, nil
}

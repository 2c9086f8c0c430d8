package host

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"parley/workers/internal/sandbox"
)

// What all that is in a sandbox is.
const (
	User     = 1000 // the number of its user and of its group
	Hostname = "sandbox"
)

// folders are those of Folders that every sandbox shows.
var folders = []string{
	"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32",
	"/usr/share/fontconfig", "/usr/share/fonts", "/usr/share/matplotlib", "/usr/share/python3", "/usr/share/zoneinfo",
	"/usr/share/poppler", "/usr/share/tesseract-ocr", // what readers of documents look up: encodings, trained languages
	"/etc/alternatives", "/etc/fonts",
}

// OuterLinks are folders that are links into /usr where /usr is merged, and folders of their own elsewhere. Sandboxes show them as
// they are, where they are there.
var OuterLinks = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32"}

// Files are the files of the host that a sandbox shows, where they are there.
var Files = []string{"/etc/ld.so.cache", "/etc/localtime", "/etc/matplotlibrc", "/etc/mime.types"}

// MadeUp are files that programs look for, whose host's version is nobody's business.
var MadeUp = []sandbox.Data{
	{Path: "/etc/passwd", Content: []byte("sandbox:x:" + userText + ":" + userText + "::" + sandbox.WorkDir + ":/bin/sh\n")},
	{Path: "/etc/group", Content: []byte("sandbox:x:" + userText + ":\n")},
	{Path: "/etc/hosts", Content: []byte("127.0.0.1 localhost\n::1 localhost\n")},
}

var userText = strconv.Itoa(User)

// Folders are the folders of the host that a sandbox with this interpreter shows, read-only, where they are there: programs,
// libraries, and what Python's packages and readers of documents look up.
func Folders(python string) []string {
	if strings.HasPrefix(python, "/usr/local/") {
		return append(slices.Clone(folders), "/usr/local/bin", "/usr/local/lib")
	}
	// Packages that were installed for the system's Python without its package manager.
	extra, _ := filepath.Glob("/usr/local/lib/python3*/dist-packages") // fails for bad patterns only
	return append(slices.Clone(folders), extra...)
}

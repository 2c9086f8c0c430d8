package transfer

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/shared/truncate"
)

const (
	maxNameBytes = 255 // maximum number of bytes in a file name
	maxExtension = 16  // maximum length in bytes of the file name extension that truncation keeps
	defaultName  = "file"
)

// disposition returns the Content-Disposition header for a file. Any program may have chosen the
// file's name. The header therefore contains a safe form of the name: it cannot break the header,
// name another folder or mislead people who read it. The argument inline says whether browsers may
// show the file.
func disposition(inline bool, name string) string {
	kind := "attachment"
	if inline {
		kind = "inline"
	}

	name = savedName(name)

	// The parameter filename* contains the whole name, and filename an ASCII approximation for
	// clients that do not support filename*.
	ascii := asciiName(name)
	kind += `; filename="` + ascii + `"`
	if ascii != name {
		kind += "; filename*=UTF-8''" + extendedName(name)
	}
	return kind
}

// savedName returns the last element of a path, without invisible and bidirectional characters,
// truncated to maxNameBytes bytes. A name without any character other than dots and spaces becomes
// defaultName.
func savedName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.TrimSpace(strings.Map(replaceInvisible, name))
	if strings.Trim(name, ". ") == "" {
		return defaultName
	}
	if len(name) <= maxNameBytes {
		return name
	}

	// Keep the extension, because it decides which program opens the file.
	extension := path.Ext(name)
	if len(extension) > maxExtension {
		extension = ""
	}

	return truncate.Bytes(name, maxNameBytes-len(extension)) + extension
}

// replaceInvisible replaces control and format characters with an underscore. It keeps joiners,
// because some scripts and emoji need them.
func replaceInvisible(r rune) rune {
	const joiner, nonJoiner = '\u200d', '\u200c'
	if r != joiner && r != nonJoiner && (r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)) {
		return '_'
	}
	return r
}

// asciiName returns a name for clients that read only ASCII. It contains no character with a
// special meaning inside quotes.
func asciiName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\%;/:*?<>|`, r) {
			return '_'
		}
		return r
	}, name)
}

// extendedName encodes a name as RFC 8187 defines it. Letters, digits and a few marks stay as they
// are.
func extendedName(name string) string {
	var out strings.Builder
	for _, b := range []byte(name) {
		if b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0 {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

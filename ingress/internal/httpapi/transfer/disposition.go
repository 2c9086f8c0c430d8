package transfer

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxSaved     = 255 // bytes that a name may have where files are saved
	maxExtension = 16  // of which so many stay at its end
	nameless     = "file"
)

// disposition says what is to be done with a file, and what it is called when it is saved. Programs that anybody wrote
// choose the names: a header, a folder and a reader's eye are to take them for no more than that.
func disposition(inline bool, name string) string {
	kind := "attachment"
	if inline {
		kind = "inline"
	}
	name = savedName(name)
	ascii := asciiName(name)
	kind += `; filename="` + ascii + `"`
	if ascii != name {
		kind += "; filename*=UTF-8''" + extendedName(name)
	}
	return kind
}

// savedName is the last part of a name, without what is not seen in it or turns it around, and not longer than
// files' names are.
func savedName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.TrimSpace(strings.Map(seen, name))
	if strings.Trim(name, ". ") == "" {
		return nameless
	}
	if len(name) <= maxSaved {
		return name
	}
	extension := path.Ext(name)
	if len(extension) > maxExtension {
		extension = ""
	}
	cut := maxSaved - len(extension)
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + extension
}

// seen replaces characters that have no look of their own. Joiners stay: some scripts and signs are written with them.
func seen(r rune) rune {
	const joiner, nonJoiner = '\u200d', '\u200c'
	if r != joiner && r != nonJoiner && (r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)) {
		return '_'
	}
	return r
}

// asciiName is a name for readers that know no other characters; none of it means anything within quotes.
func asciiName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\%;/:*?<>|`, r) {
			return '_'
		}
		return r
	}, name)
}

// extendedName is a name as RFC 8187 writes it.
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

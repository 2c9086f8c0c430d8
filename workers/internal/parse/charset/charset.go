package charset

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	icu "github.com/gogs/chardet"
	mozilla "github.com/wlynxg/chardet"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// sample is the number of bytes from which the encoding of a text is detected.
const sample = 64 << 10

// Decode converts a text to UTF-8 and returns the name of its original encoding. Decode uses the
// first of these encodings that fits the text: UTF-16 or UTF-32; ISO-2022-JP; UTF-8, except for a
// few bytes; the declared encoding ("" for none); the encoding that statistics of the bytes
// suggest.
//
// A declared encoding is ignored if it would make more than one in 50 bytes of the text
// undecodable. Names are those of the WHATWG Encoding Standard, in lower case. Texts in UTF-16 and
// UTF-32 all have the name "utf-16".
func Decode(content []byte, declared string) (text, name string) {
	if text, ok := Wide(content); ok {
		return text, "utf-16"
	}
	content = bytes.TrimPrefix(content, []byte("\xEF\xBB\xBF"))
	// ISO-2022-JP consists of ASCII bytes only, so it would pass as UTF-8.
	if isISO2022JP(content) {
		return decode(content, "iso-2022-jp")
	}
	if mostlyUTF8(content) {
		return string(content), "utf-8"
	}

	// UTF-8 and UTF-16 were excluded above, so a declaration of them is wrong.
	if name := known(declared); name != "" && name != "utf-8" && name != "utf-16le" && name != "utf-16be" {
		if text, name := decode(content, name); strings.Count(text, "\uFFFD")*50 <= len(text) {
			return text, name
		}
	}
	return decode(content, guess(content))
}

// mostlyUTF8 reports whether a text is UTF-8, except for a few invalid bytes: fewer than one for
// every 20 characters outside of ASCII. Such bytes occur at the end of truncated texts, and in logs
// with some lines in another encoding.
func mostlyUTF8(content []byte) bool {
	if utf8.Valid(content) {
		return true
	}
	wide, broken := 0, 0
	for rest := content; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			broken++
		case n > 1:
			wide++
		}
		rest = rest[n:]
	}
	return wide > 20*broken
}

// isISO2022JP reports whether a text is ISO-2022-JP, which consists of ASCII and escape sequences.
func isISO2022JP(content []byte) bool {
	return bytes.Contains(content, []byte("\x1b$B")) && bytes.Contains(content, []byte("\x1b(B")) ||
		bytes.Contains(content, []byte("\x1b$@")) && bytes.Contains(content, []byte("\x1b(J"))
}

// known returns the canonical name of an encoding, or "" if the label is unknown.
func known(label string) string {
	e, name := charset.Lookup(strings.Trim(label, " \t\"'"))
	if e == nil || name == "replacement" || name == "x-user-defined" {
		return ""
	}
	return name
}

// guess detects an encoding with two libraries. One of them recognizes more European languages, and
// the other recognizes the DOS code pages. If neither library has a result, not even a doubtful
// one, guess returns windows-1252.
func guess(content []byte) string {
	head := content
	if len(head) > sample {
		head = nonASCIISample(content)
	}
	if isThai(head) {
		return "windows-874"
	}
	best, err := icu.NewTextDetector().DetectBest(head)
	if err == nil && best.Confidence >= 35 {
		return superset(best.Charset)
	}

	if other := mozilla.Detect(head); other.Confidence >= 0.8 && known(other.Encoding) != "" {
		return superset(other.Encoding)
	}

	// A doubtful result of the first library is more often right than the default.
	if err == nil && best.Confidence >= 10 && known(best.Charset) != "" {
		return superset(best.Charset)
	}
	return "windows-1252"
}

// isThai reports whether a text is Thai. It is needed because both libraries mistake short Thai
// texts for Chinese. Thai is recognized by its vowel and tone marks, which follow letters.
//
// A text needs at least ten Thai characters, of which at least one in eight is a mark, and almost
// all marks must follow a letter. A byte that no Thai encoding uses excludes Thai.
func isThai(head []byte) bool {
	var count [4]int
	astray := 0
	before := none
	for _, c := range head {
		kind := thaiKind[c]
		count[kind]++
		if kind == mark && before != letter && before != mark {
			astray++
		}
		before = kind
	}

	high := count[letter] + count[mark]
	return count[foreign] == 0 && high >= 10 && count[mark]*8 >= high && astray*50 <= count[mark]
}

// Classes of bytes in Thai encodings.
const (
	none = iota
	letter
	mark
	foreign
)

// thaiKind maps each byte to its class.
var thaiKind = func() (kinds [256]int) {
	for c := range kinds {
		switch {
		case c == 0xD1, c >= 0xD4 && c <= 0xDA, c >= 0xE7 && c <= 0xEE:
			kinds[c] = mark
		case c >= 0xA1 && c <= 0xD3, c >= 0xDF && c <= 0xFB:
			kinds[c] = letter
		case c < 0x80, c == 0x85, c >= 0x91 && c <= 0x97, c == 0xA0:
			kinds[c] = none
		default:
			kinds[c] = foreign
		}
	}
	return kinds
}()

// nonASCIISample returns the part of a long text from which the encoding is detected. The part
// begins shortly before the first non-ASCII character.
func nonASCIISample(content []byte) []byte {
	at := bytes.IndexFunc(content, func(r rune) bool { return r >= utf8.RuneSelf })
	from := max(at-1024, 0)
	return content[from:min(from+sample, len(content))]
}

// superset returns an encoding that contains all characters of the named encoding. Texts that
// declare the smaller encoding often use characters of the larger one.
func superset(name string) string {
	switch strings.ToLower(name) {
	case "iso-8859-1", "ascii", "us-ascii":
		return "windows-1252"
	case "iso-8859-8", "iso-8859-8-i":
		return "windows-1255"
	case "iso-8859-9":
		return "windows-1254"
	case "gb2312", "gb-18030", "hz-gb-2312":
		return "gb18030"
	case "tis-620":
		return "windows-874"
	case "cp949", "uhc", "johab":
		return "euc-kr"
	default:
		return name
	}
}

// decode decodes a text in the named encoding, and returns the name of the encoding used. An
// unknown name means windows-1252.
func decode(content []byte, name string) (text, as string) {
	e, as := charset.Lookup(name)
	if e == nil {
		e, as = charset.Lookup("windows-1252")
	}
	out, err := e.NewDecoder().Bytes(content)
	if err != nil {
		return strings.ToValidUTF8(string(content), "\uFFFD"), as
	}
	return string(out), as
}

// Wide decodes a text in UTF-16 or UTF-32, with or without a byte order mark. It returns false for
// other encodings.
func Wide(content []byte) (string, bool) {
	e := wide(content)
	if e == nil {
		return "", false
	}
	out, err := e.NewDecoder().Bytes(content)
	if err != nil {
		return "", false
	}
	return strings.TrimPrefix(string(out), "\uFEFF"), true
}

// wide returns the UTF-16 or UTF-32 encoding of a text, or nil if the text has another encoding.
func wide(content []byte) encoding.Encoding {
	// UTF-32's little-endian byte order mark begins with that of UTF-16, so check UTF-32 first.
	switch {
	case bytes.HasPrefix(content, []byte("\xFF\xFE\x00\x00")):
		return utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)
	case bytes.HasPrefix(content, []byte("\x00\x00\xFE\xFF")):
		return utf32.UTF32(utf32.BigEndian, utf32.UseBOM)
	case bytes.HasPrefix(content, []byte("\xFF\xFE")):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case bytes.HasPrefix(content, []byte("\xFE\xFF")):
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	default:
		return detectWide(content)
	}
}

// detectWide detects UTF-16 and UTF-32 without a byte order mark. Texts in all languages contain
// spaces, digits or newlines. In these encodings, such a character consists of an ASCII byte and
// zero bytes.
func detectWide(content []byte) encoding.Encoding {
	head := content[:min(len(content), sample)]
	if len(head) < 4 || bytes.IndexByte(head, 0) < 0 {
		return nil
	}
	if bytes.Count(head, []byte{0})*10 < len(head) && controls(head)*50 < len(head) && mostlyUTF8(head) { // a few zeros in single-byte text
		return nil
	}
	if utf32Text(head, binary.LittleEndian) {
		return utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)
	}
	if utf32Text(head, binary.BigEndian) {
		return utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)
	}

	little, big := utf16Text(head, binary.LittleEndian), utf16Text(head, binary.BigEndian)
	switch {
	case little > 0 && little > 2*big:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case big > 0 && big > 2*little:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	default:
		return nil
	}
}

// utf32Text reports whether a text is valid UTF-32 in the given byte order and contains ASCII
// characters.
func utf32Text(head []byte, order binary.ByteOrder) bool {
	common := 0
	for i := 0; i+4 <= len(head); i += 4 {
		switch r := order.Uint32(head[i:]); {
		case r > utf8.MaxRune || r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f':
			return false
		case r < 0x80:
			common++
		}
	}
	return common > 0
}

// controls returns the number of control characters that do not occur in texts. U+0000 is not
// counted.
func controls(head []byte) int {
	n := 0
	for _, c := range head {
		if c < ' ' && c != 0 && c != '\n' && c != '\r' && c != '\t' && c != '\f' {
			n++
		}
	}
	return n
}

// utf16Text returns a score for a byte order, or 0 if the text contains invalid characters or too
// few ASCII characters. The score is the number of ASCII characters, where each space or newline
// counts as a hundred characters. In the wrong byte order, the bytes of a space or newline are a
// character that is rare in texts.
func utf16Text(head []byte, order binary.ByteOrder) int {
	ascii, spaces, units := 0, 0, 0
	for i := 0; i+2 <= len(head); i += 2 {
		units++
		switch r := order.Uint16(head[i:]); {
		case r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f', r == 0xFFFE, r == 0xFFFF:
			return 0
		case r == ' ' || r < ' ':
			spaces++
		case r < 0x80:
			ascii++
		}
	}

	if (ascii+spaces)*50 < units { // UTF-16 text would contain more ASCII characters
		return 0
	}
	return ascii + 100*spaces
}

package httpx

import (
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// MediaRange is one element of an Accept header. ReadAccept creates it.
type MediaRange struct {
	Media string // for example text/event-stream, text/* or */*
	// Values by parameter name in lower case, including the weight q.
	Parameters map[string]string
	// Weight from 0 to 1; 0: not acceptable.
	Weight float64
}

// qvalue matches a weight as RFC 9110 defines it.
var qvalue = regexp.MustCompile(`^(0(\.[0-9]{0,3})?|1(\.0{0,3})?)$`)

// ReadAccept parses the Accept header (RFC 9110, section 12.5.1). It skips malformed elements. The
// order is that of the header. Without the header the result is nil.
func ReadAccept(header http.Header) []MediaRange {
	var out []MediaRange
	for _, element := range SplitQuoted(strings.Join(header.Values("Accept"), ","), ',') {
		media, parameters, err := mime.ParseMediaType(element)

		weight, weighed := parameters["q"]
		if err != nil || weighed && !qvalue.MatchString(weight) {
			continue
		}
		r := MediaRange{Media: media, Parameters: parameters, Weight: 1}
		if weighed {
			r.Weight, _ = strconv.ParseFloat(weight, 64) // cannot fail: qvalue matched
		}
		out = append(out, r)
	}

	return out
}

// weightFor returns the weight of the most specific range that matches media, or 0 if none matches.
// named is true if this range is the media type itself and not a wildcard.
func weightFor(ranges []MediaRange, media string) (weight float64, named bool) {
	kind, _, _ := strings.Cut(media, "/")

	// A more specific range overrides a less specific one, whatever the weights. Among equally
	// specific ranges, the highest weight counts.
	best := -1
	for _, r := range ranges {
		precision := -1
		switch r.Media {
		case media:
			precision = 2
		case kind + "/*":
			precision = 1
		case "*/*":
			precision = 0
		}
		if precision > best || precision == best && r.Weight > weight {
			best, weight = precision, r.Weight
		}
	}

	if best < 0 {
		return 0, false
	}
	return weight, best == 2
}

// WantsEvents reports whether the client prefers server-sent events to JSON. With equal weights,
// the client prefers events if the header names text/event-stream without a wildcard.
func WantsEvents(header http.Header) bool {
	ranges := ReadAccept(header)
	events, named := weightFor(ranges, ContentEvents)
	document, _ := weightFor(ranges, ContentJSON)
	return events > document || events > 0 && events == document && named
}

// SplitQuoted splits a header value at separator and ignores separators inside quoted strings. It
// trims the elements and omits empty ones. An unclosed quoted string extends to the end.
func SplitQuoted(list string, separator byte) []string {
	var out []string
	quoted, start := false, 0

	add := func(end int) {
		if element := strings.TrimSpace(list[start:end]); element != "" {
			out = append(out, element)
		}
		start = end + 1
	}
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == separator && !quoted:
			add(i)
		}
	}

	if start < len(list) {
		add(len(list))
	}
	return out
}

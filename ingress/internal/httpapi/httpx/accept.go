package httpx

import (
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// MediaRange is one element of the header Accept.
type MediaRange struct {
	Media      string // such as text/event-stream, text/* or */*
	Parameters map[string]string
	Weight     float64
}

// qvalue is how RFC 9110 writes a weight.
var qvalue = regexp.MustCompile(`^(0(\.[0-9]{0,3})?|1(\.0{0,3})?)$`)

// ReadAccept reads the header Accept by RFC 9110, 12.5.1. Malformed elements are left out.
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
			r.Weight, _ = strconv.ParseFloat(weight, 64) // it matches qvalue
		}
		out = append(out, r)
	}
	return out
}

// weightFor gives the weight of a media type without parameters, by the most specific range; named: that range is the type itself.
func weightFor(ranges []MediaRange, media string) (weight float64, named bool) {
	kind, _, _ := strings.Cut(media, "/")
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

// WantsEvents reports whether a request prefers server-sent events to JSON. Of equal weights events win only if they are named.
func WantsEvents(header http.Header) bool {
	ranges := ReadAccept(header)
	events, named := weightFor(ranges, ContentEvents)
	document, _ := weightFor(ranges, ContentJSON)
	return events > document || events > 0 && events == document && named
}

// SplitQuoted splits a header's list; a separator within a quoted string does not count. Empty elements are left out.
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

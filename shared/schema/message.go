package schema

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"parley/shared/truncate"
)

const (
	// maximum number of problems in one message
	maxShown = 3
	// maximum length of a key, pattern or number in a message, in characters
	maxWord   = 80
	maxReason = 160 // maximum length of the message about one location, in characters
	// maxProblems bounds the mismatches that are read, because a value may have a million of them.
	maxProblems = 2000
)

// problem is a mismatch and its location. Problems are comparable, so that duplicates can be
// removed.
type problem struct {
	depth    int
	location string // shortened for messages
	path     string // JSON Pointer
	reason   string
}

// readable converts an error of the library to an error with which a model or an administrator can
// correct the fault.
func readable(err error) error {
	if err == nil {
		return nil
	}

	if _, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return errElsewhere
	}

	if broken, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		err = broken.Err
	}

	// The library's message begins with a URL that has no meaning for readers.
	mismatch, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return errors.New(truncate.Ellipsis(strings.ReplaceAll(err.Error(), address, ""), maxReason))
	}

	found := sortedProblems(mismatch)
	var messages []string
	for _, p := range found[:min(len(found), maxShown)] {
		messages = append(messages, p.String())
	}

	text := strings.Join(messages, "; ")
	if len(found) > maxShown {
		text += "; and more"
	}

	return errors.New(text)
}

// sortedProblems returns the distinct problems of a mismatch. Objects have no order; sorting makes
// messages reproducible.
func sortedProblems(mismatch *jsonschema.ValidationError) []problem {
	left := maxProblems
	found := problems(mismatch, &left)
	slices.SortFunc(found, func(a, b problem) int {
		return cmp.Or(strings.Compare(a.location, b.location), strings.Compare(a.path, b.path), strings.Compare(a.reason, b.reason))
	})
	return slices.Compact(found)
}

// String joins the location and the reason. The top-level value has no location.
func (p problem) String() string {
	if p.location == "" {
		return p.reason
	}
	return p.location + ": " + p.reason
}

// problems returns the innermost causes of a mismatch. If a value matches none of several
// alternatives, it returns the problems of the closest alternative. The argument left is the number
// of further problems to read.
func problems(e *jsonschema.ValidationError, left *int) []problem {
	// An error without causes is the actual problem. The errors that contain it only repeat that a
	// part of the value did not match.
	if len(e.Causes) == 0 {
		*left--
		at := e.InstanceLocation
		return []problem{{depth: len(at), location: pointer(at), path: jsonPointer(at), reason: reason(e.ErrorKind)}}
	}

	var all []problem
	for _, cause := range e.Causes {
		if *left <= 0 {
			break
		}
		all = append(all, problems(cause, left)...)
	}
	if len(all) == 0 {
		return nil
	}

	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		// The alternative with the deepest problem is the one that matches best.
		closest := slices.MaxFunc(all, func(a, b problem) int {
			return cmp.Or(cmp.Compare(a.depth, b.depth), strings.Compare(b.location, a.location), strings.Compare(b.reason, a.reason))
		})
		if !strings.HasPrefix(closest.reason, noForm) {
			closest.reason = truncate.Ellipsis(noForm+closest.reason, maxReason)
		}
		return []problem{closest}
	default:
		return all
	}
}

// jsonPointer returns the JSON Pointer to a location, without shortening it.
func jsonPointer(location []string) string {
	var path strings.Builder
	for _, key := range location {
		_, _ = path.WriteString("/" + escapeKey(key)) // never fails
	}
	return path.String()
}

// escapeKey escapes a key for a JSON Pointer.
func escapeKey(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// noForm is the beginning of the message for a value that matches none of several alternatives.
const noForm = "matches none of the allowed forms; closest: "

// pointer returns the JSON Pointer to a location, or "" for the top-level value. A long pointer is
// shortened to its innermost keys.
func pointer(location []string) string {
	var short strings.Builder
	for _, key := range location[max(0, len(location)-6):] {
		_, _ = short.WriteString("/" + truncate.Ellipsis(escapeKey(key), maxWord)) // never fails
	}
	if len(location) > 6 {
		return "…" + short.String()
	}
	return short.String()
}

// reason describes a mismatch without the value. The text continues the sentence that begins with
// the location.
func reason(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return "does not match the pattern " + truncate.Ellipsis(k.Want, maxWord)
	case *kind.Format:
		// The library reports a pattern that is too large as an invalid regular expression.
		if errors.Is(k.Err, errPattern) {
			return errPattern.Error()
		}
		return "is not a valid " + truncate.Ellipsis(k.Want, maxWord)
	case *kind.FalseSchema, *kind.Not:
		return "is not allowed"
	case *kind.RefCycle:
		return "the schema refers to itself without end"
	default:
		return truncate.Ellipsis(k.LocalizedString(message.NewPrinter(language.English)), maxReason)
	}
}

// Package id generates and validates Parley's identifiers. They are TypeIDs: a readable prefix and
// a UUIDv7 in 26 characters of base32. Ids with the same prefix sort by time.
//
// The time in an id comes from the clock of the process that generated the id, and is in
// milliseconds. Ids are not secret: they may be guessed in part, so they give no access. A template
// has a readable name instead of a UUID.
package id

import (
	"strings"

	"go.jetify.com/typeid/v2"
)

// Prefixes of the identifiers.
const (
	Agent        = "ag"
	Organization = "org"
	User         = "usr"
	Key          = "key"
	Login        = "ls"
	Invitation   = "inv"
	Run          = "run"
	Message      = "msg"
	Document     = "doc"
	Hook         = "hook"
	Endpoint     = "ntf" // a notification endpoint
	Notification = "evt"
	Budget       = "bud"
	File         = "file"
	Template     = "tpl"
)

// New returns a new id with the prefix. It panics if the prefix is not lower-case letters.
func New(prefix string) string { return typeid.MustGenerate(prefix).String() }

// Valid reports whether s is an id with the prefix. It does not mean that the resource exists.
func Valid(prefix, s string) bool {
	if prefix == Template {
		return validTemplate(s)
	}
	suffix, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(suffix) != 26 {
		return false
	}
	_, err := typeid.Parse(s)
	return err == nil
}

// validTemplate checks a template's id, which has a readable, stable name instead of a UUID.
func validTemplate(s string) bool {
	name, ok := strings.CutPrefix(s, Template+"_")
	if !ok || name == "" || len(name) > 32 {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Suffix returns the part of an id after its prefix.
func Suffix(s string) string {
	_, suffix, _ := strings.Cut(s, "_")
	return suffix
}

// Package id makes and checks Parley's identifiers: TypeIDs, a readable prefix and
// 26 characters of base32 that hold a UUIDv7, so that ids of one kind sort by time.
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
	Endpoint     = "ntf" // an endpoint of notifications
	Notification = "evt"
	Budget       = "bud"
	File         = "file"
	Template     = "tpl"
)

// New makes a fresh id with the prefix. It panics only on a prefix that is not lower-case letters.
func New(prefix string) string { return typeid.MustGenerate(prefix).String() }

// Valid reports whether s is an id of the kind that prefix names.
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

// Templates have readable, stable names instead of a UUID.
func validTemplate(s string) bool {
	name, ok := strings.CutPrefix(s, Template+"_")
	if !ok || name == "" || len(name) > 32 {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Suffix gives the part of an id behind its prefix.
func Suffix(s string) string {
	_, suffix, _ := strings.Cut(s, "_")
	return suffix
}

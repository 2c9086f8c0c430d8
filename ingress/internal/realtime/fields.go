package realtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/shared/apierr"
)

// These constants are the codes of invalid fields.
const (
	codeMissing     = "missing_required_parameter"
	codeType        = "invalid_type"
	codeValue       = "invalid_value"
	codeTooLong     = "too_long"
	codeUnsupported = "unsupported_parameter"
)

// faults collects the errors in the fields of an event or a session. They become one error event;
// see faulty.
type faults []apierr.Field

// add adds a fault. field is the path of the member.
func (f *faults) add(field, code, message string, args ...any) {
	*f = append(*f, apierr.Field{Field: field, Code: code, Message: fmt.Sprintf(message, args...)})
}

// object reads a JSON object member by member. An invalid member is added to the faults with its
// path. Unknown members are ignored, because later versions of the protocol may add members. An
// object is used for one event. Null counts as missing, unless a caller asks for null.
type object struct {
	path    string // path of the object; empty for the event itself
	members map[string]json.RawMessage
	faults  *faults
}

// newObject parses an object. If the value is not an object, it adds a fault and returns false. The
// members are not checked.
func newObject(path string, raw json.RawMessage, found *faults) (object, bool) {
	o := object{path: path, faults: found}
	if kind(raw) != '{' || json.Unmarshal(raw, &o.members) != nil {
		found.add(path, codeType, "must be an object")
		return o, false
	}
	return o, true
}

// kind returns the first byte of a JSON value, which determines its type. It is 0 for an empty
// value. 'n' means null, because no other JSON value begins with it.
func kind(raw json.RawMessage) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// at returns the path of a member, for errors.
func (o object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// has reports whether a member is present and not null.
func (o object) has(name string) bool {
	raw, there := o.members[name]
	return there && kind(raw) != 'n'
}

// null reports whether a member is present and null.
func (o object) null(name string) bool {
	raw, there := o.members[name]
	return there && kind(raw) == 'n'
}

// wrong adds a fault for a member.
func (o object) wrong(name, code, message string, args ...any) {
	o.faults.add(o.at(name), code, message, args...)
}

// object returns a member that is an object, or false if the member is missing or has another type.
// A wrong type is also a fault.
func (o object) object(name string) (object, bool) {
	if !o.has(name) {
		return object{}, false
	}
	return newObject(o.at(name), o.members[name], o.faults)
}

// text reads a string member into *it. It adds a fault if the string has more than limit
// characters. If the member is missing, *it does not change. The method text returns true only if
// it has set *it. U+0000 is a fault, because PostgreSQL cannot store it.
func (o object) text(name string, it *string, limit int) bool {
	if !o.has(name) {
		return false
	}

	// Null counts as missing, because many clients send unset fields as null.
	var value string
	if kind(o.members[name]) != '"' || json.Unmarshal(o.members[name], &value) != nil {
		o.wrong(name, codeType, "must be a string")
		return false
	}
	switch n := utf8.RuneCountInString(value); {
	case strings.ContainsRune(value, 0):
		o.wrong(name, codeValue, "must not contain U+0000")
		return false
	case n > limit:
		o.wrong(name, codeTooLong, "must have at most %d characters, not %d", limit, n)
		return false
	}
	*it = value
	return true
}

// need works like text, for a member that is required and must not be empty. After a fault, *it may
// be empty.
func (o object) need(name string, it *string, limit int) {
	switch {
	case !o.has(name):
		o.wrong(name, codeMissing, "is required")
	case o.text(name, it, limit) && *it == "":
		o.wrong(name, codeValue, "must not be empty")
	}
}

// number reads a number member into *it. It adds a fault if the number is not between least and
// limit. If the member is missing or invalid, *it does not change.
func (o object) number(name string, it *float64, least, limit float64) {
	if !o.has(name) {
		return
	}
	var value float64
	switch err := json.Unmarshal(o.members[name], &value); {
	case err != nil:
		o.wrong(name, codeType, "must be a number")
	case value < least || value > limit:
		o.wrong(name, codeValue, "must be from %s to %s", plainly(least), plainly(limit))
	default:
		*it = value
	}
}

// plainly formats a number without an exponent, for error messages.
func plainly(number float64) string { return strconv.FormatFloat(number, 'f', -1, 64) }

// whole reads an integer member into *it. It adds a fault if the number is not between least and
// limit. If the member is missing or invalid, *it does not change.
func (o object) whole(name string, it *int, least, limit int) {
	// JSON does not distinguish integers from other numbers, so 5.0 is accepted as 5.
	value := float64(*it)
	before := len(*o.faults)
	o.number(name, &value, float64(least), float64(limit))
	switch {
	case len(*o.faults) > before:
	case value != float64(int(value)):
		o.wrong(name, codeType, "must be a whole number")
	default:
		*it = int(value)
	}
}

// flag reads a boolean member into *it. If the member is missing, *it does not change.
func (o object) flag(name string, it *bool) {
	if o.has(name) && json.Unmarshal(o.members[name], it) != nil {
		o.wrong(name, codeType, "must be true or false")
	}
}

// list returns the elements of a list member, or false if the member is missing or has another
// type. A wrong type is also a fault.
func (o object) list(name string) ([]json.RawMessage, bool) {
	if !o.has(name) {
		return nil, false
	}
	var entries []json.RawMessage
	if json.Unmarshal(o.members[name], &entries) != nil {
		o.wrong(name, codeType, "must be a list")
		return nil, false
	}
	return entries, true
}

// refuse adds a fault for a member that must be absent. Null and an empty list count as absent. The
// code of the fault is unsupported_parameter.
func (o object) refuse(name, why string) {
	if !o.has(name) || string(bytes.Join(bytes.Fields(o.members[name]), nil)) == "[]" {
		return
	}
	o.wrong(name, codeUnsupported, "%s", why)
}

package contract

import (
	"strings"

	"parley/shared/domain"
)

// AllOrganizations replaces the organization's id in the subject of a change that may concern any
// organization. It is used if the publisher does not know which changes may have been lost.
const AllOrganizations = "all"

// ChangeSubject returns the subject for changes in an organization's resources of the given kind.
func ChangeSubject(kind domain.ChangeKind, org string) string {
	return SubjectChanges + string(kind) + "." + org
}

// ChangesSubject returns the subject filter for all changes in an organization.
func ChangesSubject(org string) string { return SubjectChanges + "*." + org }

// ParseChange is the inverse of ChangeSubject. It returns false for other subjects.
func ParseChange(subject string) (kind domain.ChangeKind, org string, ok bool) {
	rest, ok := strings.CutPrefix(subject, SubjectChanges)
	if !ok {
		return "", "", false
	}

	// An id contains no dot, so a subject with more tokens is of another kind.
	name, org, ok := strings.Cut(rest, ".")
	if !ok || name == "" || org == "" || strings.Contains(org, ".") {
		return "", "", false
	}
	return domain.ChangeKind(name), org, true
}

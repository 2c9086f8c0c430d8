package contract

import (
	"strings"

	"parley/shared/domain"
)

// AllOrganizations replaces the organization's id in the subject of a change that may concern
// any organization, because the publisher has lost track of its unpublished changes.
const AllOrganizations = "all"

// ChangeSubject is the subject of changes of an organization's resources of a kind.
func ChangeSubject(kind domain.ChangeKind, org string) string {
	return SubjectChanges + string(kind) + "." + org
}

// ChangesSubject is the subject filter of all changes of an organization.
func ChangesSubject(org string) string { return SubjectChanges + "*." + org }

// ParseChange is the inverse of ChangeSubject. It returns false for other subjects.
func ParseChange(subject string) (kind domain.ChangeKind, org string, ok bool) {
	rest, ok := strings.CutPrefix(subject, SubjectChanges)
	if !ok {
		return "", "", false
	}
	name, org, ok := strings.Cut(rest, ".")
	if !ok || name == "" || org == "" || strings.Contains(org, ".") {
		return "", "", false
	}
	return domain.ChangeKind(name), org, true
}

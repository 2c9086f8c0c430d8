package contract

import (
	"strings"

	"parley/shared/domain"
)

// AllOrganizations takes the place of an organization's id in the subject of a change that may be anybody's: whoever
// tells it does not know any more what it has not told.
const AllOrganizations = "all"

// ChangeSubject is where it is told that an organization's things of a kind have changed.
func ChangeSubject(kind domain.ChangeKind, org string) string {
	return SubjectChanges + string(kind) + "." + org
}

// ChangesSubject is where all changes of an organization are told.
func ChangesSubject(org string) string { return SubjectChanges + "*." + org }

// ParseChange reads what ChangeSubject writes; false for other subjects.
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

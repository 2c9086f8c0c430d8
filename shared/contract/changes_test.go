package contract_test

import (
	"testing"

	"parley/shared/contract"
	"parley/shared/domain"
)

func TestSubjectsOfChangesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, kind := range domain.ChangeKinds {
		for _, org := range []string{"org_1", contract.AllOrganizations} {
			gotKind, gotOrg, ok := contract.ParseChange(contract.ChangeSubject(kind, org))
			if !ok || gotKind != kind || gotOrg != org {
				t.Errorf("%s of %s became %s of %s, %v", kind, org, gotKind, gotOrg, ok)
			}
		}
	}
	for _, other := range []string{"", "changes", "changes.", "changes.runs", "changes.runs.", "changes..org_1", "changes.runs.org_1.x", "runs.done.run_1"} {
		if kind, org, ok := contract.ParseChange(other); ok {
			t.Errorf("%q was taken for %s of %s", other, kind, org)
		}
	}
}

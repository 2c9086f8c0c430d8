package httpapi

import (
	"iter"
	"strings"
	"sync"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/testkit"
)

// uploadKind describes the ids of uploads. A caller may attach an upload if the caller may read the
// runs of the person who uploaded the file.
var uploadKind = idKind{
	prefix: id.File,
	own:    func(s *orgPair, c *credential) string { return s.uploaded(c.testOrg, c.plain()...) },
	others: func(s *orgPair) string { return s.uploaded(s.home, s.other.auth, s.home.header) },
	open:   domain.RoleAdmin,
	gone: func(s *orgPair, h *testOrg) string {
		fileID := s.uploaded(h, h.owner.auth, h.header)
		s.exec(`DELETE FROM files WHERE id = $1`, fileID) // as the sweeper does with an upload that was not used in time
		return fileID
	},
}

// uploaded returns the id of a text that was uploaded to h.
func (s *orgPair) uploaded(h *testOrg, headers ...string) string {
	s.t.Helper()
	return s.upload("?name="+h.word+".txt", "text/plain", h.word+" "+s.fresh(), headers...)
}

// draw selects the credentials with which a row of the access table is tested, or the wrong bodies
// that are sent to the row's route.
type draw struct{ seed, share int }

// selects reports whether the variant with a number is selected. Variants are numbered from 0.
func (d draw) selects(number int) bool { return (number+d.seed)%d.share == 0 }

// newDraw returns a draw. In a long test, the draw selects everything, in a short test a random
// third, and with the race detector a random quarter.
func newDraw(t *testing.T) draw {
	t.Helper()
	d := draw{share: 1}
	switch {
	case underRace: // the race detector does not need the complete matrix
		d.share = 4
	case testing.Short():
		d.share = 3
	}
	d.seed = int(testkit.Seed(t))
	t.Logf("each row is tried with 1 of %d variants", d.share)
	return d
}

// credentials returns the credentials selected for a row. Rows are numbered from 0. The result
// contains the first credential for each expected outcome, and a part of the other credentials,
// which differs from row to row. Therefore all outcomes occur with every seed.
func (d draw) credentials(row int, all []credential) iter.Seq2[int, *credential] {
	return func(yield func(int, *credential) bool) {
		outcomes, n := map[string]bool{}, 0
		for i := range all {
			outcome := accessTable[row].outcome(&all[i])
			if outcomes[outcome] && !d.selects(row+i) {
				continue
			}
			outcomes[outcome] = true
			if !yield(n, &all[i]) {
				return
			}
			n++
		}
	}
}

// own returns an id of the given kind that belongs to the caller with the credential c. Rows that
// only read share one id for each caller. Other rows get a new id each time.
func (m *matrix) own(r *accessRow, name string, c *credential) string {
	if r.changes() || c.testOrg == nil {
		return idKinds[name].own(m.orgPair, c)
	}
	return m.sharedOwn(name, c)
}

// sharedOwn returns the id of the given kind that belongs to the caller with the credential c and
// that no request changes.
func (m *matrix) sharedOwn(name string, c *credential) string {
	caller := c.who.id + " " + c.testOrg.word + " " + c.via + " " + strings.Join(c.plain(), " ")
	return m.once(name+" of "+caller, func() string { return idKinds[name].own(m.orgPair, c) })
}

// others returns an id of the given kind that belongs to another member of home. Rows that only
// read share one id, and so do requests that must fail according to the argument outcome.
func (m *matrix) others(r *accessRow, name, outcome string) string {
	if r.changes() && outcome == "ok" {
		return idKinds[name].others(m.orgPair)
	}
	return m.once(name+" of another member", func() string { return idKinds[name].others(m.orgPair) })
}

// The method named once calls the function create at the first call with a key, and stores the
// result. Later calls with this key return the stored result.
func (m *matrix) once(key string, create func() string) string {
	created, _ := m.shared.LoadOrStore(key, sync.OnceValue(create))
	give, _ := created.(func() string)
	return give()
}

// foreign returns the id of an object of an organization in which c does not act. All rows share
// it, because requests with this id must fail. The result is nil if requests of the row have no id.
func (m *matrix) foreign(r *accessRow, c *credential) []target {
	name, away := r.kind(), m.away
	if name == "" || name == "tpl" || idKinds[name].bearer {
		return nil
	}
	if r.who == forPage {
		return m.pageTargets(name, c)[1:2]
	}
	if c.testOrg == m.away {
		away = m.home
	}
	owner := login("foreign", away.owner, away, domain.RoleOwner, away.owner.auth)
	return asField(r, []target{{"foreign", m.sharedOwn(name, &owner), "404 not_found"}})
}

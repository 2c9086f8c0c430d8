package httpapi

import (
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"parley/shared/domain"
)

// draw selects the credentials with which a row is tested. It applies to rows of the access table
// that return data.
type draw struct{ seed, share int }

// newDraw selects all credentials in a long run. In a short run it selects a third of them, by a
// random seed. MATRIX_SEED repeats a run.
func newDraw(t *testing.T) draw {
	t.Helper()
	d := draw{share: 1}
	switch {
	case underRace: // the race detector does not need the complete matrix
		d.share = 4
	case testing.Short():
		d.share = 3
	}
	d.seed = rand.IntN(d.share)
	if given := os.Getenv("MATRIX_SEED"); given != "" {
		seed, err := strconv.Atoi(given)
		must(t, err)
		d.seed = seed
	}
	t.Logf("each row is tried with 1 of %d credentials; MATRIX_SEED=%d repeats it", d.share, d.seed)
	return d
}

// credentials returns the credentials selected for a row. Rows are numbered from 0. The result
// contains the first credential of each outcome, and some of the other credentials, which differ
// from row to row. Therefore the seed affects neither which outcomes occur in a run nor whether
// every documented response occurs.
func (d draw) credentials(row int, all []credential) iter.Seq2[int, *credential] {
	return func(yield func(int, *credential) bool) {
		outcomes, n := map[string]bool{}, 0
		for i := range all {
			outcome := accessTable[row].outcome(&all[i])
			if outcomes[outcome] && (row+i+d.seed)%d.share > 0 {
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

// own returns an id that belongs to c, of the given kind. Rows that only read share one id per
// caller. Every other row gets an id of its own.
func (m *matrix) own(r *accessRow, name string, c *credential) string {
	if r.changes() || c.testOrg == nil {
		return idKinds[name].own(m.orgPair, c)
	}
	caller := c.who.id + " " + c.testOrg.word + " " + c.via + " " + strings.Join(c.plain(), " ")
	return m.once(name+" of "+caller, func() string { return idKinds[name].own(m.orgPair, c) })
}

// others returns an id that belongs to another member of home, of the given kind. It is shared in
// the same way as the ids of own.
func (m *matrix) others(r *accessRow, name string) string {
	if r.changes() {
		return idKinds[name].others(m.orgPair)
	}
	return m.once(name+" of another member", func() string { return idKinds[name].others(m.orgPair) })
}

// once calls create at the first call with a key. Later calls with this key return the same value.
func (m *matrix) once(key string, create func() string) string {
	created, _ := m.shared.LoadOrStore(key, sync.OnceValue(create))
	give, _ := created.(func() string)
	return give()
}

// foreign returns an id of an organization in which c does not act, if the row has an id.
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
	return asField(r, []target{{"foreign", m.own(r, name, &owner), "404 not_found"}})
}

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

// draw selects the credentials with which a row of the access table is tried if the row returns
// data.
type draw struct{ seed, share int }

// newDraw draws all credentials in a long run, and every third one by a seed in a short run. MATRIX_SEED repeats a run.
func newDraw(t *testing.T) draw {
	t.Helper()
	d := draw{share: 1}
	switch {
	case underRace: // the race detector needs no complete matrix
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

// credentials returns the credentials drawn for a row, numbered from 0: the first credential of
// each outcome, and a share of the others that differs from row to row. Therefore neither the
// responses in a run nor the check that every documented response occurs depends on the seed.
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

// own returns an id of a kind that belongs to c. Rows that only read share one id per caller. Every
// other row gets a separate id.
func (m *matrix) own(r *accessRow, name string, c *credential) string {
	if r.changes() || c.testOrg == nil {
		return idKinds[name].own(m.orgPair, c)
	}
	caller := c.who.id + " " + c.testOrg.word + " " + c.via + " " + strings.Join(c.plain(), " ")
	return m.once(name+" of "+caller, func() string { return idKinds[name].own(m.orgPair, c) })
}

// others returns an id of a kind that belongs to another member of home, shared like own.
func (m *matrix) others(r *accessRow, name string) string {
	if r.changes() {
		return idKinds[name].others(m.orgPair)
	}
	return m.once(name+" of another member", func() string { return idKinds[name].others(m.orgPair) })
}

// once returns the value that create returned at the first call with the key.
func (m *matrix) once(key string, create func() string) string {
	created, _ := m.shared.LoadOrStore(key, sync.OnceValue(create))
	give, _ := created.(func() string)
	return give()
}

// foreign returns an id of the organization that c does not act in, for rows that name an id.
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

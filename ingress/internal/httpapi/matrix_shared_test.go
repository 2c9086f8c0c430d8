package httpapi

import (
	"strings"
	"sync"
)

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

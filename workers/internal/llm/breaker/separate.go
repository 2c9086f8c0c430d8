package breaker

import "sync"

// maxOrganizations is the maximum number of organizations that one breaker tells apart.
const maxOrganizations = 1024

// standing is how the calls of an organization fared while a breaker had faults.
type standing int

const (
	testing standing = iota + 1 // its first call during an open breaker has no outcome yet
	sound                       // such a call succeeded
	faulty                      // the newest outcome is a fault
)

// separation keeps the faults of one organization away from the others. An organization whose own
// requests exceed the provider's time limits opens the breaker, although the provider works. The
// calls of the other organizations then go on: one call as a test, and the others if it succeeds.
// It is safe for concurrent use. The zero value is ready for use.
type separation struct {
	mu        sync.Mutex
	standings map[string]standing
}

// admit reports whether a call of an organization that the breaker rejected may be made after all.
// The caller must then call finish.
func (s *separation) admit(organization string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.standings[organization] {
	case sound:
		return true
	case testing, faulty:
		return false
	}
	return s.set(organization, testing)
}

// finish records the outcome of an admitted call.
func (s *separation) finish(organization string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isFault(err):
		s.set(organization, faulty)
	case !isExcluded(err):
		s.set(organization, sound)
	case s.standings[organization] == testing: // the caller gave up, so the next call is the test
		delete(s.standings, organization)
	}
}

// record records the outcome of a call that the breaker let through. After a success, the faults of
// the organization before it no longer count.
func (s *separation) record(organization string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isFault(err):
		s.set(organization, faulty)
	case isExcluded(err):
	case len(s.standings) >= maxOrganizations:
		clear(s.standings) // so that further organizations can be told apart
	case s.standings[organization] == faulty:
		delete(s.standings, organization)
	}
}

// set sets the standing of an organization. It reports false if there are too many organizations.
func (s *separation) set(organization string, to standing) bool {
	if _, known := s.standings[organization]; !known && len(s.standings) >= maxOrganizations {
		return false
	}
	if s.standings == nil {
		s.standings = map[string]standing{}
	}
	s.standings[organization] = to
	return true
}

package breaker

import (
	"sync"
	"time"
)

const (
	maxOrganizations = 1024        // maximum number of organizations that one breaker tells apart
	standingTime     = time.Minute // time after which an outcome no longer counts
)

// standing is how the calls of an organization fared while a breaker had faults.
type standing struct {
	state
	since time.Time
}

// state is the state of a standing.
type state int

const (
	unknown state = iota // no outcome counts
	testing              // its first call during an open breaker has no outcome yet
	sound                // the newest outcome of an admitted call is a success
	faulty               // the newest outcome is a fault
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
	switch s.state(organization) {
	case sound:
		return true
	case testing, faulty:
		return false
	case unknown:
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
	case s.state(organization) == testing: // the caller gave up, so the next call is the test
		delete(s.standings, organization)
	}
}

// record records the outcome of a call that the breaker let through. After a success, the outcomes
// of the organization before it no longer count.
func (s *separation) record(organization string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isFault(err):
		s.set(organization, faulty)
	case !isExcluded(err) && s.state(organization) != testing:
		delete(s.standings, organization)
	}
}

// state returns the state of an organization. A test counts until it has an outcome.
func (s *separation) state(organization string) state {
	found := s.standings[organization]
	if found.state != testing && time.Since(found.since) > standingTime {
		return unknown
	}
	return found.state
}

// set sets the state of an organization. It reports false if there are too many organizations.
func (s *separation) set(organization string, to state) bool {
	if _, known := s.standings[organization]; !known && len(s.standings) >= maxOrganizations {
		for other := range s.standings {
			if s.state(other) == unknown {
				delete(s.standings, other)
			}
		}
		if len(s.standings) >= maxOrganizations {
			return false
		}
	}
	if s.standings == nil {
		s.standings = map[string]standing{}
	}
	s.standings[organization] = standing{to, time.Now()}
	return true
}

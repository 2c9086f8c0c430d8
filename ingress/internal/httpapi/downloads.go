package httpapi

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
)

const (
	// How long a whole download may take: so long, and longer by what it has sent. The server's own limit would cut large
	// files on slow lines; a time for each piece would let who reads a piece now and then stay for hours.
	downloadTime = time.Minute
	slowestRate  = 16 << 10 // bytes a second

	// Files that may be on their way at an ingress at once: each holds a part of its content in memory.
	filesPerCredential   = 16
	filesPerOrganization = 32
	filesAtOnce          = 512
)

// downloads are the files that are on their way, the oldest first. The zero value has none.
type downloads struct {
	mu   sync.Mutex
	open []*place
}

// place is that of one download.
type place struct {
	all                      *downloads
	organization, credential string
	out                      *http.ResponseController
	began                    time.Time
	cut                      bool // somebody else has the place
}

// enter gives a download its place, which it must leave at its end, or refuses it. When all are taken, who has fewer than
// others takes one of theirs: however slowly some read, nobody else is shut out.
func (d *downloads) enter(who domain.Caller, out *http.ResponseController) (*place, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	byOrganization, ofCredential := map[string]int{}, 0
	for _, p := range d.open {
		byOrganization[p.organization]++
		if p.credential == who.Credential {
			ofCredential++
		}
	}
	switch {
	case ofCredential >= filesPerCredential:
		return nil, rateLimited(seatWait, "this credential is reading too many files at once")
	case byOrganization[who.OrganizationID] >= filesPerOrganization:
		return nil, rateLimited(seatWait, "this organization is reading too many files at once")
	case len(d.open) >= filesAtOnce && !d.makeRoom(byOrganization, byOrganization[who.OrganizationID]):
		return nil, tooManyFiles()
	}
	p := &place{all: d, organization: who.OrganizationID, credential: who.Credential, out: out, began: time.Now()}
	d.open = append(d.open, p)
	return p, nil
}

func tooManyFiles() *apierr.Error {
	busy := apierr.New(apierr.Overloaded, "too many files are being read at once")
	busy.RetryAfter = seatWait
	return busy
}

// makeRoom cuts the oldest download of the organization that has the most, for one that has so many. Those that would
// have as many afterwards would take the same place from each other in turn: they wait, unless they have none.
func (d *downloads) makeRoom(byOrganization map[string]int, has int) bool {
	most := 0
	for _, n := range byOrganization {
		most = max(most, n)
	}
	if has > 0 && has+1 >= most {
		return false
	}
	at := slices.IndexFunc(d.open, func(p *place) bool { return byOrganization[p.organization] == most })
	d.open[at].cut = true
	_ = d.open[at].out.SetWriteDeadline(time.Now()) // ends the write that it waits in; tests' recorders have none
	d.open = slices.Delete(d.open, at, at+1)
	return true
}

// leave gives a place back, if it has not been taken already. From then on nobody sets the connection's deadline.
func (d *downloads) leave(p *place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(other *place) bool { return other == p })
}

// extend gives the client of a download that has sent so many bytes its time for the next, or says that it has none left.
func (p *place) extend(sent int64) error {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.cut {
		return tooManyFiles()
	}
	earned := time.Duration(sent) * time.Second / slowestRate
	_ = p.out.SetWriteDeadline(p.began.Add(downloadTime + earned)) // as above
	return nil
}

// download sends a file piece by piece, for as long as it has its place and its credential holds. Errors are not sent: they
// are answered as all others are.
type download struct {
	http.ResponseWriter
	from   *place
	may    permit
	sent   int64
	status int
	err    error
}

func (d *download) WriteHeader(status int) {
	if d.status = status; status < http.StatusBadRequest {
		d.ResponseWriter.WriteHeader(status)
	}
}

func (d *download) Write(p []byte) (n int, err error) {
	if d.status >= http.StatusBadRequest {
		return len(p), nil
	}
	if err = d.from.extend(d.sent); err == nil && !d.may.holds(time.Now()) {
		err = apierr.New(apierr.Unauthenticated, "the credential does not hold any more")
	}
	if err == nil {
		n, err = d.ResponseWriter.Write(p)
	}
	d.sent += int64(n)
	d.err = err
	return n, err
}

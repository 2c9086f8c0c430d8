package transfer

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

// stall has a transfer wait for its client for longer than the pace allows.
func (p *Slot) stall() {
	p.all.Mu.Lock()
	defer p.all.Mu.Unlock()
	p.waiting = time.Now().Add(-2 * PaceTime)
}

func TestDownloadsAreCounted(t *testing.T) {
	t.Parallel()
	all := Limiter{Policy: Files}
	refused := func(who Owner, code apierr.Code, says string) {
		t.Helper()
		var coded *apierr.Error
		if _, err := all.Enter(who, http.NewResponseController(httptest.NewRecorder())); !errors.As(err, &coded) || coded.Code != code ||
			coded.RetryAfter <= 0 || !strings.Contains(coded.Detail, says) {
			t.Errorf("one download more of %s gave %v", who.Credential, err)
		}
	}
	var first *Slot
	for org := 1; len(all.Open) < filesAtOnce; org++ {
		for n := range filesPerOrganization {
			if n == FilesPerCredential {
				refused(reader(org, 0), apierr.RateLimited, "credential")
			}
			p := placeOf(t, &all, httptest.NewRecorder(), reader(org, n/FilesPerCredential))
			if first == nil {
				first = p
			}
		}
		refused(reader(org, 9), apierr.RateLimited, "organization")
	}
	all.Leave(first)
	placeOf(t, &all, httptest.NewRecorder(), reader(1, 0))
	refused(reader(1, 9), apierr.RateLimited, "organization")

	// While all keep the pace, a newcomer waits. Of slow ones it gets an equal share, and no more. When all have one, an
	// organization that has none gets one.
	newcomer := filesAtOnce/filesPerOrganization + 1
	refused(reader(newcomer, 0), apierr.Overloaded, "too many files")
	for _, p := range all.Open {
		p.stall()
	}
	for n := range filesAtOnce / newcomer {
		placeOf(t, &all, httptest.NewRecorder(), reader(newcomer, n/FilesPerCredential))
	}
	refused(reader(newcomer, 9), apierr.Overloaded, "too many files")
	refused(reader(1, 9), apierr.Overloaded, "too many files")
	all.Open = nil
	for org := range filesAtOnce {
		first = placeOf(t, &all, httptest.NewRecorder(), reader(org, 1))
		first.stall()
	}
	placeOf(t, &all, httptest.NewRecorder(), reader(filesAtOnce, 1))
	refused(reader(filesAtOnce, 2), apierr.Overloaded, "too many files")
	if len(all.Open) != filesAtOnce || first.Cut || first.Extend(0) != nil || all.Open[0].Organization != "org_1" {
		t.Errorf("%d downloads, the oldest of %s", len(all.Open), all.Open[0].Organization)
	}
}

// However slowly a few organizations read, whoever has fewer downloads than they have gets a place at once: the oldest of theirs ends.
func TestNobodyIsShutOutBySlowReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := Limiter{Policy: Files}
		client, took := serveFile(t, &all, numbers(1<<20), httpx.Permit{})
		_, err := io.ReadFull(client, make([]byte, 100<<10))
		must(t, err)
		for n := 1; n < filesAtOnce; n++ {
			placeOf(t, &all, httptest.NewRecorder(), reader(1+n/filesPerOrganization, n/FilesPerCredential))
		}
		<-time.After(10 * time.Second)
		newcomer := filesAtOnce/filesPerOrganization + 1
		p := placeOf(t, &all, httptest.NewRecorder(), reader(newcomer, 0))
		if d := <-took; d != 10*time.Second || p.Cut {
			t.Errorf("the oldest download was left after %s", d)
		}
		if rest, err := io.Copy(io.Discard, client); rest > 64<<10 || err != nil {
			t.Errorf("then came %d bytes: %v", rest, err)
		}
	})
}

// An upload that keeps the pace is never cut, however many newcomers there are; one that has become slow is.
func TestOnlySlowTransfersAreCut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pieces int // of 17 KiB that come, one a second
		cut    bool
	}{
		"at the pace":         {60, false},
		"slow from the start": {0, true},
		"slow after a while":  {12, true}, // what came at the beginning does not help for long
	} {
		synctest.Test(t, func(t *testing.T) {
			all := &Limiter{Policy: Documents}
			p := placeOf(t, all, httptest.NewRecorder(), reader(0, 0))
			var client sync.WaitGroup
			client.Go(func() {
				for range tc.pieces {
					p.Wait()
					<-time.After(time.Second)
					p.moved(httpx.SlowestRate + 1<<10)
				}
				p.Wait()
			})
			for org := 1; org < UploadsAtOnce; org++ {
				placeOf(t, all, httptest.NewRecorder(), reader(org, 0))
			}
			<-time.After(30*time.Second + time.Millisecond)
			_, err := all.Enter(reader(UploadsAtOnce, 0), http.NewResponseController(httptest.NewRecorder()))
			if p.Cut != tc.cut || (err == nil) != tc.cut || err != nil && apierr.CodeOf(err) != apierr.Overloaded {
				t.Errorf("%s: cut %v, and the newcomer got %v", name, p.Cut, err)
			}
			client.Wait()
		})
	}
}

// The service's own time does not count against a client's pace.
func TestTheServicesOwnTimeIsNotTheClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &Limiter{Policy: Documents}
		p := placeOf(t, all, httptest.NewRecorder(), reader(0, 0))
		p.Wait()
		p.moved(1)
		<-time.After(time.Minute)
		if p.slow(time.Now()) {
			t.Error("slow while a piece is stored")
		}
		p.Wait()
		p.rest(AnswerTime)
		<-time.After(time.Minute)
		if p.slow(time.Now()) {
			t.Error("slow while all of it is stored")
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// numbers returns n bytes in which no two places look alike.
func numbers(n int) []byte {
	out := make([]byte, 0, n+8)
	for i := 0; len(out) < n; i++ {
		out = strconv.AppendInt(append(out, ' '), int64(i), 10)
	}
	return out[:n]
}

// reader is one of an organization's owners of transfers.
func reader(org, key int) Owner {
	name := strconv.Itoa(org)
	return Owner{Organization: "org_" + name, Credential: "key_" + name + "_" + strconv.Itoa(key), Client: "client_" + name}
}

// placeOf gives an owner a slot.
func placeOf(t *testing.T, all *Limiter, w http.ResponseWriter, who Owner) *Slot {
	t.Helper()
	p, err := all.Enter(who, http.NewResponseController(w))
	must(t, err)
	return p
}

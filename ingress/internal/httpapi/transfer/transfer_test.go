package transfer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

// stall makes a transfer wait for its client longer than the pace allows.
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
			t.Errorf("one download more of %s = %v", who.Credential, err)
		}
	}
	var first *Slot
	org := 1
	for ; len(all.Open) < filesAtOnce-filesAtOnce/NewcomerShare; org++ {
		for n := range filesPerOrganization {
			if n == FilesPerCredential {
				refused(reader(org, 0), apierr.RateLimited, "credential")
			}
			p := takeSlot(t, &all, httptest.NewRecorder(), reader(org, n/FilesPerCredential))
			if first == nil {
				first = p
			}
		}
		refused(reader(org, 9), apierr.RateLimited, "organization")
	}
	all.Leave(first)
	takeSlot(t, &all, httptest.NewRecorder(), reader(1, 0))
	refused(reader(1, 9), apierr.RateLimited, "organization")

	// After a few organizations have taken the general slots, the remaining slots are for
	// newcomers, and each newcomer gets one slot. While all transfers keep the pace, further
	// transfers are rejected. If the transfers are slow, a new organization gets an equal share and
	// no more. If every organization has one slot, a further organization still gets one slot.
	for ; len(all.Open) < filesAtOnce; org++ {
		takeSlot(t, &all, httptest.NewRecorder(), reader(org, 0))
		refused(reader(org, 0), apierr.Overloaded, "too many files")
	}
	refused(reader(org, 0), apierr.Overloaded, "too many files")
	for _, p := range all.Open {
		p.stall()
	}
	for n := range filesPerOrganization - 3 {
		takeSlot(t, &all, httptest.NewRecorder(), reader(org, n/FilesPerCredential))
	}
	refused(reader(org, 9), apierr.Overloaded, "too many files")
	all.Open = nil
	for org := range filesAtOnce {
		first = takeSlot(t, &all, httptest.NewRecorder(), reader(org, 1))
		first.stall()
	}
	takeSlot(t, &all, httptest.NewRecorder(), reader(filesAtOnce, 1))
	refused(reader(filesAtOnce, 2), apierr.Overloaded, "too many files")
	if len(all.Open) != filesAtOnce || first.Cut || first.Extend(0) != nil || all.Open[0].Organization != "org_1" {
		t.Errorf("%d downloads, the oldest of %s", len(all.Open), all.Open[0].Organization)
	}
}

// fill takes all free slots: the general slots for a few organizations, and the reserved slots for
// newcomers.
func fill(t *testing.T, all *Limiter, perOrganization int) (next int) {
	t.Helper()
	for next = 1; len(all.Open) < all.AtOnce-all.AtOnce/NewcomerShare; next++ {
		for n := range perOrganization {
			if len(all.Open) < all.AtOnce-all.AtOnce/NewcomerShare {
				takeSlot(t, all, httptest.NewRecorder(), reader(next, n))
			}
		}
	}
	for ; len(all.Open) < all.AtOnce; next++ {
		takeSlot(t, all, httptest.NewRecorder(), reader(next, 0))
	}
	return next
}

// However slowly a few organizations read, an organization with fewer downloads gets a slot
// immediately. The oldest download of the few organizations is aborted.
func TestSlowReadersDoNotShutOutOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := Limiter{Policy: Files}
		client, took := serveFile(t, &all, numbers(1<<20), httpx.SessionCheck{})
		_, err := io.ReadFull(client, make([]byte, 100<<10))
		must(t, err)
		newcomer := fill(t, &all, filesPerOrganization-1)
		<-time.After(10 * time.Second)
		p := takeSlot(t, &all, httptest.NewRecorder(), reader(newcomer, 0))
		if d := <-took; d != 10*time.Second || p.Cut {
			t.Errorf("the oldest download was left after %s", d)
		}
		if rest, err := io.Copy(io.Discard, client); rest > 64<<10 || err != nil {
			t.Errorf("then came %d bytes: %v", rest, err)
		}
	})
}

// The last quarter of the slots cannot be taken by a few organizations, or by many organizations in
// one network.
func TestSlotsAreKeptForNewcomers(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(n int) string{
		"organizations of one address": func(int) string { return "198.51.100.1" },
		"of a /24":                     func(n int) string { return "198.51.100." + strconv.Itoa(n) },
		"of a /48":                     func(n int) string { return "2001:db8:1:" + strconv.FormatInt(int64(n), 16) + "::/64" },
	} {
		all := &Limiter{Policy: Documents}
		var code apierr.Code
		for n := range 2 * UploadsAtOnce {
			who := reader(n, 0)
			who.Client = client(n)
			_, err := all.Enter(who, http.NewResponseController(httptest.NewRecorder()))
			code = apierr.CodeFor(err)
		}
		if code != apierr.Overloaded && code != apierr.RateLimited || len(all.Open) > UploadsAtOnce-UploadsAtOnce/NewcomerShare {
			t.Errorf("%s: %d uploads, and the last one got %q", name, len(all.Open), code)
		}
		for n := range UploadsAtOnce / NewcomerShare {
			who := reader(1000+n, 0)
			who.Client = "203.0." + strconv.Itoa(n) + ".1"
			takeSlot(t, all, httptest.NewRecorder(), who)
		}
	}
}

// send simulates a client that sends pace bytes per second until ctx ends.
func (p *Slot) send(ctx context.Context, pace int) {
	for ctx.Err() == nil {
		p.Wait()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		p.moved(pace)
	}
}

// Clients at the slowest accepted pace lose their slots to a newcomer, the slowest client first. It
// does not matter whether the clients belong to few or many organizations. Faster clients keep
// their slots.
func TestSlowClientsGiveWay(t *testing.T) {
	t.Parallel()
	for _, perOrganization := range []int{1, UploadsPerCredential} {
		synctest.Test(t, func(t *testing.T) {
			all := &Limiter{Policy: Documents}
			newcomer := fill(t, all, perOrganization)
			ctx, stop := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			slots := slices.Clone(all.Open)
			for n, p := range slots {
				pace := httpx.SlowestRate + 4<<10
				switch {
				case n == 3:
					pace = 1 << 10
				case n%8 == 0:
					pace = crowdedFactor*httpx.SlowestRate + 16<<10
				}
				clients.Go(func() { p.send(ctx, pace) })
			}
			if _, err := all.Enter(reader(newcomer, 0), http.NewResponseController(httptest.NewRecorder())); apierr.CodeFor(err) != apierr.Overloaded {
				t.Errorf("before any pace is known: %v", err)
			}
			for n := range 10 {
				if _, err := all.EnterOrWait(ctx, reader(newcomer+n, 0), http.NewResponseController(httptest.NewRecorder())); err != nil {
					t.Errorf("newcomer %d: %v", n, err)
				}
			}
			cut := 0
			for n, p := range slots {
				if p.Cut {
					cut++
				}
				if p.Cut && n%8 == 0 {
					t.Errorf("upload %d, which keeps the pace, was cut", n)
				}
			}
			if err := slots[3].Extend(0); cut != 10 || !slots[3].Cut || !errors.Is(err, ErrCut) || apierr.CodeFor(err) != apierr.Overloaded {
				t.Errorf("%d were cut, the slowest with %v", cut, err)
			}
			stop()
			clients.Wait()
		})
	}
}

// An upload that is fast enough is never aborted, however many newcomers there are. An upload that
// has become slow is aborted. The required pace is higher while all slots are taken than while
// slots are free.
func TestOnlySlowTransfersAreCut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pieces, bytes int // number of pieces, and bytes in each; one piece arrives per second
		others        int
		cut           bool
	}{
		"at the pace":                 {60, crowdedFactor*httpx.SlowestRate + 1<<10, UploadsAtOnce - 1, false},
		"at the slowest pace":         {60, httpx.SlowestRate + 1<<10, UploadsAtOnce - 1, true},
		"at the slowest, with others": {60, httpx.SlowestRate + 1<<10, UploadsAtOnce - 2, false},
		"slow from the start":         {0, 0, UploadsAtOnce - 1, true},
		"slow after a while":          {12, crowdedFactor * httpx.SlowestRate, UploadsAtOnce - 1, true}, // bytes sent at the beginning count only for a while
	} {
		synctest.Test(t, func(t *testing.T) {
			all := &Limiter{Policy: Documents}
			p := takeSlot(t, all, httptest.NewRecorder(), reader(0, 0))
			var client sync.WaitGroup
			client.Go(func() {
				for range tc.pieces {
					p.Wait()
					<-time.After(time.Second)
					p.moved(tc.bytes)
				}
				p.Wait()
			})
			for org := range tc.others {
				takeSlot(t, all, httptest.NewRecorder(), reader(1+org, 0))
			}
			<-time.After(30*time.Second + time.Millisecond)
			full := len(all.Open) == UploadsAtOnce
			_, err := all.Enter(reader(UploadsAtOnce, 0), http.NewResponseController(httptest.NewRecorder()))
			if p.Cut != tc.cut || (err == nil) != (tc.cut || !full) || err != nil && apierr.CodeFor(err) != apierr.Overloaded {
				t.Errorf("%s: cut %v, and the newcomer got %v", name, p.Cut, err)
			}
			client.Wait()
		})
	}
}

// Time that the service itself takes does not count against the client's pace.
func TestTheServicesOwnTimeIsNotTheClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &Limiter{Policy: Documents}
		p := takeSlot(t, all, httptest.NewRecorder(), reader(0, 0))
		p.Wait()
		p.moved(1)
		<-time.After(time.Minute)
		if p.slow(time.Now(), httpx.SlowestRate) {
			t.Error("slow while a piece is stored")
		}
		p.Wait()
		p.setDeadline(AnswerTime)
		<-time.After(time.Minute)
		if p.slow(time.Now(), httpx.SlowestRate) {
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

// numbers returns n bytes that contain consecutive numbers, so that the content of any part shows
// its position.
func numbers(n int) []byte {
	out := make([]byte, 0, n+8)
	for i := 0; len(out) < n; i++ {
		out = strconv.AppendInt(append(out, ' '), int64(i), 10)
	}
	return out[:n]
}

// reader returns the owner of a transfer that is authenticated by the given key of an organization.
func reader(org, key int) Owner {
	name := strconv.Itoa(org)
	return Owner{Organization: "org_" + name, Credential: "key_" + name + "_" + strconv.Itoa(key), Client: "client_" + name}
}

// takeSlot takes a slot for an owner and returns it.
func takeSlot(t *testing.T, all *Limiter, w http.ResponseWriter, who Owner) *Slot {
	t.Helper()
	p, err := all.Enter(who, http.NewResponseController(w))
	must(t, err)
	return p
}

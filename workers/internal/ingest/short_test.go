package ingest

import (
	"context"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/document"
)

// TestTheShortLane checks that the short lane reads short documents while long documents of another
// organization occupy all ordinary slots. The lane skips organizations with too much debt. A
// document that reaches the lane's limits is requeued for an ordinary slot.
func TestTheShortLane(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	release, inHand := make(chan struct{}), make(chan struct{}, 8)
	r.start(func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
		switch from.Name {
		case "long.txt":
			from.OnCPUTime(time.Hour)
			inHand <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
				return document.Info{}, context.Cause(ctx)
			}
		case "heavy.txt":
			if from.Short {
				from.OnCPUTime(time.Second)
				inHand <- struct{}{}
				return document.Info{}, &document.Failure{Code: document.LimitReached}
			}
		}
		return plain(ctx, from, each)
	}, func(c *Config, _ *Deps) { c.Concurrency, c.Short = 1, ShortLane })
	send := func(org, name, text string) string {
		sent := r.send(org, name, text)
		r.bus.PublishJobs(*sent.Job)
		return sent.Document.ID
	}
	flooding := r.organization()
	long := send(flooding, "long.txt", pages(60)+strings.Repeat(" ", 64<<10))
	<-inHand
	waits := send(flooding, "waits.txt", "It waits, because its organization owes.")
	for _, text := range []string{"One.", "Another one.", "A third one."} {
		r.awaitStatus(send(r.org, "short.txt", text), domain.DocumentReady)
	}
	other := r.organization()
	heavy := send(other, "heavy.txt", "It takes more than it seems.")
	<-inHand
	r.awaitStatus(send(r.org, "short.txt", "A last one."), domain.DocumentReady)
	for id, org := range map[string]string{waits: flooding, heavy: other} {
		r.await(org, id, "queued", func(d domain.Document) bool {
			if d.Status == domain.DocumentReady {
				t.Fatalf("%s was read although no slot is free for it", d.Name)
			}
			return d.Status == domain.DocumentQueued
		})
	}
	close(release)
	for id, org := range map[string]string{long: flooding, waits: flooding, heavy: other} {
		r.await(org, id, "ready", func(d domain.Document) bool { return d.Status == domain.DocumentReady })
	}
	if n := r.count(`SELECT count(*) FROM documents WHERE attempts <> 1`); n != 0 {
		t.Errorf("leaving the short lane counts as an attempt of %d documents", n)
	}
}

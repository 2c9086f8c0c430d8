package httpx

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/apierr"
)

// entered counts a response whose client has already read the given number of bytes.
func entered(t *testing.T, all *LargeAnswers, owner string, bytes, read int64) *LargeAnswer {
	t.Helper()
	a, err := all.Enter(owner, bytes, http.NewResponseController(httptest.NewRecorder()))
	if err != nil {
		t.Fatal(err)
	}
	a.read(int(read))
	return a
}

func codeOfEnter(all *LargeAnswers, owner string, bytes int64) apierr.Code {
	a, err := all.Enter(owner, bytes, http.NewResponseController(httptest.NewRecorder()))
	if err == nil {
		a.Leave()
		return ""
	}
	return apierr.CodeFor(err)
}

// Each organization has its own limit, which does not apply if the organization has only one
// response in progress.
func TestLargeAnswersOfAnOrganization(t *testing.T) {
	t.Parallel()
	all := &LargeAnswers{PerOrganization: 100, AtOnce: 1000}
	first := entered(t, all, "red", 150, 0)
	if code := codeOfEnter(all, "red", 1); code != apierr.RateLimited {
		t.Errorf("beyond the share: %q", code)
	}
	if code := codeOfEnter(all, "blue", 100); code != "" {
		t.Errorf("another organization: %q", code)
	}
	first.Leave()
	first.Leave() // a second call has no effect
	if code := codeOfEnter(all, "red", 100); code != "" || all.total != 0 {
		t.Errorf("after the large response: %q, %d bytes are counted", code, all.total)
	}
}

// If a request exceeds the limit for all organizations, a slow response to another organization is
// aborted. Responses to fast clients are never aborted.
func TestSlowReadersMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &LargeAnswers{PerOrganization: 100, AtOnce: 100}
		slow, slower := entered(t, all, "red", 40, minPace), entered(t, all, "green", 40, 0)
		if code := codeOfEnter(all, "blue", 60); code != apierr.Overloaded {
			t.Errorf("before any reader was slow: %q", code)
		}
		<-time.After(slowAfter)
		fast := entered(t, all, "black", 20, 10*minPace)
		if code := codeOfEnter(all, "green", 40); code != "" || slower.cut || !slow.cut {
			t.Errorf("an organization's own answers are not cut for it: %q, %v, %v", code, slow.cut, slower.cut)
		}
		if code := codeOfEnter(all, "blue", 60); code != "" || !slower.cut {
			t.Errorf("a slow reader was not cut: %q", code)
		}
		if err := slower.Write(io.Discard, []byte("x")); apierr.CodeFor(err) != apierr.Overloaded {
			t.Errorf("an answer that was cut continues: %v", err)
		}
		if code := codeOfEnter(all, "blue", 90); code != apierr.Overloaded || fast.cut {
			t.Errorf("a client that keeps the pace was cut: %q", code)
		}
	})
}

// A response that is being rendered does not count as slow, however long it takes.
func TestAnswersBeingRenderedAreNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &LargeAnswers{PerOrganization: 100, AtOnce: 100}
		made := entered(t, all, "red", 90, 0)
		made.reserve(func() {})
		<-time.After(time.Minute)
		if code := codeOfEnter(all, "blue", 50); code != apierr.Overloaded || made.cut {
			t.Errorf("while the response is rendered: %q, %v", code, made.cut)
		}
		made.ready(40)
		if code := codeOfEnter(all, "blue", 60); code != "" || made.cut || all.total != 40 {
			t.Errorf("after the response was rendered: %q, %v, %d held", code, made.cut, all.total)
		}
		<-time.After(slowAfter)
		if code := codeOfEnter(all, "blue", 90); code != "" || !made.cut {
			t.Errorf("after the reader has become slow: %q, %v", code, made.cut)
		}
	})
}

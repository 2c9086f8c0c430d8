package ingress_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/secrets"
)

const widgetPage = "https://www.example.com"

// embed has the rig's agent list a page, and gives what its visitor's browser sends with a message.
func (r *rig) embed() head {
	r.Helper()
	r.call("PUT", "/api/agents?id="+r.agent, r.asKey(), `{"widget":{"enabled":true,"allowedOrigins":["`+widgetPage+`"]}}`).want(200)
	var session struct{ Token string }
	r.call("POST", "/api/widget/sessions", head{"Origin": widgetPage}, `{"agentId":"`+r.agent+`"}`).into(&session, 201)
	return r.visitor(session.Token)
}

func (r *rig) visitor(token string) head {
	return head{"Authorization": "Bearer " + token, "Origin": widgetPage, "Idempotency-Key": "k"}
}

// widgetToken seals a token as the rig's ingresses do, that is good for that long.
func (r *rig) widgetToken(life time.Duration) string {
	r.Helper()
	box, err := secrets.NewBox(strings.Repeat("ab", 32))
	if err != nil {
		r.Fatal(err)
	}
	over := strconv.FormatInt(time.Now().Add(life).Unix(), 10)
	return box.SealWidgetToken([]byte(`{"a":"` + r.agent + `","o":"` + widgetPage + `","v":"anonymous:x","x":` + over + `}`))
}

func TestAVisitorsAnswerIsStreamedAndResumed(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	other, _ := r.serve(defaults(), zerolog.Nop())
	visitor := r.embed()
	f := r.follow("POST", r.url+r.chatPath(), visitor, streamed)
	f.isStream()
	if f.res.Header.Get("Access-Control-Allow-Origin") != widgetPage {
		t.Errorf("the page may not read its stream: %v", f.res.Header)
	}
	h := r.take()
	h.say("one ")
	seen := f.until("message.delta")
	h.checkpoint()
	f.leave() // the page is loaded again, and meets another ingress
	visitor["Last-Event-ID"] = seen.id
	again := r.follow("POST", other+r.chatPath(), visitor, streamed)
	again.isStream()
	h.say("two")
	if next := again.until("message.delta"); !strings.Contains(next.data, "two") {
		t.Errorf("resumed with %s", next.data)
	}
	h.finish("one two")
	again.until("run.completed")
}

// What is switched off ends what goes on, on every ingress.
func TestVisitorsStreamsEndWithTheWidget(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	other, _ := r.serve(defaults(), zerolog.Nop())
	r.embed()
	short, long := r.visitor(r.widgetToken(2*time.Second)), r.visitor(r.widgetToken(time.Minute))
	f := r.follow("POST", r.url+r.chatPath(), short, streamed)
	f.isStream()
	h := r.take()
	elsewhere := r.follow("POST", other+r.chatPath(), long, streamed)
	elsewhere.isStream()
	short["Prefer"] = "respond-async"
	for began := time.Now(); r.call("POST", r.chatPath(), short, `{"sessionId":"s","message":"hi"}`).status != 401; { // until the token is over
		if time.Since(began) > 20*time.Second {
			t.Fatal("the token is good for ever")
		}
	}
	h.say("still here")
	f.until("message.delta")
	elsewhere.until("message.delta")
	r.call("PUT", "/api/agents?id="+r.agent, r.asKey(), `{"widget":{"enabled":false}}`).want(200)
	began := time.Now()
	for name, stream := range map[string]*follower{"here": f, "on another ingress": elsewhere} {
		stream.all()
		if took := time.Since(began); took > 8*time.Second { // 5 s, and what a busy machine takes
			t.Errorf("a stream %s went on for %s", name, took)
		}
	}
	for name, base := range map[string]string{"here": r.url, "on another ingress": other} {
		if p := r.callAt(base, "POST", r.chatPath(), long, streamed).problem(403); p.Code != "permission_denied" {
			t.Errorf("%s: %s", name, p.Code)
		}
	}
	h.finish("a")
}

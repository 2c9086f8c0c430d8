package crashpoints

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/cluster"
	"parley/shared/testkit/openaistub"
)

// The agent's tools.
const (
	once  = cluster.PayOnce
	byKey = cluster.PayByKey
)

// slowly begins the names of bills whose payment the till confirms late.
const slowly = "slowly-"

// till is a running till.
type till struct {
	cluster.Till

	host string // for example "127.0.0.1:8080"
}

func newTill(t *testing.T) *till {
	t.Helper()
	l := &till{}
	l.Delay = func(bill string) time.Duration {
		if strings.HasPrefix(bill, slowly) {
			return 600 * time.Millisecond
		}
		return 0
	}

	server := httptest.NewServer(&l.Till)
	t.Cleanup(server.Close)
	l.host = strings.TrimPrefix(server.URL, "http://")
	return l
}

// newModel starts the model provider. If the message is "pay payOnce x", the model calls the tool
// payOnce once and reports the result. It echoes all other messages.
func newModel(t *testing.T) (url string) {
	t.Helper()
	stub := openaistub.New()
	stub.Respond(pays)
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

// pays answers a request to the model. In addition to the payments of cluster.Pays, it calls the
// client's tool if the message begins or ends with its name.
func pays(req openaistub.Request) (openaistub.Reply, bool) {
	last := req.Messages[len(req.Messages)-1]
	if strings.HasPrefix(req.Prompt(), rate+" ") {
		return rates(last.Role, last.Content), true
	}
	reply, known := cluster.Pays(req)
	if known && len(reply.ToolCalls) > 0 && strings.HasSuffix(req.Prompt(), " "+rate) {
		reply.ToolCalls = append(rates(last.Role, last.Content).ToolCalls, reply.ToolCalls...)
	}
	return reply, known
}

// rate is the name of the client's tool.
const rate = "rate"

// rates answers with the result of the client's tool if the last message is a result. Otherwise it
// calls the client's tool.
func rates(lastRole, content string) openaistub.Reply {
	if lastRole == "tool" {
		return openaistub.Reply{Text: "done: " + content}
	}
	return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_rate", Name: rate, Arguments: "{}"}}}
}

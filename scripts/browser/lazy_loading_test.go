package browser

import (
	"net/http"
	"strings"
	"testing"
)

// TestLater opens pages whose code fails to load at first. The pages report the failure, and the
// rest of the dashboard works. The next visit requests the code again. If the code of an agent's
// tab fails to load, the agent's page stays.
func TestLater(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	// Cleanups run in reverse order. The proxy is started before the page is opened, so the page is
	// closed before the proxy stops.
	agent := a.agent(t, "Clerk", nil)
	proxy := a.s.lossyProxy(t, map[string]int{"/assets/administration-": 2, "/assets/settingstab-": 1, "/dashboard/org": 1})
	p := open(t).signIn(a)
	p.watch.talksTo(strings.TrimPrefix(proxy.url, "http://"))
	p.watch.expect(http.StatusServiceUnavailable)
	p.visitURL(proxy.url + "/dashboard/automations")
	p.is("heading", "Couldn’t load this page")
	p.sees("Part of the dashboard couldn’t be loaded")
	p.inspect("later")
	p.click("link", "Agents")
	p.is("heading", "Agents")
	p.visitURL(proxy.url + "/dashboard/agents/" + agent)
	p.click("link", "Settings")
	p.is("heading", "Part of the dashboard couldn’t be loaded")
	p.is("heading", "Clerk")
	p.visitURL(proxy.url + "/dashboard")
	p.click("link", "Organization")
	p.is("heading", "Couldn’t load this page")
	p.click("button", "Try again")
	p.sees("Still couldn’t load")
	p.click("button", "Try again")
	p.reloaded()
	p.is("heading", "Organization")
	p.isNot("button", "Try again")
}

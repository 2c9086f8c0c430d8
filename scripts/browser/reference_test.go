package browser

import "testing"

// TestReferenceSendsRequests sends the API reference's example requests with the browser's login
// session. It also searches the documentation.
func TestReferenceSendsRequests(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.agent(t, "Lamp expert", nil)
	p := open(t).signIn(a)

	end := p.begin(12)
	p.visit("/docs/api#getAgents")
	p.click("button", "Try it: List agents, or get one (List)")
	list := p.in("form", "Request: List agents, or get one (List)")
	list.click("button", "Send")
	list.sees("200")
	list.sees("Lamp expert")

	p.visit("/docs")
	p.fill("Search the documentation", "rotating secrets_key")
	p.click("button", "Search")
	p.click("link", "Operations: Rotating SECRETS_KEY")
	p.arrives("/docs/operations")
	p.is("heading", "Operations")
	end()

	p.visit("/dashboard/knowledge")
	p.click("link", "Read the guide")
	p.arrives("/docs/knowledge")
}

package browser

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// TestDemo sends requests as a demo visitor until the rate limit rejects one. The page then
// explains the limit.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.watch.expect(http.StatusTooManyRequests)
	p.visit("/dashboard/templates?token=demo")
	p.sees("This is the demo")
	p.click("link", "Chat with Writing coach")
	p.is("heading", "Writing coach")
	refused := p.in("alert", "…")
	for n := range 12 {
		p.fill("Message", fmt.Sprintf("Message %d", n))
		p.press("Enter")
		turn := p.in("article", fmt.Sprintf("Message: Message %d", n))
		p.until("the message is answered or refused", func() error {
			if p.has("alert", "…") || turn.has("button", "Copy answer") {
				return nil
			}
			return errors.New("the page shows neither an answer nor a refusal")
		})
		if p.has("alert", "…") {
			if n < 8 { // listing the templates also counts towards the limit
				t.Errorf("refused after %d messages, want at least 8", n)
			}
			break
		}
	}

	refused.sees("Demo limit reached")
	refused.is("button", "Send again in …")
	refused.is("link", "Sign up")
	p.inspect("demo-limit")
	p.reload()
	p.sees("requests left") // the note that shows the remaining requests and the time of the next refill
	refused.is("link", "Sign up")
	refused.click("link", "Sign up")
	p.arrives("/signup")
}

package browser

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdppage "github.com/chromedp/cdproto/page"

	"parley/scripts/internal/quickstart"
	"parley/shared/testkit"
)

var update = flag.Bool("update", false, "write the screenshots to docs/images")

// TestTour follows the section "Start" of README.md. It opens the login link that `parley up`
// prints, asks the question about the lamp, opens the answer's source, and inspects the run's
// timeline. With -update, it writes the README's screenshots.
func TestTour(t *testing.T) {
	t.Parallel()
	p := open(t)
	creds, err := quickstart.ReadCredentials(filepath.Join(p.s.dir, "data"))
	p.must(err, "reading credentials")

	size := emulation.SetDeviceMetricsOverrideParams{Width: 1120, Height: 860, DeviceScaleFactor: 1.5}
	call(p, emulation.SetDeviceMetricsOverride, size)
	end := p.begin(1)
	p.visitURL(creds.LoginURL)
	p.arrives("/dashboard")
	p.click("link", "Chat with an agent")
	p.is("heading", "Demo agent")

	p.fill("Message", "How long do I have to return a lamp?")
	p.press("Enter")
	turn := p.in("article", "Message: How long do I have…")
	turn.sees("You may return any lamp within 45 days of its delivery")
	end()
	turn.is("link", "Run details")
	p.js(nil, `() => scrollTo(0, 0)`)
	p.screenshot("chat")

	turn.in("list", "").click("button", "Source 1: returns-and-refunds.md…")
	p.in("dialog", "returns-and-refunds.md").sees("within 45 days")
	p.press("Escape")
	p.isNot("dialog", "returns-and-refunds.md")

	turn.click("link", "Run details")
	p.is("heading", "Timeline…")
	p.sees("waiting for a worker")
	p.click("button", "Knowledge…")
	span := p.in("region", "Knowledge")
	span.sees("Input")
	span.sees("returns-and-refunds.md")
	p.inspect("run-span")
	call(p, emulation.SetDeviceMetricsOverride, size)
	p.js(nil, `() => [...document.querySelectorAll("h2")].find((h) => h.textContent.startsWith("Timeline")).closest("section").scrollIntoView()`)
	p.screenshot("timeline")

	p.visit("/dashboard/org")
	logins := p.in("table", "Your login sessions")
	logins.sees("this one")
	logins.seesNot("Go-http-client") // the login sessions with which Parley itself created the account and the key have ended

	p.visit("/dashboard/automations")
	p.sees("No named automation has run yet") // the run that Parley creates at its first start belongs to no named automation
	p.click("link", "list of runs")
	p.arrives("/dashboard/runs")
	p.sees("What is 6 times 7?")
	p.signsOutWithoutPassword()
}

// signsOutWithoutPassword signs out of the account that Parley created at its first start. This
// account has no password. The page first says what is needed to sign in again. The login page of a
// client that may be on another machine does not contain the account's address.
func (p *page) signsOutWithoutPassword() {
	p.t.Helper()
	p.resize(phone)
	p.click("button", "Menu")
	p.click("button", "Account…")
	p.click("button", "Sign out")
	asks := p.in("dialog", "Sign out without a password?")
	asks.sees("You have no password")
	if got := asks.in("region", "the command that prints the link").snippet(); got != "parley reset-password owner@parley.local" {
		p.t.Errorf("the command to set a password is %q", got)
	}
	p.inspect("sign-out")
	p.resize(phone)
	asks.click("button", "Stay signed in")
	p.isNot("dialog", "Sign out without a password?")
	p.is("button", "Account…")

	p.click("button", "Sign out")
	asks.click("button", "Sign out anyway")
	p.arrives("/login")
	p.sees("Each start of Parley also prints a new login link")
	p.seesNot("owner@parley.local")
}

// screenshot saves screenshots of the window in light and dark mode to docs/images if the flag
// -update is set. Otherwise, it checks that the files exist.
func (p *page) screenshot(name string) {
	p.t.Helper()
	dir := filepath.Join(testkit.Root(p.t), "docs", "images")
	for _, scheme := range []string{"light", "dark"} {
		file := filepath.Join(dir, name+"-"+scheme+".webp")
		if !*update {
			_, err := os.Stat(file)
			p.must(err, "looking for the screenshot")
			continue
		}

		p.scheme(scheme)
		call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved})
		p.settled()

		quality := int64(80)
		shot := call(p, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{
			Format: cdppage.CaptureScreenshotFormatWebp, Quality: &quality,
		})
		p.must(os.MkdirAll(dir, 0o755), "making "+dir)
		p.must(os.WriteFile(file, shot.Data, 0o644), "writing the screenshot")
	}

	p.scheme("light")
}

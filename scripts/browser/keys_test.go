package browser

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestKeyRunsTheCommandsShown creates an API key, runs the commands that the pages show for it, and
// revokes the key. Another window shows the runs as they start.
func TestKeyRunsTheCommandsShown(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("NOT TESTED: commands shown on the pages: %v", err)
	}

	a := signUp(t)
	agent := a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	p, runs := open(t).signIn(a), open(t).signIn(a)
	runs.visit("/dashboard/runs")
	runs.sees("No runs yet")

	end := p.begin(4, runs)
	p.visit("/dashboard")
	p.click("link", "Organization")
	p.click("button", "New key")
	dialog := p.in("dialog", "New API key")
	dialog.fill("Name", "Nightly reports")
	dialog.sees("The key has the rights of an admin of this organization")
	p.inspect("new-key")
	p.resize(phone)
	if cut := p.cutOptions(); len(cut) > 0 {
		t.Errorf("on a phone, the dialog shows only a part of %q", cut)
	}
	p.resize(desktop)
	dialog.click("button", "Create key")
	made := p.in("dialog", "Copy the API key “Nightly reports” now")
	key := made.in("region", "the new key").snippet()
	lists := made.in("region", "a command that lists the agents").snippet()
	if out := pasted(t, lists, ""); !strings.Contains(out, agent) {
		t.Fatalf("%s\noutput = %s", lists, out)
	}

	eventually(t, "the use of the key is recorded", func() bool {
		var keys struct {
			Data []struct {
				Name       string
				LastUsedAt *string
			}
		}
		a.call(t, http.MethodGet, "/api/keys", nil, &keys)
		return keys.Data[0].Name == "Nightly reports" && keys.Data[0].LastUsedAt != nil
	})
	made.click("button", "I have saved it")
	row := p.in("row", "Nightly reports…")
	row.seesNot(key)
	p.until("the row shows when the key was used", func() error {
		shown, err := row.text()
		if err == nil && strings.Count(shown, "never") != 1 { // the key never expires
			err = errors.New(shown)
		}
		return err
	})

	completes := func(command string) {
		if out := pasted(t, command, key); !strings.Contains(out, `"completed"`) {
			t.Fatalf("%s\noutput = %s", command, out)
		}
	}
	p.click("link", "Agents")
	p.click("link", "Reporter")
	p.click("link", "Use it")
	p.click("tab", "Scheduler")
	completes(p.commandWith("run-automation"))
	runs.in("row", "…Summarize the day…").sees("completed")
	runs.in("row", "…Summarize the day…").sees("nightly")
	end()

	p.click("link", "Playground")
	p.fill("Message", "Hello from curl")
	p.click("button", "API requests")
	completes(p.in("dialog", "API requests").in("region", "Send this message").snippet())
	runs.in("row", "…Hello from curl…").sees("completed")

	p.visit("/dashboard/org")
	row.click("button", "Revoke Nightly reports")
	p.in("dialog", "Revoke “Nightly reports”?").click("button", "Revoke")
	p.isNot("row", "Nightly reports…")
	eventually(t, "the key is rejected", func() bool { return strings.Contains(pasted(t, lists, ""), `"unauthenticated"`) })
}

// cutOptions returns those options in the dialog that are wider than their select element.
func (p *page) cutOptions() (cut []string) {
	p.t.Helper()
	p.js(&cut, `() => [...document.querySelectorAll("dialog select")].flatMap((select) => {
		const arrow = 20, style = getComputedStyle(select), pen = document.createElement("canvas").getContext("2d");
		pen.font = style.font;
		const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - arrow;
		return [...select.options].filter((option) => pen.measureText(option.label).width > room).map((option) => option.label);
	})`)
	return cut
}

// snippet returns the text of the area's element that has a button to copy the text.
func (a area) snippet() (words string) {
	a.p.t.Helper()
	a.p.until("reading "+a.String(), func() error { return a.ask(&words, `function () { return this.textContent }`) })
	return words
}

// commandWith returns the page's command that contains the given word. It considers only commands
// that have a copy button.
func (p *page) commandWith(word string) (command string) {
	p.t.Helper()
	p.until("looking for a command with "+word, func() error {
		return p.try(&command, `(word) => [...document.querySelectorAll("pre")].map((e) => e.textContent).find((s) => s.startsWith("curl ") && s.includes(word))`, word)
	})
	return command
}

// pasted runs a command in a shell and returns its output. The command finds the key in an
// environment variable.
func pasted(t *testing.T, command, key string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Env = append(os.Environ(), "PARLEY_API_KEY="+key, "no_proxy=*")
	printed, err := run.Output()
	if err != nil {
		t.Fatalf("%s\n%v", command, err)
	}
	return string(printed)
}

package browser

import "testing"

// TestKeyboardAlone creates an agent and chats with it, using only the keyboard.
func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	p.visit("/dashboard/agents")
	p.sees("No agents yet")
	p.tabTo("link", "Skip to content", 1)
	p.press("Enter")
	p.tabTo("button", "API requests", 2) // the button is the next element after the link to the guide
	p.press("Enter")
	p.is("dialog", "API requests")
	p.tabTo("button", "Close", 6)
	p.press("Space")
	p.isNot("dialog", "API requests")
	p.focusIs("button", "API requests")
	p.tabTo("button", "New agent", 1)
	p.press("Enter")
	p.is("dialog", "New agent")
	p.press("Escape")
	p.isNot("dialog", "New agent")
	p.focusIs("button", "New agent")
	p.press("Space")
	p.is("dialog", "New agent")
	p.is("radio", "Customer support")
	p.tabTo("textbox", "Name", 6)
	p.enter("Typed agent")
	p.tabTo("textbox", "System prompt", 1)
	p.enter("Answer briefly.")
	p.tabTo("button", "Create agent", 4)
	p.press("Enter")
	p.is("heading", "Typed agent")

	p.tabTo("textbox", "Message", 40)
	p.enter("What is 6 times 7?")
	p.press("Enter")
	p.in("article", "…6 times 7…").sees("42")
	p.holds("Message", "")
	p.sees("Press Enter to send, or Shift+Enter to start a new line.") // shown once the run has finished; the answer is announced earlier
	p.focusIs("textbox", "Message")
	p.press("Control+k")
	p.is("dialog", "Find")
	p.press("Escape")
	p.isNot("dialog", "Find")
	p.focusIs("textbox", "Message")

	// The key Enter follows a link, and the new page receives the focus.
	p.visit("/dashboard")
	p.tabTo("link", "Runs", 9)
	p.press("Enter")
	p.arrives("/dashboard/runs")
	p.focusIs("main", "")
}

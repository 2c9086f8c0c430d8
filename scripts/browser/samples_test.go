package browser

import (
	"net/http"
	"testing"
)

// searching contains the fields of an agent that searches documents.
var searching = map[string]any{"description": "Answers from the handbook.", "tools": map[string]any{"knowledge": on}}

// TestSamplesForTemplate creates an agent from a template in an organization without documents. The
// dialog adds the sample documents unless the switch is off. The first suggested question then has
// an answer with a source.
func TestSamplesForTemplate(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	p.visit("/dashboard/agents?new=1")
	dialog := p.in("dialog", "New agent")
	dialog.isNot("switch", "Add the sample documents")
	dialog.click("radio", "Document assistant")
	dialog.sees("You can delete them under Knowledge")
	dialog.is("switch", "Add the sample documents")
	p.inspect("new-agent-samples")
	dialog.click("button", "Create agent")
	p.is("heading", "Document assistant")
	p.sees("The sample documents are ready")
	p.inspect("samples-ready")
	p.click("button", "What do the documents say about free returns?")
	turn := p.in("article", "Message: What do the documents say about free…")
	turn.sees("Returns are free within the country")
	turn.is("button", "…returns-and-refunds.md")

	p.click("link", "Home")
	p.in("region", "First steps").sees("1 of 5 done") // the completed step is the chat; samples do not count as an upload
	p.visit("/dashboard/agents?new=1")
	dialog.click("radio", "Customer support")
	dialog.click("button", "Create agent")
	p.is("heading", "Customer support")
	p.is("button", "Are returns free?")
	p.seesNot("sample documents")
}

// TestSamplesInChat opens the chat of an agent that searches documents. While the organization has
// no documents, the chat offers the sample documents, until the person declines the offer. The chat
// also suggests first questions, because the agent has no suggested questions.
func TestSamplesInChat(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Handbook", searching)
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent)
	p.is("button", "What can you do?")
	p.is("button", "Show me an example of this: Answers from the handbook.")
	offer := p.in("region", "Sample documents")
	offer.sees("There are no documents yet.")
	p.inspect("samples-offer")
	offer.click("button", "Not now")
	p.isNot("region", "Sample documents")
	p.reload()
	p.is("button", "What can you do?")
	p.isNot("region", "Sample documents")

	other := open(t).signIn(a) // this browser has not hidden the offer
	other.visit("/dashboard/templates/tpl_support")
	other.in("region", "Sample documents").click("button", "Add the sample documents")
	other.sees("The sample documents are ready")
	other.click("button", "Are returns free?")
	other.in("article", "Message: Are returns free?").sees("Returns are free within the country")
	p.reload()
	p.is("button", "What can you do?")
	p.seesNot("sample documents")
}

// TestSamplesAfterAnswer asks the first suggested question on a phone, in an organization without
// documents. The chat offers the sample documents before the question is asked, and again below the
// answer. After the samples have been added, one tap asks the question again.
func TestSamplesAfterAnswer(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/templates/tpl_support")
	p.in("region", "Sample documents").is("button", "Add the sample documents")
	p.visible("Add the sample documents")
	p.settled()
	p.shot("samples-first", phone, "light")
	p.click("button", "How long is the guarantee?")
	p.is("link", "Run details")
	offer := p.in("region", "Sample documents")
	offer.sees("The agent found nothing in the documents, because there are none yet.")
	p.visible("Add the sample documents")
	p.inspect("samples-after-answer")
	p.resize(phone)
	offer.click("button", "Add the sample documents")
	p.is("button", "Ask again")
	p.visible("Ask again")
	p.settled()
	p.shot("samples-ask-again", phone, "light")
	p.click("button", "Ask again")
	p.sees("Every lamp has a guarantee of 3 years")
	p.isNot("button", "Ask again")
	p.seesNot("The agent found nothing")
}

// TestSamplesBesideOwnDocuments asks a suggested question in an organization that has only a
// document of its own. The samples are offered below the answer, but not below the answer to a
// question that a person wrote.
func TestSamplesBesideOwnDocuments(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.document(t, "hours.md", "# Hours\n\nThe office is open from nine to five.")
	p := open(t).signIn(a)
	p.visit("/dashboard/templates/tpl_support")
	p.is("button", "How long is the guarantee?")
	p.isNot("region", "Sample documents")
	p.fill("Message", "How deep is the harbour?")
	p.click("button", "Send message")
	p.is("link", "Run details")
	p.isNot("region", "Sample documents")
	p.click("button", "New session")
	p.click("button", "How long is the guarantee?")
	offer := p.in("region", "Sample documents")
	offer.sees("This suggested question is about the sample documents, which are missing.")
	offer.click("button", "Add the sample documents")
	p.click("button", "Ask again")
	p.sees("Every lamp has a guarantee of 3 years")
}

// TestSamplesForMembers opens a chat and the list of documents as a member who may not add
// documents. Neither page offers the sample documents.
func TestSamplesForMembers(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Handbook", searching)
	p := open(t)
	p.visit(a.invite(t))
	p.fill("Your name…", "Guest")
	p.fill("Choose a password", "a long password")
	p.click("button", "Create account and join")
	p.arrives("/dashboard")
	p.choose("Organization", "Ada Example's organization")
	p.visit("/dashboard/agents/" + agent)
	p.sees("Only admins of the organization can add documents")
	p.is("button", "What can you do?")
	p.isNot("button", "Add the sample documents")
	p.visit("/dashboard/knowledge")
	p.sees("No documents yet")
	p.isNot("button", "Add the sample documents")
}

// TestSamplesWithoutDocuments adds the sample documents on the empty page of documents. In an
// organization with documents, only the dialog that creates an agent offers the samples, and the
// dialog's switch is off.
func TestSamplesWithoutDocuments(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.visit("/dashboard/knowledge")
	p.inspect("knowledge-samples")
	p.click("button", "Add the sample documents")
	p.in("row", "shipping.md…").sees("ready")
	p.isNot("button", "Add the sample documents")

	b := signUp(t)
	b.document(t, "returns.md", "You may return any lamp within 45 days.\n")
	p = open(t).signIn(b)
	p.visit("/dashboard/templates/tpl_support")
	p.is("button", "Are returns free?")
	p.seesNot("sample documents")
	p.click("button", "Create an agent from this template")
	dialog := p.in("dialog", "Create an agent")
	dialog.is("switch", "Add the sample documents")
	dialog.click("button", "Create agent")
	p.is("heading", "Customer support")
	var list struct{ Data []struct{ Name string } }
	b.call(t, http.MethodGet, "/api/knowledge", nil, &list)
	if len(list.Data) != 1 {
		t.Errorf("documents after the agent was created: %v", list.Data)
	}
}

// TestQuestionsOfNewAgent creates an agent with suggested questions.
func TestQuestionsOfNewAgent(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	p.visit("/dashboard/agents?new=1")
	dialog := p.in("dialog", "New agent")
	dialog.is("radio", "Researcher") // the list of templates has loaded, so it moves no field any more
	dialog.fill("Name", "Host")
	dialog.fill("System prompt", "Greet the guests.")
	dialog.fill("Suggested questions", "Where are you?\nWhere are you?")
	p.watch.expect(http.StatusBadRequest)
	dialog.click("button", "Create agent")
	dialog.sees("Question 2 is given twice")
	dialog.fill("Suggested questions", " Where are you? \n\nWhen do you open?")
	dialog.click("button", "Create agent")
	p.is("heading", "Host")
	p.is("button", "Where are you?")
	p.is("button", "When do you open?")
	p.isNot("button", "What can you do?")
}

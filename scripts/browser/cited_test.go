package browser

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/testkit/pdf"
)

// cited is the sentence that an answer cites. It is on page 3 of the handbook and breaks across
// lines.
const cited = "A Heron lamp that flickers is returned to the workshop in Alder Street, where its ballast is replaced " +
	"without charge within twelve days."

// handbook returns a PDF whose third page contains the sentence cited.
func handbook(t *testing.T) string {
	t.Helper()
	filler := strings.Repeat("Shades are brushed every spring and wires are straightened. ", 12)
	pages := []pdf.Page{
		{Heading: "Handbook", Paragraphs: []string{"This handbook is for the people of the shop."}},
		{Heading: "Opening hours", Paragraphs: []string{"The shop opens at 9:30 on weekdays.", filler}},
		{Heading: "Repairs", Paragraphs: []string{filler, filler, filler, cited, filler}},
		{Heading: "Addresses", Paragraphs: []string{"The office is in Birch Lane."}},
	}
	path := filepath.Join(t.TempDir(), "handbook.pdf")
	if err := os.WriteFile(path, pdf.Write(pages...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// marked describes the picture of a document's page, and the marks that highlight the cited words
// in it.
type marked struct {
	Marks    int
	Visible  bool    // whether the first mark is inside the picture's frame and the window
	Left     float64 // left edge of the first mark, as a fraction of the picture's width
	Top      float64
	Width    float64
	Fills    bool // whether the picture has loaded and has the proportions of an A4 page
	Contents bool // whether the dialog's first section is Contents
}

// TestCitedPage uploads a PDF, asks about it, and opens the page that the answer cites. The dialog
// shows this page as a picture in which the cited words are marked and visible, on a desktop and on
// a phone.
func TestCitedPage(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Shop", map[string]any{"tools": map[string]any{"knowledge": on}})
	p := open(t).signIn(a)
	end := p.begin(3)
	p.visit("/dashboard/knowledge")
	p.upload(handbook(t))
	p.in("row", "handbook.pdf…").sees("ready")
	p.click("link", "Agents")
	p.click("link", "Shop")
	p.opensCitedPage(t)
	end()
	p.settled()
	p.marks(t)

	p.click("button", "Close…")
	p.isNot("dialog", "handbook.pdf")
	p.visit("/dashboard/runs") // leaves the session
	p.resize(phone)
	p.visit("/dashboard/agents/" + agent)
	p.opensCitedPage(t)
	p.settled()
	p.marks(t)
	p.fits("cited page")
}

// citedClicks is the maximum number of clicks from an answer to the page that it cites.
const citedClicks = 3

// opensCitedPage asks about the handbook and opens the page that the answer cites. It fails the
// test if this takes more than citedClicks clicks.
func (p *page) opensCitedPage(t *testing.T) {
	t.Helper()
	p.fill("Message", "Where is a Heron lamp that flickers returned to?")
	p.click("button", "Send message")
	turn := p.in("article", "Message: Where is a Heron…")
	turn.is("link", "Run details")

	before := p.clicks
	turn.in("list", "").click("button", "Source 1: handbook.pdf…")
	p.in("dialog", "handbook.pdf").click("link", "Open the document")
	dialog := p.in("dialog", "handbook.pdf")
	dialog.is("heading", "Page 3 of 4")
	dialog.is("image", "Page 3 of handbook.pdf")
	dialog.sees("The cited words are marked.")
	if clicks := p.clicks - before; clicks > citedClicks {
		t.Errorf("the cited page takes %d clicks, want at most %d", clicks, citedClicks)
	}
}

// marks fails the test unless the picture has loaded and the marks on the cited sentence are
// visible in the window.
func (p *page) marks(t *testing.T) {
	t.Helper()
	var at marked
	p.js(&at, `() => {
		const img = document.querySelector(".page-sheet img"), all = [...document.querySelectorAll(".page-mark")];
		const [sheet, frame] = [img.getBoundingClientRect(), img.closest(".page-frame").getBoundingClientRect()];
		const first = all[0]?.getBoundingClientRect();
		return {
			Marks: all.length, Fills: img.complete && Math.abs(img.naturalHeight / img.naturalWidth - 842 / 595) < 0.01 && sheet.width > 250,
			Visible: !!first && first.top >= Math.max(0, frame.top) - 1 && first.bottom <= Math.min(innerHeight, frame.bottom) + 1,
			Left: first ? (first.left - sheet.left) / sheet.width : 0, Top: first ? (first.top - sheet.top) / sheet.height : 0,
			Width: first ? first.width / sheet.width : 0,
			Contents: document.querySelector("dialog section")?.getAttribute("aria-label") === "Contents",
		};
	}`)
	if at.Marks != 2 || !at.Visible || !at.Fills || !at.Contents {
		t.Errorf("the cited page shows %+v, want two visible marks on a loaded picture", at)
	}
	if left := 56.0 / 595; at.Left < left-0.02 || at.Left > left+0.02 || at.Width < 0.5 {
		t.Errorf("the first mark is at %.2f, %.2f wide %.2f; want the sentence's first line, from %.2f", at.Left, at.Top, at.Width, left)
	}
}

// TestDocumentPages opens the pages of a PDF, enlarges one page, and reads the text of another.
func TestDocumentPages(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.visit("/dashboard/knowledge")
	p.upload(handbook(t))
	row := p.in("row", "handbook.pdf…")
	row.sees("ready")
	row.click("button", "handbook.pdf")
	dialog := p.in("dialog", "handbook.pdf")
	dialog.is("image", "Page 1 of handbook.pdf")
	dialog.click("button", "Next")
	dialog.is("image", "Page 2 of handbook.pdf")
	dialog.click("button", "Enlarge")
	dialog.is("button", "Fit to width")
	dialog.in("region", "Contents").sees("Page 2 of 4")
	p.inspect("pdf-page")

	// A citation's URL opens the cited page with the words marked, even outside a chat.
	id := p.documentID(a, "handbook.pdf")
	p.visit("/dashboard/knowledge?id=" + id + "&page=3#quote=" + strings.ReplaceAll(cited, " ", "+"))
	dialog.is("image", "Page 3 of handbook.pdf")
	dialog.sees("The cited words are marked.")
	p.settled()
	p.marks(t)
	var hint float64
	p.js(&hint, `() => {
		const shown = (element) => element.getBoundingClientRect();
		const [head, hint, frame] = [".dialog-head", "dialog .hint", ".page-frame"].map((at) => shown(document.querySelector(at)));
		return Math.min(hint.top - head.bottom, frame.top - hint.bottom, innerHeight - frame.bottom);
	}`)
	if hint < 0 {
		t.Errorf("the page, or the hint about the marked words above it, is %.0f pixels outside the window", -hint)
	}
	p.inspect("cited-page")
	dialog.click("button", "Previous")
	dialog.is("image", "Page 2 of handbook.pdf")
	dialog.click("button", "Next")
	dialog.click("button", "Next")
	dialog.is("image", "Page 4 of handbook.pdf")
	dialog.seesNot("The cited words")
}

// documentID returns the ID of the account's document with the given name.
func (p *page) documentID(a *account, name string) string {
	p.t.Helper()
	var list struct {
		Data []struct{ ID, Name string }
	}
	a.call(p.t, http.MethodGet, "/api/knowledge", nil, &list)
	for _, d := range list.Data {
		if d.Name == name {
			return d.ID
		}
	}
	p.t.Fatalf("no document %s in %+v", name, list)
	return ""
}

// TestSpans opens parts of a run's timeline. A turn shows its tokens, its cost, the messages sent
// to the model, and the model's response. A tool call shows its input and output.
func TestSpans(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.document(t, "returns.md", "You may return any lamp within 45 days of its delivery.\n")
	priced := a.chat(t, a.agent(t, "Priced", map[string]any{"model": slowModel}), "s", "Hello")
	shop := a.agent(t, "Shop", map[string]any{"tools": map[string]any{"knowledge": on}})
	searched := a.chat(t, shop, "s", "How many days do I have to return a lamp?")
	p := open(t).signIn(a)
	p.visit("/dashboard/runs/" + priced.ID)
	p.click("button", "Turn 1…")
	turn := p.in("region", "Turn 1")
	for _, words := range []string{"Tokens in", "Tokens out", "Cost €0.0", slowModel} {
		turn.sees(words)
	}
	turn.in("region", "Output").sees("echo: Hello")
	turn.in("region", "Input").sees("Message Hello")

	p.visit("/dashboard/runs/" + searched.ID)
	p.click("button", "Turn 1…")
	p.in("region", "Turn 1").in("region", "Output").sees("Calls Knowledge How many days do I have to return a lamp?")
	p.click("button", "Turn 2…")
	last := p.in("region", "Turn 2")
	last.in("region", "Output").sees("within 45 days")
	received := last.in("region", "Input")
	received.sees("Message Answer of turn 1 Result of Knowledge")
	received.sees("within 45 days") // the newest message is already expanded
	last.in("region", "Input").is("link", "the session")
	p.inspect("span-turn")
	p.click("button", "Knowledge…")
	p.isNot("region", "Turn 2")
	call := p.in("region", "Knowledge")
	for _, words := range []string{"Input", "return a lamp", "Output", "within 45 days"} {
		call.sees(words)
	}
	var beside bool
	p.js(&beside, `() => {
		const [list, part] = [".timeline ol", ".inspector"].map((s) => document.querySelector(s).getBoundingClientRect());
		return part.left >= list.right && Math.abs(part.top - list.top) < 60;
	}`)
	if !beside {
		t.Error("the part is not shown beside the timeline")
	}

	p.inspect("span")
	call.click("button", "Close Knowledge")
	p.isNot("region", "Knowledge")
	p.resize(phone)
	for _, id := range []string{priced.ID, searched.ID} {
		p.visit("/dashboard/runs/" + id)
		p.is("heading", "Timeline")
		p.noTileAlone(t)
	}
}

// noTileAlone checks that no tile with a figure of a run is alone in its row. It checks this also
// for a run without an agent version, which has one tile fewer.
func (p *page) noTileAlone(t *testing.T) {
	t.Helper()
	var rows [2][]int
	p.js(&rows, `() => {
		const tiles = () => [...document.querySelectorAll(".measures > div")];
		const rows = () => Object.values(Object.groupBy(tiles(), (tile) => Math.round(tile.getBoundingClientRect().top))).map((row) => row.length);
		const all = rows();
		tiles()[3].remove();
		return [all, rows()];
	}`)
	if got, want := fmt.Sprint(rows), "[[3 2 2] [2 2 2]]"; got != want {
		t.Errorf("tiles in each row, with and without the agent version: %s, want %s", got, want)
	}
}

package browser

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
)

// lamp returns a picture of a lamp as a PNG file.
func lamp(t *testing.T) string {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 480, 320))
	for y := range 320 {
		for x := range 480 {
			img.SetNRGBA(x, y, color.NRGBA{R: 240, G: uint8(y * 2 / 3), B: uint8(x / 2), A: 255})
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// paste pastes a new image, together with texts, into the focused element. The argument texts is a
// JavaScript object that maps MIME types to texts. paste returns true if the page handled the
// event.
func (p *page) paste(texts string) (taken bool) {
	p.t.Helper()
	p.js(&taken, `async () => {
		const canvas = document.createElement("canvas");
		canvas.getContext("2d").fillRect(0, 0, 40, 30);
		const pasted = new DataTransfer();
		pasted.items.add(new File([await new Promise((done) => canvas.toBlob(done))], "image.png", { type: "image/png" }));
		for (const [type, text] of Object.entries(`+texts+`)) pasted.setData(type, text);
		return !focused().dispatchEvent(new ClipboardEvent("paste", { clipboardData: pasted, bubbles: true, cancelable: true }));
	}`)
	return taken
}

// drag drags files to the middle of the window, calls the function named over while the files hover
// there, and drops the files.
func (p *page) drag(over func(), files ...string) {
	p.t.Helper()
	p.dragTo(640, 450, over, files...)
}

// dragTo drags files to a point of the window, calls the function named over while the files hover
// there, and drops the files.
func (p *page) dragTo(x, y float64, over func(), files ...string) {
	p.t.Helper()
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: files, DragOperationsMask: 1}
	for _, event := range []input.DispatchDragEventType{
		input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop,
	} {
		if event == input.DispatchDragEventTypeDrop {
			over()
		}
		call(p, input.DispatchDragEvent, input.DispatchDragEventParams{Type: event, X: x, Y: y, Data: data})
	}
}

// TestAttachments attaches an image and documents to messages in three ways: with the file dialog,
// by pasting, and by dropping. The agent reads the files, and the chat shows them.
func TestAttachments(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + a.agent(t, "Reader", nil))
	p.is("button", "Attach files")
	p.upload(file(t, "lamp.png", lamp(t)))
	attached := p.in("list", "Attached files")
	attached.in("listitem", "lamp.png…").is("button", "Remove lamp.png")

	p.fill("Message", "How many days do I have to return a lamp?")
	if p.paste(`{ "text/plain": "a cell", "text/html": "<table><td>a cell</td></table>" }`) {
		t.Error("the picture of a copied text was attached")
	}
	if !p.paste(`{ "text/html": "<img>" }`) {
		t.Error("a pasted image was not attached")
	}
	attached.is("button", "Remove image.png")
	p.drag(func() {
		var words string
		p.until("the composer says that it takes the files", func() error {
			if p.js(&words, `() => document.getElementById("chat-message").placeholder`); words != "Drop the files to attach them" {
				return fmt.Errorf("placeholder = %q", words)
			}
			return nil
		})
	}, file(t, "returns.md", "# Returns\n\nYou may return any lamp within 45 days of its delivery.\n"))
	attached.is("button", "Remove returns.md")
	p.sees("Press Enter to send")
	p.inspect("attached")

	attached.click("button", "Remove image.png")
	attached.isNot("button", "Remove image.png")
	p.focusIs("textbox", "Message")
	p.press("Enter")
	turn := p.in("article", "Message: How many days…")
	turn.sees("45 days")
	turn.is("image", "lamp.png")
	var height string
	p.js(&height, `() => getComputedStyle(document.querySelector(".turn-attachments img")).maxHeight`)
	if height != "256px" {
		t.Errorf("maximum height of an attached picture = %s, want 256px", height)
	}
	turn.is("button", "Download lamp.png…")
	turn.is("button", "Download returns.md…")
	turn.is("link", "Run details")
	p.inspect("attached-sent")

	// The attached files are still shown after a reload.
	p.reload()
	turn = p.in("article", "Message: How many days…")
	turn.is("image", "lamp.png")
	turn.is("button", "Download returns.md…")

	// A message may consist of only a file. Lists of sessions and runs show the file's name instead
	// of a text.
	p.upload(file(t, "notes.md", "# Notes\n\nThe lamp needs oil.\n"))
	p.sees("Press Enter to send")
	p.is("button", "Remove notes.md")
	p.click("button", "Send message")
	turn = p.in("article", "Message: notes.md")
	turn.sees("notes.md: text/markdown")
	p.in("complementary", "Your sessions").is("button", "notes.md…")
	p.inspect("attached-only")
	p.reload()
	turn = p.in("article", "Message: notes.md")
	turn.is("button", "Download notes.md…")
	turn.click("link", "Run details")
	p.is("button", "Download notes.md…")
	p.inspect("attached-run")
	p.visit("/dashboard/runs")
	p.sees("notes.md")
	p.sees("How many days do I have to return a lamp?")
}

// TestRefusedAttachments attaches files that the service rejects. The page shows the reason beside
// each file, and the message can be sent only after these files have been removed.
func TestRefusedAttachments(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.watch.expect(http.StatusUnsupportedMediaType)
	p.visit("/dashboard/agents/" + a.agent(t, "Reader", map[string]any{"model": "offline/echo"}))
	p.fill("Message", "Hello")

	large := filepath.Join(t.TempDir(), "large.png")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 21<<20); err != nil {
		t.Fatal(err)
	}
	program := file(t, "program.bin", "\x7fELF\x00\x01"+strings.Repeat("\x00\xff", 200))
	p.upload(large, program, file(t, "empty.txt", ""), file(t, "note.txt", "A note."))
	attached := p.in("list", "Attached files")
	attached.in("listitem", "large.png…").sees("The file’s size is 21.0 MiB. The limit is 20 MiB.")
	attached.in("listitem", "empty.txt…").sees("The file is empty.")
	attached.in("listitem", "program.bin…").sees("type")
	attached.isNot("button", "Try again…") // because the service would reject the same file again
	p.sees("Remove the files that failed")
	p.inspect("attached-refused")
	p.fill("Message", "Hello again")
	p.press("Enter")
	p.isNot("article", "Message: Hello again")

	for _, name := range []string{"large.png", "program.bin", "empty.txt"} {
		attached.click("button", "Remove "+name)
		attached.isNot("button", "Remove "+name)
	}
	more := make([]string, 10)
	for i := range more {
		more[i] = file(t, fmt.Sprintf("part%d.txt", i), "A part.")
	}
	p.upload(more...)
	p.sees("A message can have at most 10 files. Not attached: part9.txt.")
	attached.is("button", "Remove part8.txt")
	p.sees("Press Enter to send")
	p.inspect("attached-many")
}

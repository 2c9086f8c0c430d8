package pdf
import ("testing";"os";"os/exec";"bytes";"parley/workers/internal/parse";"parley/workers/internal/document";"encoding/json";"io")
func BenchmarkTry(b *testing.B) {
	text, err := exec.Command("pdftotext","-bbox-layout",os.Getenv("TRY"),"-").Output()
	if err != nil { b.Fatal(err) }
	for b.Loop() {
		s := newScanner(bytes.NewReader(text))
		sz := sizes{}
		enc := json.NewEncoder(io.Discard)
		out := parse.NewWriter(parse.Limits{}, func(e document.Event) error { return enc.Encode(e) })
		p := &page{}
		for s.next(p) == nil {
			sz.add(p)
			out.Page(p.number)
			if err := tellPage(p, sz.body(), out.Put); err != nil { b.Fatal(err) }
		}
	}
}

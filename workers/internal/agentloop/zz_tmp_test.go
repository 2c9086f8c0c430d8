package agentloop
import ("testing";"strings";"time";"fmt";"parley/shared/domain")
func TestZZ(t *testing.T) {
  p := passages{}
  var m strings.Builder
  for i := 1; i<=300; i++ { p[i] = &passage{source: domain.Citation{ID:i, CitedText: strings.Repeat("the word tower stands. ", 150)}}; fmt.Fprintf(&m, "[%d]", i) }
  for _, w := range []string{strings.Repeat("word ", 9000), func() string { var b strings.Builder; for i:=range 9000 { fmt.Fprintf(&b, "w%d ", i) }; return b.String() }()} {
    f := newFilter(p.check, func(string){}); f.write(w+m.String()); out := f.finish()
    b := time.Now(); p.citations(out, f.marks, 0); t.Log(len(out), time.Since(b))
  }
}

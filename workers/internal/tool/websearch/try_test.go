package websearch
import ("testing";"os";"context";"path/filepath";"time";"strings";"golang.org/x/net/html")
func TestTry(t *testing.T){
 dir:="/root/go/pkg/mod/github.com/go-shiori/go-readability@v0.0.0-20251205110129-5db1dc9836f0/test-pages"
 ds,_:=os.ReadDir(dir)
 set:=func(s string) map[string]bool { m:=map[string]bool{}; eachWord(s,func(w string){m[w]=true}); return m}
 var sumR,sumP float64; n:=0; var worst time.Duration
 for _,d:=range ds { b,err:=os.ReadFile(filepath.Join(dir,d.Name(),"source.html")); if err!=nil {continue}
  e,_:=os.ReadFile(filepath.Join(dir,d.Name(),"expected.html"))
  s:=time.Now(); p,err:=mainText(context.Background(),string(b),""); took:=time.Since(s); worst=max(worst,took)
  doc,_:=html.Parse(strings.NewReader(string(e))); want:=set(render(doc)); 
  got:=map[string]bool{}; if p!=nil { got=set(p.text)}
  hit:=0; for w:=range want { if got[w] {hit++}}
  r:=float64(hit)/float64(max(1,len(want))); pr:=float64(hit)/float64(max(1,len(got))); sumR+=r; sumP+=pr; n++
  if r<0.9 || pr<0.5 { t.Logf("%-35s recall %.2f precision %.2f %v %v",d.Name(),r,pr,took.Round(time.Millisecond),err)}
 }
 t.Logf("n %d recall %.3f precision %.3f worst %v",n,sumR/float64(n),sumP/float64(n),worst)
}

//go:build linux

package extract

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// spell is the beginning of a document that makes the reader misbehave, as if the document had
// taken control of the reader. The rest of the document names the behavior.
const spell = "take over: "

const hello = protocol

// canary is a text in test documents. It must not occur in any log.
const canary = "Katharina-Weber-born-1961"

// spells contains the behaviors of a reader that a document has taken control of.
var spells = map[string]func(){
	"says nothing":       func() { select {} },
	"ends at once":       func() {},
	"is another version": func() { fmt.Print("parley-reader 0\n") },
	"ends after hello":   func() { fmt.Print(hello) },
	"crashes":            func() { fmt.Print(hello); panic("crash") },
	"hangs after hello":  func() { fmt.Print(hello); select {} },
	"no json":            func() { fmt.Print(hello + "{\"pages\":\n") },
	"two in a line":      func() { fmt.Print(hello + `{"done":1}{"done":2}` + "\n") },
	"unknown field":      func() { fmt.Print(hello + `{"doing":1}` + "\n") },
	"nothing in it":      func() { fmt.Print(hello + `{}` + "\n") },
	"two at once":        func() { fmt.Print(hello + `{"done":1,"pages":1}` + "\n") },
	"no utf-8":           func() { fmt.Print(hello + "{\"block\":{\"k\":\"paragraph\",\"t\":\"\xff\"}}\n") },
	"control":            func() { respond(`{"block":{"k":"paragraph","t":"a\u0000b"}}`) },
	"override":           func() { respond(`{"block":{"k":"paragraph","t":"a\u202eb"}}`) },
	"empty":              func() { respond(`{"block":{"k":"paragraph","t":""}}`) },
	"no kind":            func() { respond(`{"block":{"k":"script","t":"x"}}`) },
	"level 9":            func() { respond(`{"block":{"k":"heading","l":9,"t":"x"}}`) },
	"level of none":      func() { respond(`{"block":{"k":"item","l":1,"t":"x"}}`) },
	"head of none":       func() { respond(`{"block":{"k":"item","h":true,"t":"x"}}`) },
	"box without page":   func() { respond(`{"block":{"k":"item","t":"x","b":[0,0,1,1]}}`) },
	"box inside out":     func() { respond(`{"block":{"k":"item","p":1,"t":"x","b":[5,0,1,1]}}`) },
	"box of nowhere":     func() { respond(`{"block":{"k":"item","p":1,"t":"x","b":[0,0,1e300,1]}}`) },
	"page -1":            func() { respond(`{"block":{"k":"item","p":-1,"t":"x"}}`) },
	"page 4 of 3":        func() { respond(`{"pages":3}`, `{"block":{"k":"item","p":4,"t":"x"}}`) },
	"pages twice":        func() { respond(`{"pages":3}`, `{"pages":3}`) },
	"no pages":           func() { respond(`{"pages":0}`) },
	"pages back":         func() { respond(`{"block":{"k":"item","p":2,"t":"x"}}`, `{"block":{"k":"item","p":1,"t":"x"}}`) },
	"page after all":     func() { respond(`{"block":{"k":"item","t":"x"}}`, `{"block":{"k":"item","p":1,"t":"x"}}`) },
	"done twice":         func() { respond(`{"done":1}`, `{"done":1}`) },
	"block of done":      func() { respond(`{"done":1}`, `{"block":{"k":"item","p":1,"t":"x"}}`) },
	"end of nothing":     func() { respond(`{"end":{"mimeType":"text/plain"}}`) },
	"end without type":   func() { respond(`{"block":{"k":"item","t":"x"}}`, `{"end":{"mimeType":""}}`) },
	"end with fewer":     func() { respond(`{"block":{"k":"item","p":5,"t":"x"}}`, `{"end":{"mimeType":"a/b","pages":4}}`) },
	"end with controls":  func() { respond(`{"block":{"k":"item","t":"x"}}`, `{"end":{"mimeType":"a/b","title":"a\nb"}}`) },
	"a hundred notes": func() {
		respond(`{"block":{"k":"item","t":"x"}}`, `{"end":{"mimeType":"a/b","notes":[`+strings.Repeat(`"n",`, 99)+`"n"]}}`)
	},
	"code of another": func() { respond(`{"failure":{"code":"quota_exceeded","message":"pay"}}`) },
	"long message":    func() { respond(`{"failure":{"code":"damaged","message":"` + strings.Repeat("m", 3000) + `"}}`) },
	"says damaged":    func() { respond(`{"failure":{"code":"damaged","message":"It is."}}`) },
	"long block":      func() { respond(`{"block":{"k":"item","t":"` + strings.Repeat("x", 40<<10) + `"}}`) },
	"endless line": func() {
		fmt.Print(hello)
		for piece := bytes.Repeat([]byte("x"), 64<<10); ; {
			_, _ = os.Stdout.Write(piece)
		}
	},
	"endless blocks": func() {
		fmt.Print(hello)
		for piece := []byte(strings.Repeat(`{"block":{"k":"item","t":"`+strings.Repeat("x", 1000)+`"}}`+"\n", 60)); ; {
			_, _ = os.Stdout.Write(piece)
		}
	},
	"endless small blocks": func() {
		fmt.Print(hello)
		for piece := []byte(strings.Repeat(`{"block":{"k":"item","t":"x"}}`+"\n", 2000)); ; {
			_, _ = os.Stdout.Write(piece)
		}
	},
	"takes memory": func() {
		fmt.Print(hello)
		var all [][]byte
		for {
			all = append(all, bytes.Repeat([]byte("m"), 16<<20))
			runtime.KeepAlive(all)
		}
	},
	"takes time": func() {
		fmt.Print(hello)
		for n := 0; n >= 0; n ^= 1 {
			runtime.KeepAlive(n)
		}
	},
	"takes room": func() {
		fmt.Print(hello)
		for i := 0; ; i++ {
			_ = os.WriteFile(fmt.Sprintf("%s/%d", []string{"/work", "/tmp"}[i%2], i), make([]byte, 4<<20), 0o600)
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // this reader must wait while the limits are tested
		}
	},
	"canary on stderr":     func() { fmt.Print(hello); fmt.Fprintln(os.Stderr, canary); os.Exit(1) }, //nolint:revive // acts as a main function
	"canary before hello":  func() { fmt.Fprintln(os.Stderr, canary); os.Exit(1) },                   //nolint:revive // as above
	"canary as hello":      func() { fmt.Println(canary) },
	"canary as end":        func() { fmt.Print(canary) },
	"canary in panic":      func() { fmt.Print(hello); panic(canary) },
	"canary as kind":       func() { respond(`{"block":{"k":"` + canary + `","t":"x"}}`) },
	"canary as field":      func() { respond(`{"` + canary + `":1}`) },
	"canary as value":      func() { respond(`{"pages":"` + canary + `"}`) },
	"canary as type":       func() { respond(`{"block":{"k":"item","t":{"` + canary + `":1}}}`) },
	"canary as line":       func() { respond(canary) },
	"canary as half":       func() { fmt.Print(hello + canary) },
	"canary as code":       func() { respond(`{"failure":{"code":"` + canary + `","message":"x"}}`) },
	"canary as title":      func() { respond(`{"block":{"k":"item","t":"x"}}`, `{"end":{"mimeType":"a/b","title":"`+canary+`\n"}}`) },
	"canary behind a line": func() { respond(`{"done":1} ` + canary) },
	"leaves others": func() {
		fmt.Print(hello)
		for range 5 {
			_ = exec.Command("/usr/bin/setsid", "/usr/bin/sleep", "10000").Start()
		}
		printLines(`{"block":{"k":"item","t":"x"}}`, `{"end":{"mimeType":"a/b"}}`)
		select {}
	},
	"sleeps on after the end": func() {
		respond(`{"block":{"k":"item","t":"x"}}`, `{"end":{"mimeType":"a/b"}}`)
		select {}
	},
}

func respond(lines ...string) {
	fmt.Print(hello)
	printLines(lines...)
}

func printLines(lines ...string) { fmt.Print(strings.Join(lines, "\n") + "\n") }

// In a sandbox, misbehave runs the behavior that the document names. If the document names no
// behavior, misbehave does nothing.
func misbehave() {
	if os.Args[0] != programPath {
		return
	}
	content, err := os.ReadFile(documentPath)
	if err != nil {
		return
	}
	what, is := strings.CutPrefix(string(content), spell)
	if !is {
		return
	}
	go time.AfterFunc(time.Minute, func() { os.Exit(3) }) //nolint:revive // without this goroutine, Go reports the select as a deadlock
	spells[what]()
	os.Exit(0) //nolint:revive // acts as a main function
}

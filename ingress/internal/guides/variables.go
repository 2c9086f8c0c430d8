package guides

import (
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// LocalURL is the URL of Parley in the text of pages. The service shows its own URL instead.
const LocalURL = "http://127.0.0.1:8080"

// variables are the variables that the code of pages uses, with an example of their value and, as
// HTML, where readers find their own value. The field source is "" for a variable that needs no
// explanation. The order is that of the explanation.
var variables = []struct{ name, example, source string }{
	{"PARLEY_BASE_URL", LocalURL, ""},
	{
		"PARLEY_API_KEY", "ak_…",
		`For <code>PARLEY_API_KEY</code>, create an API key under <a href="/dashboard/org">Organization</a>.`,
	},
	{"AGENT_ID", "ag_…", `<code>AGENT_ID</code> is the id on an agent’s page under <a href="/dashboard/agents">Agents</a>.`},
	{"RUN", "run_…", `<code>RUN</code> is the last part of the address of a run’s page under <a href="/dashboard/runs">Runs</a>.`},
}

var (
	// readers matches the languages of code that reads environment variables. Blocks of other
	// languages are not executed.
	readers = regexp.MustCompile(`^(sh|js|python|go)$`)
	// mentions matches the name of a variable, and the equals sign if a value is assigned to the
	// variable.
	mentions = regexp.MustCompile(`\b(PARLEY_BASE_URL|PARLEY_API_KEY|AGENT_ID|RUN)\b(=?)`)
)

// explainVariables inserts an explanation of how to set the variables of a page's code before the
// first code that uses a variable. It omits variables that the page itself sets before their first
// use. It changes the tree. A page whose code uses no variable stays unchanged.
func explainVariables(root ast.Node, source []byte) {
	var first *ast.FencedCodeBlock
	set, used := map[string]bool{}, map[string]bool{}
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		block, ok := n.(*ast.FencedCodeBlock)
		if !ok || !entering || !readers.Match(block.Language(source)) {
			return ast.WalkContinue, nil
		}
		found := mentions.FindAllSubmatch(block.Lines().Value(source), -1)

		// A block that sets a variable anywhere is treated as if it set the variable before the
		// first use.
		for _, m := range found {
			set[string(m[1])] = set[string(m[1])] || len(m[2]) > 0
		}
		for _, m := range found {
			if name := string(m[1]); !set[name] {
				used[name] = true
				if first == nil {
					first = block
				}
			}
		}
		return ast.WalkContinue, nil
	})

	if first == nil {
		return
	}

	shown := ast.NewString([]byte(explanation(used)))
	shown.SetCode(true) // its value is HTML
	box := ast.NewTextBlock()
	box.AppendChild(box, shown)
	first.Parent().InsertBefore(first.Parent(), first, box)
}

// explanation returns, as HTML, how to set variables. Variables are in the order of the list
// variables. used must contain at least one of them.
func explanation(used map[string]bool) string {
	var names, commands, sources []string
	for _, v := range variables {
		if !used[v.name] {
			continue
		}
		names = append(names, "<code>$"+v.name+"</code>")
		commands = append(commands, "export "+v.name+"="+v.example)
		if v.source != "" {
			sources = append(sources, v.source)
		}
	}

	list := names[len(names)-1]
	if len(names) > 1 {
		list = strings.Join(names[:len(names)-1], ", ") + " and " + list
	}

	out := `<details class="variables"><summary>Set ` + list + ` first</summary>` +
		"<p>The code on this page reads them from the environment. In your shell:</p>" +
		`<pre><code class="language-sh">` + strings.Join(commands, "\n") + "\n</code></pre>"
	if len(sources) > 0 {
		out += "<p>" + strings.Join(sources, " ") + "</p>"
	}
	return out + "</details>"
}

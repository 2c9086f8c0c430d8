package clients

import (
	"os/exec"
	"path/filepath"
	"testing"

	"parley/scripts/internal/fenced"
	"parley/shared/testkit"
)

// examplesOf prints the examples of the tab "Use it" on an agent's page.
const examplesOf = `import * as examples from "./examples.mjs";
const where = { baseUrl: process.env.PARLEY_BASE_URL, id: process.env.AGENT_ID };
const of = (name) => Object.entries(examples[name](where)).map(([language, text]) => ({ name, language, text }));
console.log(JSON.stringify(["chat", "stream", "connect", "speak", "automation"].flatMap(of)));`

// enablingVoice is the page's command by which an admin enables voice for an agent.
const enablingVoice = `curl -sS -X PUT "$PARLEY_BASE_URL/api/agents?id=$AGENT_ID" -H "x-api-key: $PARLEY_API_KEY" \
  -H 'content-type: application/json' -d '{"tools":{"voice":{"enabled":true}}}'
`

// speaks reports whether a speech program is installed.
func speaks() bool {
	_, err := exec.LookPath("espeak-ng")
	return err == nil
}

// TestDashboardExamples runs the dashboard's examples of calling an agent.
func TestDashboardExamples(t *testing.T) {
	t.Parallel()
	root := testkit.Root(t)
	r := newReader(t, root)
	source := filepath.Join(root, "ingress", "web", "dashboard", "pages", "agent", "examples.ts")
	succeed(t, r.dir, nil, filepath.Join(root, "bin", "esbuild"), source, "--format=esm", "--outfile=examples.mjs")
	r.save(t, "print.mjs", []byte(examplesOf))
	var examples []struct{ Name, Language, Text string }
	decode(t, []byte(r.run(t, "examples.ts", needsNode(t), "print.mjs")), &examples)
	kinds := map[string]string{
		"curl": "sh", "cron": "cron", "JavaScript": "js", "Python": "python", "TypeScript SDK": "js", "Python SDK": "python",
		"OpenAI, Node.js": "js", "MCP": "json", "Command line": "sh", "Node.js": "js",
	}

	languages["sh"](r, t, fenced.Block{Document: "enabling voice", Language: "sh", Text: enablingVoice})
	ran := 0
	for _, e := range examples {
		language, runs := kinds[e.Language]
		switch {
		case e.Language == "OpenAI, Python":
			t.Logf("NOT TESTED: %s, %s: its package is not available here; the same requests are made by the other clients of OpenAI", e.Name, e.Language)
			continue
		case e.Name == "speak" && !speaks():
			t.Logf("NOT TESTED: %s, %s: there is no espeak-ng (scripts/setup test installs it)", e.Name, e.Language)
			continue
		case !runs:
			t.Errorf("no test runs examples in %s", e.Language)
			continue
		}
		languages[language](r, t, fenced.Block{Document: e.Name + ", " + e.Language, Language: language, Text: e.Text + "\n"})
		ran++
	}

	if want := 12; ran < want { // without the voice example
		t.Errorf("%d examples ran, want %d at least", ran, want)
	}
}

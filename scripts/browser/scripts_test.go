package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/shared/testkit"
)

// TestScripts runs the TypeScript unit tests of the service's pages in the browser. Each *.test.ts
// file below ingress/web exports `tests: { name: string; run(): void | Promise<void> }[]`. A test
// fails by throwing an error. A short test omits the files whose tests have succeeded on this
// machine with the same inputs.
func TestScripts(t *testing.T) {
	t.Parallel()
	web := filepath.Join(testkit.Root(t), "ingress", "web")
	files, err := filepath.Glob(filepath.Join(web, "*", "*.test.ts"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no script tests below %s: %v", web, err)
	}

	out, proven := bundled(t, web, files), newProofs(t)
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	t.Cleanup(server.Close)
	scripts := map[string]place{}
	for _, file := range files {
		name, err := filepath.Rel(web, file)
		if err != nil {
			t.Fatal(err)
		}
		name = strings.TrimSuffix(name, ".ts")
		scripts[name] = place{path: "/" + name + ".js"}
		if file := proven.file(t, filepath.Join(out, name+".js")); testing.Short() && testkit.Used(file) {
			t.Logf("not repeated: %s succeeded with the same inputs; to repeat it, remove %s", name, file)
			delete(scripts, name)
		}
	}
	walk(t, min(2, len(scripts)), nil, scripts, func(p *page, _ string, at place) {
		proven.record(p.t, proven.file(t, filepath.Join(out, at.path)))
		p.watch.talksTo(strings.TrimPrefix(server.URL, "http://"))
		p.visitURL(server.URL + "/page.html")
		runTests(p, at.path)
	})
}

// bundled returns a new directory that contains a bundled script for each file, and a page that can
// load the scripts.
func bundled(t *testing.T, web string, files []string) string {
	t.Helper()
	out := t.TempDir()
	esbuild := filepath.Join(testkit.Root(t), "bin", "esbuild")
	if _, err := os.Stat(esbuild); err != nil {
		t.Fatalf("%v: make bin/esbuild", err)
	}

	args := append([]string{
		"--bundle", "--format=esm", "--target=es2022", "--jsx=automatic", "--jsx-import-source=preact",
		"--sourcemap=inline", "--log-level=warning", "--outbase=" + web, "--outdir=" + out,
	}, files...)

	command := exec.CommandContext(t.Context(), esbuild, args...)
	command.Dir = web
	command.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(web, "third_party"))
	if printed, err := command.CombinedOutput(); err != nil {
		t.Fatalf("bundling tests: %v\n%s", err, printed)
	}

	const empty = `<!doctype html><html lang="en"><head><title>Tests</title><link rel="icon" href="data:,"></head><body></body></html>`
	if err := os.WriteFile(filepath.Join(out, "page.html"), []byte(empty), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// runTests loads a script in the page's main JavaScript world, and runs each test that the script
// exports.
func runTests(p *page, script string) {
	p.t.Helper()
	names := promised[[]string](p, fmt.Sprintf(`import(%q).then(({ tests }) => tests.map((t) => t.name))`, script))
	if len(names) == 0 {
		p.t.Fatalf("%s exports no tests", script)
	}

	for i, name := range names {
		p.t.Run(name, func(t *testing.T) {
			thrown := promised[string](p, fmt.Sprintf(
				`import(%q).then(async ({ tests }) => tests[%d].run()).then(() => "", (e) => String(e?.stack ?? e) || "nothing was thrown")`, script, i))
			if thrown != "" {
				t.Error(thrown)
			}
		})
	}
}

// promised awaits a promise in the page's main world.
func promised[T any](p *page, expression string) T {
	p.t.Helper()
	result, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	p.must(err, "evaluating "+expression)
	return result
}

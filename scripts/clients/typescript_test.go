package clients

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/scripts/internal/faultproxy"
	"parley/scripts/internal/fenced"
	"parley/shared/testkit"
)

// typeScript contains the packaged TypeScript SDK, built with the commands of its README. Its
// fields are the package, a project that uses the package, and the source directory, which contains
// the compiler. They are in a directory of the cache, so tests must not change them.
var typeScript struct {
	sync.Mutex

	tarball, project, source string
}

// typeScriptInputs returns the hash of the SDK's sources and of the programs that build and run it.
func typeScriptInputs(t *testing.T) *inputs {
	t.Helper()
	node := needsNode(t)
	versions := succeed(t, "/", nil, node, "--version") + succeed(t, "/", nil, "npm", "--version")
	return of(typeScriptInstall(t).Text, versions).programs(t, node, "npm").environment().files(t, "sdk", "typescript").
		files(t, "scripts", "clients", "typescript_test.go")
}

// packsTypeScript builds the package as the SDK's README describes, in a fresh checkout next to a
// project.
func packsTypeScript(t *testing.T) {
	t.Helper()
	needsNode(t)
	typeScript.Lock()
	defer typeScript.Unlock()
	if typeScript.tarball != "" {
		return
	}

	dir := cached(t, "typescript", typeScriptInputs(t), func(draft string) {
		from, checkout := filepath.Join(testkit.Root(t), "sdk", "typescript"), filepath.Join(draft, "parley")
		source := filepath.Join(checkout, "sdk", "typescript")
		copyFiles(t, from, source)
		copyFiles(t, filepath.Join(from, "src"), filepath.Join(source, "src"))
		env := []string{"npm_config_audit=false", "npm_config_fund=false", "npm_config_prefer_offline=true"}
		succeed(t, checkout, env, "sh", "-euc", typeScriptInstall(t).Text)
	})
	project := filepath.Join(dir, "my-project")
	made, err := filepath.Glob(filepath.Join(project, "parley-sdk-*.tgz"))
	if err != nil || len(made) != 1 {
		t.Fatalf("building the package: %v, error %v", made, err)
	}

	typeScript.tarball, typeScript.project, typeScript.source = made[0], project, filepath.Join(dir, "parley", "sdk", "typescript")
}

// typeScriptInstall returns the README's block that builds and installs the package.
func typeScriptInstall(t *testing.T) fenced.Block {
	t.Helper()
	blocks := slices.DeleteFunc(typeScriptBlocks(t), func(b fenced.Block) bool { return b.Language != "sh" })
	if len(blocks) != 1 {
		t.Fatalf("README has %d command blocks, want 1", len(blocks))
	}
	return blocks[0]
}

// unpackTypeScript extracts the package's files into a directory.
func unpackTypeScript(t *testing.T, into string) {
	t.Helper()
	packsTypeScript(t)
	if err := os.MkdirAll(into, 0o700); err != nil {
		t.Fatal(err)
	}
	succeed(t, into, nil, "tar", "-xzf", typeScript.tarball, "--strip-components=1")
}

// typeScriptProject creates an empty project that contains only the SDK.
func typeScriptProject(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	save(t, dir, "package.json", `{"private": true, "type": "module"}`)
	unpackTypeScript(t, filepath.Join(dir, "node_modules", "parley-sdk"))
	return dir
}

// typeScriptScript runs scripts/clients/typescript/<script> in a new project and returns its
// output.
func (s *testEnv) typeScriptScript(t *testing.T, script string, env ...string) string {
	t.Helper()
	dir := typeScriptProject(t)
	copyFiles(t, filepath.Join(testkit.Root(t), "scripts", "clients", "typescript"), dir)
	features := filepath.Join(t.TempDir(), "features")
	printed := succeed(t, dir, s.env(append(env, "FEATURES="+features)...), needsNode(t), script)
	provesAll(t, features)
	return printed
}

func save(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTypeScriptPackage checks that the npm package contains no files besides those that users
// need.
func TestTypeScriptPackage(t *testing.T) {
	t.Parallel()
	needsNode(t)
	packsTypeScript(t)
	tarball := typeScript.tarball
	allowed := regexp.MustCompile(`^package/(LICENSE|README\.md|package\.json|dist/[a-z]+\.(js|js\.map|d\.ts))$`)
	names := strings.Fields(succeed(t, t.TempDir(), nil, "tar", "-tzf", tarball))
	for _, name := range names {
		if !allowed.MatchString(name) {
			t.Errorf("package contains %s", name)
		}
	}

	for _, must := range []string{"LICENSE", "README.md", "dist/index.js", "dist/index.d.ts", "dist/types.d.ts"} {
		if !slices.Contains(names, "package/"+must) {
			t.Errorf("package contains %v, want %s", names, must)
		}
	}

	var manifest map[string]any
	decode(t, []byte(succeed(t, t.TempDir(), nil, "tar", "-xzOf", tarball, "package/package.json")), &manifest)
	if manifest["version"] != contractVersion(t) || manifest["name"] != "parley-sdk" || manifest["license"] != "Apache-2.0" {
		t.Errorf("%v %v %v", manifest["name"], manifest["version"], manifest["license"])
	}

	for _, needs := range []string{"dependencies", "peerDependencies", "optionalDependencies", "bundledDependencies"} {
		if manifest[needs] != nil {
			t.Errorf("%s: %v", needs, manifest[needs])
		}
	}

	scripts, _ := manifest["scripts"].(map[string]any)
	for _, hook := range []string{"preinstall", "install", "postinstall", "prepare"} {
		if scripts[hook] != nil {
			t.Errorf("the package has an install script: %v", scripts[hook])
		}
	}

	file, err := os.Stat(tarball)
	if err != nil || file.Size() > 110<<10 {
		t.Errorf("package size = %d bytes, %v", file.Size(), err)
	}
}

// TestTypeScriptUnits runs the SDK's unit tests against the built package.
func TestTypeScriptUnits(t *testing.T) {
	t.Parallel()
	needsNode(t)
	unlessProven(t, "typescript-units", typeScriptInputs(t), func() { typeScriptUnits(t) })
}

func typeScriptUnits(t *testing.T) {
	t.Helper()
	dir := typeScriptProject(t)
	copyFiles(t, filepath.Join(testkit.Root(t), "sdk", "typescript", "test"), dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.test.mjs"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}

	printed := succeed(t, dir, nil, needsNode(t), append([]string{"--test", "--test-reporter=tap"}, files...)...)
	for _, want := range []string{"\n# fail 0\n", "\n# skipped 0\n", "\n# todo 0\n"} {
		if !strings.Contains(printed, want) {
			t.Errorf("no %q in\n%s", want, printed)
		}
	}
}

// TestTypeScriptTypes compiles a program that uses the package, and the README's programs, with
// each of TypeScript's module resolutions. Lines marked with @ts-expect-error must not compile; if
// such a line compiles, the test fails.
func TestTypeScriptTypes(t *testing.T) {
	t.Parallel()
	needsNode(t)
	dir := typeScriptProject(t)
	source := typeScript.source
	copyFiles(t, filepath.Join(testkit.Root(t), "scripts", "clients", "typescript"), dir)
	files := []string{"consumer.ts"}
	for _, b := range typeScriptPrograms(t) {
		files = append(files, fmt.Sprintf("line-%d.mts", b.Line))
		save(t, dir, files[len(files)-1], b.Text)
	}

	nodeTypes := fmt.Sprintf(`"types": ["node"], "typeRoots": [%q]`, filepath.Join(source, "node_modules", "@types"))
	for name, project := range map[string]struct {
		options string
		files   []string
	}{
		"bundler":  {`"module": "esnext", "moduleResolution": "bundler", "lib": ["es2022", "dom", "dom.asynciterable"], "types": []`, files[:1]},
		"nodenext": {`"module": "nodenext", "moduleResolution": "nodenext", "lib": ["es2022", "dom"], "types": []`, files[:1]},
		"node":     {`"module": "nodenext", "moduleResolution": "nodenext", "lib": ["es2023"], ` + nodeTypes, files},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const strict = `"target": "es2022", "strict": true, "noUncheckedIndexedAccess": true, "skipDefaultLibCheck": true, "noEmit": true`
			settings := fmt.Sprintf(`{"compilerOptions": {%s, %s}, "files": %s}`, strict, project.options, encoded(t, project.files))
			in := typeScriptInputs(t).and(name, settings).files(t, "scripts", "clients", "typescript", "consumer.ts")
			unlessProven(t, "typescript-types", in, func() {
				save(t, dir, "tsconfig."+name+".json", settings)
				if got := execute(t, dir, nil, filepath.Join(source, "node_modules", ".bin", "tsc"), "-p", "tsconfig."+name+".json"); got.code != 0 {
					t.Error(got.stdout)
				}
			})
		})
	}
}

// typeScriptPrograms returns the blocks of the package's README that are programs.
func typeScriptPrograms(t *testing.T) []fenced.Block {
	t.Helper()
	programs := slices.DeleteFunc(typeScriptBlocks(t), func(b fenced.Block) bool { return b.Language != "ts" })
	if len(programs) < 8 {
		t.Fatalf("README has %d programs, want at least 8", len(programs))
	}
	return programs
}

func typeScriptBlocks(t *testing.T) []fenced.Block {
	t.Helper()
	return blocksFor(t, testkit.Root(t), "sdk/typescript/README.md")
}

// TestTypeScriptReadme runs every block of the package's README unchanged: first the install
// command, then the programs in the resulting project. Node can run the programs, because they are
// valid JavaScript.
func TestTypeScriptReadme(t *testing.T) {
	t.Parallel()
	node := needsNode(t)
	s := withTestEnv(t)
	packsTypeScript(t)
	installedTypeScript(t)
	for _, b := range typeScriptBlocks(t) {
		if b.Language != "ts" && b.Language != "sh" {
			t.Errorf("%s: no test runs blocks of the language %q", b, b.Language)
		}
	}

	dir := t.TempDir() // refers to the packages of the project, which other test processes share
	if err := os.Symlink(filepath.Join(typeScript.project, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	for _, b := range typeScriptPrograms(t) {
		name := fmt.Sprintf("line-%d", b.Line)
		save(t, dir, name+".mjs", b.Text)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed := succeed(t, dir, s.env(), node, name+".mjs")
			if strings.TrimSpace(printed) == "" {
				t.Error("the program printed nothing")
			}
		})
	}
}

// installedTypeScript checks the effects of the README's commands: the project contains the
// package, and the checkout contains no new files.
func installedTypeScript(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(typeScript.project, "node_modules", "parley-sdk", "dist", "index.js")); err != nil {
		t.Error(err)
	}

	var manifest struct{ Dependencies map[string]string }
	raw, err := os.ReadFile(filepath.Join(typeScript.project, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	if decode(t, raw, &manifest); manifest.Dependencies["parley-sdk"] == "" {
		t.Errorf("the project does not depend on the package: %s", raw)
	}

	checkout := filepath.Dir(filepath.Dir(typeScript.source))
	for _, left := range []string{"parley-sdk-*.tgz", "package.json", "node_modules"} {
		if found, err := filepath.Glob(filepath.Join(checkout, left)); err != nil || len(found) > 0 {
			t.Errorf("installing left %v in the checkout, %v", found, err)
		}
	}
}

// TestTypeScriptSurface calls every method of the client. Together, the methods must send requests
// for all operations that the SDKs support.
func TestTypeScriptSurface(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	stub := s.agent(t, map[string]any{"model": "openai/stub"})
	door := s.faults(t).Pass()
	s.typeScriptScript(t, "surface.mjs", "PARLEY_BASE_URL="+door.URL, "STUB_ID="+stub, "ASKS_ID="+s.asks(t), "ASKS_MESSAGE="+booksFor("TS-asks"))
	s.typeScriptScript(t, "resources.mjs", "PARLEY_BASE_URL="+door.URL, "LEDGER="+s.ledger.url)
	checkRequested(t, door.Requests())
	if requests, _ := s.ledger.of("TS-asks"); requests != 0 {
		t.Errorf("the rejected call was executed %d times", requests)
	}
}

// TestTypeScriptEffects drops the first response to each call, after the service has accepted the
// request. The client's retries attach to the existing runs, and each run has one effect.
func TestTypeScriptEffects(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	door := s.faults(t).DropFirst()
	printed := s.typeScriptScript(t, "effects.mjs", "DOOR="+door.URL, "BOOKS_ID="+s.books(t, nil),
		"CHAT_MESSAGE="+booksFor("TS-chat"), "STREAM_MESSAGE="+booksFor("TS-stream"), "AUTOMATION_MESSAGE="+booksFor("TS-automation"))
	var runs []string
	decode(t, []byte(printed), &runs)
	if len(runs) != 3 {
		t.Fatalf("runs = %v", runs)
	}

	for _, bill := range []string{"TS-chat", "TS-stream", "TS-automation"} {
		if requests, effects := s.ledger.of(bill); requests != 1 || effects != 1 {
			t.Errorf("%s: %d requests, %d effects", bill, requests, effects)
		}
	}

	chats, automations := door.Sent(http.MethodPost, "/api/agents"), door.Sent(http.MethodPost, "/api/internal/run-automation")
	if len(chats) != 4 || len(automations) != 2 || door.Faults() != 3 {
		t.Fatalf("%d faults: %+v", door.Faults(), door.Requests())
	}

	for i := 0; i < len(chats); i += 2 {
		lost, again := chats[i], chats[i+1]
		if lost.Fault != "dropped" || again.Fault != "" || lost.IdempotencyKey == "" || lost.IdempotencyKey != again.IdempotencyKey {
			t.Errorf("%+v %+v", lost, again)
		}
	}
}

// TestTypeScriptCuts interrupts a run's stream ten times while the run executes, and ten times
// after the run has finished. A demo visitor's stream is interrupted twice.
func TestTypeScriptCuts(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	const cuts, after, seed = 10, 420, 20261122
	proxy := s.faults(t)
	doors := []*faultproxy.Door{proxy.CutStreams(cuts, after, seed), proxy.CutStreams(cuts, after, seed+1), proxy.CutStreams(2, after, seed+2)}
	urls := []string{doors[0].URL, doors[1].URL, doors[2].URL}
	stub := s.agent(t, map[string]any{"model": "openai/stub"})
	s.typeScriptScript(t, "cuts.mjs", "STUB_ID="+stub, "PREFIX=slowly", "DOORS="+string(encoded(t, urls)))
	for i, want := range []int{cuts, cuts, 2} {
		if doors[i].Faults() != want {
			t.Errorf("proxy %d, seed %d: interruptions = %d: %+v", i, seed+i, doors[i].Faults(), doors[i].Requests())
		}
	}
}

package clients

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/scripts/internal/fenced"
	"parley/shared/testkit"
)

// languages maps the language of a code block to the function that runs such blocks.
var languages = map[string]func(*reader, *testing.T, fenced.Block){
	"sh":     (*reader).sh,
	"cron":   (*reader).cron,
	"js":     (*reader).js,
	"python": (*reader).python,
	"go":     (*reader).golang,
	"sql":    (*reader).sql,
	"yaml":   (*reader).yaml,
	"json":   (*reader).json,
	"env":    (*reader).dotenv,
	"html":   (*reader).html,
	"text":   (*reader).shown,
}

// testedElsewhere lists documents whose code blocks other tests run. Tests of the SDKs run the
// blocks of the SDKs' documents in empty projects. Tests in scripts/e2e run the blocks about the
// command line, backups and upgrades. The blocks about deployment are run by `make test-compose`,
// which needs a container engine, and by `make manifests`.
var testedElsewhere = []string{
	"sdk/typescript/README.md", "sdk/python/README.md", "docs/cli.md", "docs/deploy.md", "docs/operations.md", "docs/upgrade.md",
}

// TestDocuments runs every code block in every document. It fails if a block has no language or an
// unknown language.
func TestDocuments(t *testing.T) {
	t.Parallel()
	root := testkit.Root(t)
	for _, document := range documents(t, root) {
		if slices.Contains(testedElsewhere, document) {
			continue
		}
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			blocks := blocksToRun(t, root, document)
			if len(blocks) == 0 {
				return
			}
			r := newReader(t, root)
			for _, b := range blocks {
				run, known := languages[b.Language]
				if !known {
					t.Errorf("%s: no test runs blocks of the language %q", b, b.Language)
					continue
				}
				if run(r, t, b); t.Failed() {
					return // later blocks depend on this block
				}
			}
			r.checkUsed(t)
		})
	}
}

// provesDelivery matches commands that are whole proofs of delivery, which use much CPU time.
var provesDelivery = regexp.MustCompile(`parley prove .*--kill`)

// sabotages matches commands that are proofs with a fault, which must fail.
var sabotages = regexp.MustCompile(`parley prove .*--sabotage`)

// sampled returns all blocks except whole proofs. Of these, it keeps one without --sabotage, and one
// with --sabotage, which shows that a proof can fail. The seed determines which. It also keeps
// proofs without --kill, which kill each part of the service. If it omits no block, omitted is
// empty.
func sampled(blocks []fenced.Block, seed uint64) (kept, omitted []fenced.Block) {
	var honest, sabotaged []fenced.Block
	for _, b := range blocks {
		switch {
		case b.Language != "sh" || !provesDelivery.MatchString(b.Text):
		case sabotages.MatchString(b.Text):
			sabotaged = append(sabotaged, b)
		default:
			honest = append(honest, b)
		}
	}

	random := rand.New(rand.NewPCG(seed, 0))
	for _, proofs := range [][]fenced.Block{honest, sabotaged} {
		if len(proofs) > 0 {
			chosen := random.IntN(len(proofs))
			omitted = append(omitted, slices.Delete(slices.Clone(proofs), chosen, chosen+1)...)
		}
	}

	for _, b := range blocks {
		if !slices.Contains(omitted, b) {
			kept = append(kept, b)
		}
	}
	return kept, omitted
}

// blocksToRun reads a document's blocks. With -short, it returns a sample of them.
func blocksToRun(t *testing.T, root, document string) []fenced.Block {
	t.Helper()
	blocks := blocksFor(t, root, document)
	if !testing.Short() {
		return blocks
	}
	kept, omitted := sampled(blocks, testkit.Seed(t))
	if len(omitted) > 0 {
		t.Logf("NOT TESTED with -short: %v", omitted)
	}
	return kept
}

// TestSampled checks that each block with a long command can be chosen, and that other blocks
// always run.
func TestSampled(t *testing.T) {
	t.Parallel()
	var blocks []fenced.Block
	for n, text := range []string{
		"echo", "parley prove --kill nats", "parley prove --json --kill nats", "parley prove --json", "parley prove --kill x",
		"parley prove --kill x --sabotage keys", "parley prove --kill x --sabotage ledger",
	} {
		blocks = append(blocks, fenced.Block{Line: n, Language: "sh", Text: text})
	}
	chosen := map[int]bool{}
	for seed := range uint64(50) {
		kept, omitted := sampled(blocks, seed)
		again, _ := sampled(blocks, seed)
		if len(kept) != 4 || len(omitted) != 3 || !slices.Contains(kept, blocks[0]) || !slices.Contains(kept, blocks[3]) ||
			slices.Contains(kept, blocks[5]) == slices.Contains(kept, blocks[6]) || !slices.Equal(kept, again) {
			t.Fatalf("seed %d: %v", seed, kept)
		}
		for _, b := range kept {
			chosen[b.Line] = true
		}
	}
	if len(chosen) != len(blocks) {
		t.Errorf("chosen blocks: %v", chosen)
	}
	if kept, omitted := sampled(blocks[:2], 1); len(kept) != 2 || len(omitted) > 0 {
		t.Errorf("one long block: %v, without %v", kept, omitted)
	}
}

// documents returns the paths of the repository's Markdown files whose code blocks readers may run.
func documents(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "testdata" || name == "third_party" || name == "bin" ||
			strings.HasPrefix(name, ".") && path != root):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			below, err := filepath.Rel(root, path)
			found = append(found, filepath.ToSlash(below))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, must := range []string{"README.md", "CONTRIBUTING.md", "docs/streams.md"} {
		if !slices.Contains(found, must) {
			t.Fatalf("found documents %v, want %s among them", found, must)
		}
	}
	return found
}

// blocksFor reads a document's blocks.
func blocksFor(t *testing.T, root, document string) []fenced.Block {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := fenced.Read(document, string(raw))
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

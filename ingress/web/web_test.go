package web

import (
	"bytes"
	"compress/gzip"
	"html"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inline matches parts of a page that the pages' Content-Security-Policy would block.
var inline = regexp.MustCompile(`(?i)<script>|<script [^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|\ssrc="[^/]|\ssrc="//|href="(https?:)?//`)

func TestPages(t *testing.T) {
	t.Parallel()
	evil := `<script>alert(1)</script>`
	rendered := map[string][]byte{}
	add := func(name string, page []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		rendered[name] = page
	}
	page, err := RenderLogin(Login{Problem: evil, Email: evil + `"`, OpenID: true})
	add("login", page, err)
	for name, who := range map[string]Accept{"invited": {}, "invited and signed in": {SignedIn: true}} {
		who.Token, who.Organization, who.Email, who.As, who.Problem = "pi_x", evil, evil, "a member", evil
		page, err = RenderAccept(who)
		add(name, page, err)
	}
	page, err = RenderReset(Reset{Token: "pr_x", Email: evil, Problem: evil})
	add("reset", page, err)
	page, err = RenderNotice(Notice{Words: evil})
	add("notice", page, err)
	page, err = RenderSignup(Signup{Name: evil, Email: evil, Problem: evil, Next: evil})
	add("signup", page, err)
	dashboard, err := RenderDashboard(Boot{Session: map[string]string{"name": evil + `"'`}, BaseURL: "http://127.0.0.1:8080", Reset: "bin/parley reset-password", Currency: "EUR"})
	add("dashboard", dashboard, err)
	page, err = RenderPreview(Preview{AgentID: evil})
	add("preview", page, err)
	for name, page := range rendered {
		if found := inline.Find(page); found != nil {
			t.Errorf("%s contains inline content: %q", name, found)
		}
		for _, part := range []string{"<!doctype html>", `lang="en"`, "viewport", "<main", "</html>"} {
			if part == "<main" && name == "dashboard" {
				continue // the script of the page creates this element
			}
			if !bytes.Contains(page, []byte(part)) {
				t.Errorf("%s lacks %s", name, part)
			}
		}
	}
	boot := regexp.MustCompile(`data-boot="([^"]*)"`).FindSubmatch(dashboard)
	if boot == nil || !strings.Contains(html.UnescapeString(string(boot[1])), `{"session":{"name":"\u003cscript\u003ealert(1)\u003c/script\u003e\"'"},"baseUrl":"http://127.0.0.1:8080","reset":"bin/parley reset-password","currency":"EUR"}`) {
		t.Errorf("the dashboard's page contains %s", boot)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	assets, err := Assets()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{WidgetScript, WidgetFiles} {
		if _, there := assets[name]; !there {
			t.Errorf("missing %s; run make web", name)
		}
	}
	for _, bundle := range [][2]string{{"dashboard", ".js"}, {"dashboard-style", ".css"}, {"site-style", ".css"}, {"docs-style", ".css"}, {"reference-style", ".css"}, {"guide-style", ".css"}, {"docs-theme", ".js"}, {"docs-copy", ".js"}, {"docs-console", ".js"}, {"voice-worklet", ".js"}, {"highlight", ".js"}, {"widget-preview", ".js"}} {
		name, err := bundled(bundle[0], bundle[1])
		if _, there := assets[strings.TrimPrefix(name, "/assets/")]; err != nil || !there {
			t.Errorf("bundle %v: %q, %v", bundle, name, err)
		}
	}
	if _, err := bundled("nothing", ".js"); err == nil {
		t.Error("found a bundle that does not exist")
	}
	for name, asset := range assets {
		r, err := gzip.NewReader(bytes.NewReader(asset.Gzip))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(r); err != nil || !bytes.Equal(body, asset.Body) {
			t.Errorf("%s differs after decompression: %v", name, err)
		}
		if asset.Type == "" || asset.ETag == "" || bytes.Contains(asset.Body, []byte("sourceMappingURL")) {
			t.Errorf("%s: type %q, ETag %q", name, asset.Type, asset.ETag)
		}
		if elsewhere := foreign.Find(asset.Body); elsewhere != nil {
			t.Errorf("%s loads a resource from another host: %s", name, elsewhere)
		}
	}
}

// foreign matches code that loads a style sheet or script from another host.
var foreign = regexp.MustCompile(`url\((https?:)?//[^)]*\)|@import|\bimport\(?"https?:[^"]*"|\bfrom"https?:[^"]*"`)

var importedModule = regexp.MustCompile(`(?s)(?:import|export)[^;]*? from "(\.[^"]+)"`)

// sdk is the directory of the TypeScript SDK's modules.
const sdk = "../../sdk/typescript/src/"

// TestModulesImportInOneDirection checks that the modules of the pages have no import cycles, and
// that they import only types and the parser of event streams from elsewhere.
func TestModulesImportInOneDirection(t *testing.T) {
	t.Parallel()
	imports := map[string][]string{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{"dashboard", "widget", "kit"} {
		must(filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasPrefix(filepath.Ext(name), ".ts") {
				return err
			}
			source, err := os.ReadFile(name)
			for _, found := range importedModule.FindAllSubmatch(source, -1) {
				path := filepath.Join(filepath.Dir(name), string(found[1]))
				imports[name] = append(imports[name], path)
				onlyTypes := bytes.Contains(found[0], []byte("import type {")) || bytes.Contains(found[0], []byte("export type {"))
				if strings.HasPrefix(path, "..") && path != sdk+"sse" && (path != sdk+"types" || !onlyTypes) {
					t.Errorf("%s: this import is not allowed: %s", name, found[0])
				}
			}
			return err
		}))
	}
	module := func(path string) string {
		for _, extension := range []string{".ts", ".tsx", "/index.ts", ""} {
			if _, known := imports[path+extension]; known {
				return path + extension
			}
		}
		return ""
	}
	seen := map[string]int{} // state of a module by path; 1: in progress, 2: done
	var visit func(name string, way []string)
	visit = func(name string, way []string) {
		way = append(way, name)
		switch {
		case name == "" || seen[name] == 2:
			return
		case seen[name] == 1:
			t.Errorf("import cycle: %s", strings.Join(way[slices.Index(way, name):], " → "))
			return
		}
		seen[name] = 1
		for _, path := range imports[name] {
			visit(module(path), slices.Clone(way))
		}
		seen[name] = 2
	}
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		visit(name, nil)
	}
	if len(imports) < 50 {
		t.Errorf("found only %d modules", len(imports))
	}
}

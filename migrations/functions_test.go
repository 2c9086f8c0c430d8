package migrations

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// Each file in functions/ is named after the only function that it defines. The file begins with a
// comment about the purpose of the function. It grants rights and creates triggers for no other
// function.
func TestEachFunctionFileDefinesItsFunction(t *testing.T) {
	t.Parallel()
	functions, err := readFunctions(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(functions) < 80 {
		t.Fatalf("only %d functions", len(functions))
	}
	for _, f := range functions {
		for _, fault := range faultsFor(f) {
			t.Errorf("functions/%s.sql: %s", f.name, fault)
		}
	}
}

var (
	created = regexp.MustCompile(`(?m)^CREATE (?:OR REPLACE )?(\w+) (\w+)`)
	rights  = regexp.MustCompile(`(?m)^(?:REVOKE|GRANT|ALTER|DROP)\b.*\bFUNCTION (?:IF EXISTS )?(\w+)`)
	called  = regexp.MustCompile(`(?m)EXECUTE FUNCTION (\w+)\(\)`)
)

func faultsFor(f functionFile) (faults []string) {
	if !strings.HasPrefix(f.function, "-- ") {
		faults = append(faults, "it does not begin with a comment")
	}
	made := 0
	for _, m := range created.FindAllStringSubmatch(f.function, -1) {
		made++
		if m[0] != "CREATE OR REPLACE FUNCTION "+f.name {
			faults = append(faults, "it has "+m[0])
		}
	}
	if made != 1 {
		faults = append(faults, "it creates the function not once")
	}
	for _, m := range append(rights.FindAllStringSubmatch(f.function, -1), called.FindAllStringSubmatch(f.triggers, -1)...) {
		if m[1] != f.name {
			faults = append(faults, "it names the function "+m[1])
		}
	}
	for _, m := range created.FindAllStringSubmatch(f.triggers, -1) {
		if m[1] != "TRIGGER" {
			faults = append(faults, "behind its triggers it has "+m[0])
		}
	}
	definer := strings.Contains(f.function, "SECURITY DEFINER")
	for _, line := range []string{
		"REVOKE EXECUTE ON FUNCTION " + f.name + " FROM PUBLIC;", "GRANT EXECUTE ON FUNCTION " + f.name + " TO parley_app;",
		"ALTER FUNCTION " + f.name + " OWNER TO parley_system;",
	} {
		if definer != strings.Contains(f.function, "\n"+line+"\n") {
			faults = append(faults, "SECURITY DEFINER and its rights do not belong together: "+line)
		}
	}
	return faults
}

func TestFaultyFunctionFiles(t *testing.T) {
	t.Parallel()
	const good = "-- Returns 1.\nCREATE OR REPLACE FUNCTION f() RETURNS int\n  LANGUAGE sql AS $$ SELECT 1 $$;\n"
	for content, faulty := range map[string]bool{
		good: false,
		good + "\nCREATE OR REPLACE TRIGGER any_name AFTER DELETE ON runs EXECUTE FUNCTION f();\n":            false,
		good + "\nCREATE OR REPLACE TRIGGER any_name AFTER DELETE ON runs EXECUTE FUNCTION g();\n":            true,
		good + "\nCREATE OR REPLACE TRIGGER t AFTER DELETE ON runs EXECUTE FUNCTION f();\nCREATE TABLE t ();": true,
		good + good:                                                    true,
		strings.ReplaceAll(good, " f(", " g("):                         true,
		strings.TrimPrefix(good, "-- Returns 1.\n"):                    true,
		strings.ReplaceAll(good, "sql AS", "sql SECURITY DEFINER AS"):  true,
		good + "REVOKE EXECUTE ON FUNCTION g FROM PUBLIC;\n":           true,
		"-- Returns 1.\nDROP FUNCTION IF EXISTS f(int);\n" + good[14:]: false,
		"-- Returns 1.\n":                                              true,
	} {
		functions, err := readFunctions(fstest.MapFS{"functions/f.sql": {Data: []byte(content)}, "0001_x.sql": {}})
		if err != nil || len(functions) != 1 {
			t.Fatalf("%d functions, %v", len(functions), err)
		}
		if faults := faultsFor(functions[0]); (len(faults) > 0) != faulty {
			t.Errorf("%v in %s", faults, content)
		}
	}
}

func TestDigestIsOfEachFile(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, files := range []fstest.MapFS{
		{"0001_x.sql": {Data: []byte("a")}, "functions/f.sql": {Data: []byte("b")}},
		{"0001_x.sql": {Data: []byte("a")}, "functions/f.sql": {Data: []byte("c")}},
		{"0001_x.sql": {Data: []byte("a")}, "functions/g.sql": {Data: []byte("b")}},
		{"0001_x.sql": {Data: []byte("c")}, "functions/f.sql": {Data: []byte("b")}},
	} {
		digest, err := digestFiles(files)
		if err != nil || len(digest) != 16 || seen[digest] {
			t.Errorf("%q, %v", digest, err)
		}
		seen[digest] = true
	}
}

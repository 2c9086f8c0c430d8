package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/deploy/standalone/internal/console"
	"parley/shared/config"
	"parley/shared/connect"
	"parley/shared/sealed/sealedtest"
	"parley/shared/testkit"
)

// command runs a command with the database and the keys that the parameter in contains. It returns
// the texts on standard output and standard error.
func command(t *testing.T, run func(sealedDatabase) func(context.Context, *console.Console) error, in sealedDatabase) (out, notes string, err error) {
	t.Helper()
	var outBuffer, notesBuffer bytes.Buffer
	err = run(in)(t.Context(), &console.Console{In: strings.NewReader(""), Out: &outBuffer, Err: &notesBuffer})
	return outBuffer.String(), notesBuffer.String(), err
}

func status(in sealedDatabase) func(context.Context, *console.Console) error {
	return (&SecretsStatus{in}).Run
}

func reseal(in sealedDatabase) func(context.Context, *console.Console) error {
	return (&SecretsReseal{in}).Run
}

// TestSecretsRetireAKey replaces a key. The commands must count the values that need the old key,
// and encrypt them with the new key. Then no value needs the old key.
func TestSecretsRetireAKey(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	org := sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	in := func(setting string) sealedDatabase {
		return sealedDatabase{Secrets: config.Secrets{SecretsKey: setting}, DatabaseURL: dsn}
	}

	a, b := sealedtest.Box(t, sealedtest.KeyA).KeyIDs()[0], sealedtest.Box(t, sealedtest.KeyB).KeyIDs()[0]
	const needed = "tool 1, tool_version 2, widget 1, hook 1, notification 1, delivery 1, content 2"

	out, _, err := command(t, status, in(sealedtest.KeyB))
	if err == nil || !strings.Contains(err.Error(), "9 values need a key that SECRETS_KEY does not have ("+a+")") {
		t.Errorf("without the old key: %v", err)
	}

	want := "KEY       POSITION  STATE    VALUES  REMOVABLE  NEEDED BY\n" +
		b + "  1         current  0       no\n" +
		a + "  -         missing  9       no         " + needed + "\n"
	if out != want {
		t.Errorf("printed\n%swant\n%s", out, want)
	}
	if out, notes, err := command(t, reseal, in(sealedtest.KeyB)); err == nil || !strings.Contains(err.Error(), "9 values cannot be decrypted") ||
		!strings.Contains(notes, "cannot decrypt hook "+org.HookID+" of "+org.Organization+" (key "+a+")") || !strings.HasPrefix(out, "0 values resealed\n") {
		t.Errorf("resealing without the old key: %v, %s, %s", err, notes, out)
	}

	both := in(sealedtest.KeyB + "," + sealedtest.KeyA)
	if out, notes, err := command(t, reseal, both); err != nil || notes != "" || !strings.HasPrefix(out, "9 values resealed\n") {
		t.Errorf("resealing: error %v, notes %s, output %s", err, notes, out)
	}

	both.JSON = true
	out, _, err = command(t, status, both)
	var got struct {
		Keys []keyView `json:"keys"`
	}
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || len(got.Keys) != 2 {
		t.Fatalf("status: error %v, output %s", err, out)
	}
	if k := got.Keys[0]; k.ID != b || k.Position != 1 || k.State != "current" || k.Total != 9 || k.Removable {
		t.Errorf("the new key: %+v", k)
	}
	if k := got.Keys[1]; k.ID != a || k.Position != 2 || k.State != "old" || k.Total != 0 || !k.Removable {
		t.Errorf("the old key: %+v", k)
	}
	if out, _, err := command(t, reseal, both); err != nil || !strings.Contains(out, `"resealed":0,"unopened":0`) {
		t.Errorf("resealing again: error %v, output %s", err, out)
	}
	if _, _, err := command(t, status, in(sealedtest.KeyB)); err != nil {
		t.Errorf("with the new key alone: %v", err)
	}
	if failed := org.Unopened(t, sealedtest.KeyB); len(failed) > 0 {
		t.Errorf("with the new key alone: %v", failed)
	}
}

// TestSecretsOfRunningProcesses checks that the commands report a running process whose keys differ
// from theirs, even if the database contains no encrypted value.
func TestSecretsOfRunningProcesses(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	running, err := connect.Store(dsn, config.Secrets{SecretsKey: sealedtest.KeyA}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = running.Close() })
	if err := running.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}

	a, b := sealedtest.Box(t, sealedtest.KeyA).KeyIDs()[0], sealedtest.Box(t, sealedtest.KeyB).KeyIDs()[0]
	for setting, want := range map[string]string{
		sealedtest.KeyA:                         "",
		sealedtest.KeyA + "," + sealedtest.KeyB: "",
		sealedtest.KeyB:                         "encrypts with a key that is not in SECRETS_KEY (" + a + ")",
		sealedtest.KeyB + "," + sealedtest.KeyA: "lacks the first key of SECRETS_KEY (" + b + ") and has " + a,
	} {
		out, _, err := command(t, status, sealedDatabase{Secrets: config.Secrets{SecretsKey: setting}, DatabaseURL: dsn, JSON: true})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if !strings.Contains(out, `"running":[["`+a+`"]]`) {
			t.Errorf("printed %s", out)
		}
	}
}

// TestSecretsOfTheDataDirectory checks that, without SECRETS_KEY, the key comes from the data
// directory of parley up.
func TestSecretsOfTheDataDirectory(t *testing.T) {
	t.Parallel()
	dsn, dir := testkit.Postgres(t), t.TempDir()
	sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	in := sealedDatabase{DatabaseURL: dsn, DataDir: dir}
	if _, _, err := command(t, status, in); err == nil || !strings.Contains(err.Error(), "SECRETS_KEY is not set") {
		t.Errorf("without a key: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secrets.key"), []byte(sealedtest.KeyB+","+sealedtest.KeyA+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err := command(t, reseal, in); err != nil || !strings.HasPrefix(out, "9 values resealed\n") {
		t.Errorf("with the file: %v, %s", err, out)
	}

	in.DatabaseURL = ""
	if _, _, err := command(t, status, in); err == nil || !strings.Contains(err.Error(), "no PostgreSQL server is running in ") {
		t.Errorf("without a running server: %v", err)
	}
}

// TestSecretsResealInterrupted checks that an interrupted command reports how many values it has
// encrypted.
func TestSecretsResealInterrupted(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	in := sealedDatabase{Secrets: config.Secrets{SecretsKey: sealedtest.KeyB + "," + sealedtest.KeyA}, DatabaseURL: dsn}
	err := reseal(in)(ctx, &console.Console{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "stopped after resealing 0 values") {
		t.Errorf("interrupted: %v", err)
	}
}

// A damaged key is an error that names the file, and the file stays as it is.
func TestDamagedSecretsKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secrets.key")
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := secretsKey(path); err == nil || !strings.HasPrefix(err.Error(), path+" contains no valid key") {
		t.Error(err)
	}
	if raw, err := os.ReadFile(path); string(raw) != "damaged" {
		t.Errorf("%q, %v", raw, err)
	}
}

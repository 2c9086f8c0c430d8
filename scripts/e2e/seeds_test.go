package e2e

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/quickstart"
	"parley/shared/testkit"
)

// TestParleyUpRecreatesMissingSeeds removes the data that the first start of `parley up` creates,
// one part at a time. A user may remove a part, or an interrupted start may not have created it.
// The next start must recreate it.
func TestParleyUpRecreatesMissingSeeds(t *testing.T) { //nolint:tparallel // each subtest depends on the previous one
	nightly(t, "it starts parley up four times")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	parley := up(t, dir, testkit.FreePort(t))
	for _, lost := range []struct {
		name string
		lose func(*testing.T, string, quickstart.Credentials)
	}{
		{"credentials", loseCredentials}, {"agent", loseAgent}, {"key", loseKeys},
	} {
		went := t.Run(lost.name, func(t *testing.T) {
			before := readCredentials(t, dir)
			lost.lose(t, dir, before)
			endInOrder(t, parley, dir)
			parley.Restart()
			after := readCredentials(t, dir)
			if after.OrganizationID != before.OrganizationID {
				t.Errorf("the data is of organization %s, the new credentials of %s", before.OrganizationID, after.OrganizationID)
			}
			keyWorks(t, after)
		})
		if !went {
			return // later subtests depend on this one
		}
	}

	endInOrder(t, parley, dir)
}

func loseCredentials(t *testing.T, dir string, _ quickstart.Credentials) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "credentials.json")); err != nil {
		t.Fatal(err)
	}
}

func loseAgent(t *testing.T, _ string, creds quickstart.Credentials) {
	t.Helper()
	a := account{url: creds.BaseURL, key: creds.APIKey}
	a.send(t, http.MethodDelete, creds.BaseURL+"/api/agents?id="+creds.AgentID, nil).Want(t, http.StatusOK)
}

// loseKeys deletes every API key. The last key that it deletes is the one that authenticates these
// requests.
func loseKeys(t *testing.T, _ string, creds quickstart.Credentials) {
	t.Helper()
	a := account{url: creds.BaseURL, key: creds.APIKey}
	var keys struct {
		Data []struct {
			ID     string `json:"id"`
			Prefix string `json:"prefix"`
		} `json:"data"`
	}

	a.get(t.Context(), "/api/keys").Want(t, http.StatusOK).Into(t, &keys)
	own := ""
	for _, key := range keys.Data {
		if strings.HasPrefix(creds.APIKey, key.Prefix) {
			own = key.ID
			continue
		}
		a.send(t, http.MethodDelete, creds.BaseURL+"/api/keys?id="+key.ID, nil).Want(t, http.StatusOK)
	}

	a.send(t, http.MethodDelete, creds.BaseURL+"/api/keys?id="+own, nil).Want(t, http.StatusOK)
}

// TestParleyUpStoppedWhileItStarts interrupts the first start of `parley up` at several points, as
// a user may with Ctrl-C. The command must exit with status 0 and leave no process behind. The next
// start must succeed.
func TestParleyUpStoppedWhileItStarts(t *testing.T) {
	nightly(t, "it starts parley up five times")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	port := testkit.FreePort(t)
	for _, sign := range []string{"parley.lock", "postgres/data*/PG_VERSION", "postgres/data/postmaster.pid", "nats"} {
		starting := testkit.StartProcess(t, testkit.Command{
			Name: "parley", Path: testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), Args: []string{"up"}, Env: quickstart.Environment(dir, port),
		})
		eventually(t, 30*time.Second, sign+" exists", func() bool {
			found, err := filepath.Glob(filepath.Join(dir, sign))
			return err == nil && len(found) > 0
		})
		starting.Term()
		if err := starting.Wait(40 * time.Second); err != nil {
			t.Errorf("stopped at %s, parley did not exit with 0: %v", sign, err)
		}
		if left := processesBelow(t, dir); len(left) > 0 {
			t.Errorf("stopped at %s, parley left processes behind: %v", sign, left)
		}
	}

	parley := up(t, dir, port)
	keyWorks(t, readCredentials(t, dir))
	endInOrder(t, parley, dir)
}

// TestChaosParleyUpKilledWhileItSeeds kills the first start of `parley up` after it has created the
// owner's account and a key, but before it has created an agent and credentials.json. The next
// start must succeed.
func TestChaosParleyUpKilledWhileItSeeds(t *testing.T) {
	t.Parallel()
	program := testkit.BuildBinary(t, "deploy/standalone/cmd/parley") // before the transaction, which must not be idle for long
	postgres := testkit.PostgresProcess(t)
	db, err := sql.Open("postgres", postgres.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	// While this transaction is open, `parley up` cannot create an agent. The kill therefore always
	// happens at the same point.
	gate, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.ExecContext(t.Context(), "LOCK TABLE agents IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(t.TempDir(), "data")
	command := testkit.Command{
		Name: "parley", Path: program, Args: []string{"up"},
		Env: append(quickstart.Environment(dir, testkit.FreePort(t)), "DATABASE_URL="+postgres.DSN()), ReadyLine: "ingress ready",
	}

	killed := testkit.StartProcess(t, command)
	eventually(t, 30*time.Second, "the owner has a key", func() bool {
		var keys int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM api_keys").Scan(&keys); err != nil {
			t.Fatal(err)
		}
		return keys == 1
	})

	killed.Kill9()
	if err := gate.Rollback(); err != nil {
		t.Fatal(err)
	}

	command.ReadyLine = quickstart.BannerEnd
	again := testkit.StartProcess(t, command)
	keyWorks(t, readCredentials(t, dir))
	endInOrder(t, again, dir)
}

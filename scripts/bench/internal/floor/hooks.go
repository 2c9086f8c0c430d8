package floor

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/process"
)

// HooksPath is where deliveries are posted.
const HooksPath = "/deliver"

const deliveryMost = 25 << 20 // bytes

// RunHooks serves on address until ctx ends: it checks a delivery's signature, as GitHub makes it, and answers 202 once its id and
// body are on disk.
func RunHooks(ctx context.Context, address, databaseURL, secret string) (err error) {
	inserter, err := newInserter(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inserter.close()) }()
	var background sync.WaitGroup
	defer background.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background.Go(func() { inserter.run(ctx) })
	door := &hookDoor{inserter: inserter, secret: []byte(secret)}
	return serve(ctx, address, door.routes())
}

// hookDoor takes deliveries.
type hookDoor struct {
	inserter *inserter
	secret   []byte
}

func (d *hookDoor) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.POST(HooksPath, d.deliver)
	router.GET(ReadyPath, func(c *gin.Context) { c.Status(http.StatusOK) })
	return router
}

func (d *hookDoor) deliver(c *gin.Context) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, deliveryMost))
	if err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": err.Error()})
		return
	}
	if !signed(d.secret, body, c.GetHeader("X-Hub-Signature-256")) {
		c.JSON(http.StatusUnauthorized, gin.H{"error": "wrong signature"})
		return
	}
	id := c.GetHeader("X-Github-Delivery")
	if err := d.inserter.insert(c.Request.Context(), id, string(body)); err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"error": err.Error()})
		return
	}
	c.JSON(http.StatusAccepted, gin.H{"status": "accepted", "deliveryId": id})
}

func signed(secret, body []byte, signature string) bool {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write(body) // a hash never fails
	return hmac.Equal([]byte("sha256="+hex.EncodeToString(mac.Sum(nil))), []byte(signature))
}

// Hooks is a running process of deliveries.
type Hooks struct {
	process.Group
	address string
}

// StartHooks starts it from a binary that calls RunHooks on the argument floor-hooks, with ADDRESS, DATABASE_URL and SECRET in its
// environment.
func StartHooks(ctx context.Context, command, databaseURL, secret, logsDir string) (*Hooks, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	h := &Hooks{address: fmt.Sprintf("127.0.0.1:%d", port)}
	started, err := h.Group.Start(ctx, process.Config{
		Name: "floor-hooks", Path: command, Args: []string{"floor-hooks"}, LogsDir: logsDir,
		Env: map[string]string{"ADDRESS": h.address, "DATABASE_URL": databaseURL, "SECRET": secret},
	})
	if err == nil {
		err = started.AwaitOK(ctx, "http://"+h.address+ReadyPath)
	}
	if err != nil {
		return nil, errors.Join(err, h.Stop())
	}
	return h, nil
}

// Load is a delivery to the floor, signed with the secret; how long and by how many is the caller's to say.
func (h *Hooks) Load(secret string) load.Spec {
	return load.Delivery(h.address, HooksPath, secret)
}

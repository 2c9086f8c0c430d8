package floor

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"
)

const maxDelivery = 25 << 20 // bytes

// runHooks serves webhook deliveries until ctx ends. It verifies each delivery's signature as
// GitHub computes it, and returns 202 when the delivery's id and body are on disk.
func runHooks(ctx context.Context, c Config) error {
	return withInserter(ctx, c.DatabaseURL, func(ctx context.Context, inserter *inserter) error {
		h := &hooks{inserter: inserter, secret: []byte(c.Secret)}
		return serve(ctx, c.Address, routes(h.deliver))
	})
}

// hooks handles webhook deliveries.
type hooks struct {
	inserter *inserter
	secret   []byte
}

// deliver verifies the signature of a delivery and inserts its id and body. It starts no run.
func (h *hooks) deliver(c *gin.Context) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxDelivery))
	if err != nil {
		refuse(c, http.StatusBadRequest, err)
		return
	}

	mac := hmac.New(sha256.New, h.secret)
	_, _ = mac.Write(body) // a hash never fails
	if !hmac.Equal([]byte("sha256="+hex.EncodeToString(mac.Sum(nil))), []byte(c.GetHeader("X-Hub-Signature-256"))) {
		refuse(c, http.StatusUnauthorized, errors.New("wrong signature"))
		return
	}

	id := c.GetHeader("X-Github-Delivery")
	if err := h.inserter.insert(c.Request.Context(), id, string(body)); err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	c.JSON(http.StatusAccepted, gin.H{"status": "accepted", "deliveryId": id})
}

package outbound

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

// body is a response body, decoded and limited in size. It is not safe for concurrent use, like any
// response body.
type body struct {
	ctx     context.Context //nolint:containedctx // context of the exchange, which lasts until the body is read
	cancel  context.CancelFunc
	raw     io.ReadCloser
	coding  string
	decoded io.Reader // nil until the first read
	left    int64
	err     error // returned by every further read
}

// newBody replaces the response's body with one that is decoded and has at most limit bytes.
// Closing the new body calls cancel.
func newBody(ctx context.Context, cancel context.CancelFunc, resp *http.Response, limit int64) {
	// The header may list several encodings. The function decoder rejects such a list.
	b := &body{ctx: ctx, cancel: cancel, raw: resp.Body, left: limit}
	b.coding = strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))

	// The headers Content-Encoding and Content-Length describe the encoded body, but the caller
	// gets the decoded body.
	if b.coding != "" && b.coding != "identity" {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	resp.Body = b
}

// Read returns decoded bytes. Its errors, except io.EOF, are of type *Error.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}

	// To create the decoder, a header of the stream must be read, which may wait for the network.
	// The decoder is therefore created only when the caller reads.
	if b.decoded == nil {
		if b.decoded, b.err = decoder(b.coding, b.raw, b.left); b.err != nil {
			b.err = b.explain(b.err)
			return 0, b.err
		}
	}

	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // reads one byte more than the limit, to detect a longer body
	}

	n, err := b.decoded.Read(p)
	if int64(n) > b.left {
		n, err = int(b.left), tooLarge()
	}

	// The error is kept, because a reader may call Read again after an error.
	b.left -= int64(n)
	b.err = b.explain(err)
	return n, b.err
}

// Close ends the exchange.
func (b *body) Close() error {
	err := b.raw.Close()
	b.cancel()
	return err
}

// tooLarge returns the error for a body that exceeds the limit.
func tooLarge() error { return &Error{Message: "The response is too large.", Err: ErrTooLarge} }

// explain converts an error of reading or decoding the body to an *Error. It returns nil and
// io.EOF unchanged.
func (b *body) explain(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}

	// If the context has ended, its error explains the failure better than the decoder's error
	// about missing data.
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	switch {
	case b.ctx.Err() != nil:
	case corrupt, errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum),
		errors.Is(err, zlib.ErrHeader), errors.Is(err, zlib.ErrChecksum):
		return &Error{Message: "The response's compression is invalid.", Err: err}
	}
	return describe(b.ctx, err, false)
}

// decoder decodes a content coding; the argument limit is the maximum size of the decoded body. The
// encoded input is limited, too, because a stream may never produce output. Only the codings that
// the request offers are supported.
func decoder(coding string, raw io.Reader, limit int64) (io.Reader, error) {
	if coding == "" || coding == "identity" {
		return raw, nil
	}

	// The limit of the encoded input is higher than the limit of the decoded body. Data that cannot
	// be compressed becomes longer when it is encoded.
	in := bufio.NewReader(&limitedReader{raw, limit + limit/8 + 64<<10})
	head, err := in.Peek(2)
	if len(head) == 0 && errors.Is(err, io.EOF) {
		return in, nil // an empty body, for example after HEAD
	}

	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(in)
	case "deflate": // by definition zlib's format, but often the bare deflate stream
		if len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			return zlib.NewReader(in)
		}
		return flate.NewReader(in), nil
	default:
		return nil, &Error{Message: "The response has an encoding that was not requested."}
	}
}

// limitedReader reads at most left bytes. After that, it returns an error, while an
// io.LimitedReader returns io.EOF.
type limitedReader struct {
	from io.Reader
	left int64
}

// Read returns ErrTooLarge if left bytes were read before.
func (c *limitedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, tooLarge()
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.from.Read(p)
	c.left -= int64(n)
	return n, err
}
